"""Core of a memory store on a server. It only checks arguments and renders refusals."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn

from retentive.engine.rendering import Say, error_reply
from retentive.errors import Refused
from retentive.remote.methods import no_route
from retentive.remote.objects import parsed
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import Actor
from retentive.values.replies import REPLIES, Replies, Reply

SAY = Say(REPLIES, lambda text: text)
"""Texts for connection errors. They contain the paths that the caller gave."""


class RemoteCore:
    """Replaces a `StoreCore`. Each method that needs the storage raises `InvalidInput`."""

    @property
    def replies(self) -> Replies:
        """Texts for errors in arguments."""
        return REPLIES

    def checking(self, name: str | None, actor: Actor | str | None = None) -> AbstractContextManager[None]:
        """Check arguments without an audit entry: the server audits only the calls that reach it."""
        return nullcontext()

    def parsed(self, path: str) -> MemoryPath:
        """Parse a path given by a program. Raises `InvalidPath`."""
        return parsed(path)

    def redacted(self, text: str) -> str:
        """Return the text unchanged, because the server masks sensitive values in its replies."""
        return text

    def refused(self, name: str | None, error: Refused, *, actor: Actor | str | None = None) -> Reply:
        """Return the reply to a malformed tool call."""
        return error_reply(SAY, error, (MemoryPath.known(ROOT),))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise no_route("this operation")
