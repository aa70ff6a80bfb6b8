"""Core of a memory store on a server. It only checks arguments, and formats the errors that it finds."""

from __future__ import annotations

from typing import NoReturn

from retentive.engine.rendering import error_reply
from retentive.errors import Refused, RetentiveError
from retentive.remote.methods import no_route
from retentive.remote.objects import parsed
from retentive.values.paths import MemoryPath
from retentive.values.records import Actor
from retentive.values.replies import REPLIES, Replies, Reply


class RemoteCore:
    """Takes the place of `StoreCore` for a memory store on a server. Methods that need storage raise `InvalidInput`."""

    @property
    def replies(self) -> Replies:
        """Texts for errors in arguments."""
        return REPLIES

    def reject(self, error: RetentiveError, actor: Actor | str | None = None) -> NoReturn:
        """Raise `error`. The server writes audit entries for the calls that reach it."""
        raise error

    def parsed(self, path: str) -> MemoryPath:
        """Parse a path that the caller passed as an argument. Raises `InvalidPath`."""
        return parsed(path)

    def redacted(self, text: str) -> str:
        """Return the text unchanged. The server has already masked sensitive values."""
        return text

    def refused(self, name: str | None, error: Refused, *, actor: Actor | str | None = None) -> Reply:
        """Return the reply to a malformed tool call."""
        return error_reply(self, error)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise no_route("this operation")
