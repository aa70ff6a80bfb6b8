"""Which memory a command works on: what the options of `commonplace` say, and opening it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

import commonplace
from commonplace.errors import NotFound
from commonplace.opening import DEFAULT_KEY, Commonplace, is_there
from commonplace.store import MemoryStore


@dataclass(frozen=True, slots=True)
class Place:
    """A place, a memory store in it, who works there, and the language of the replies."""

    at: str
    key: str
    actor: str | None
    language: str

    @contextmanager
    def existing(self) -> Iterator[MemoryStore]:
        """The memory store, for commands that need what is there: a mistyped name makes nothing.

        Raises `NotFound` if the place or the store is not there.
        """
        with self.opened() as found:
            if self.key != DEFAULT_KEY and found.backend.get_store(self.key) is None:
                raise NotFound(f"there is no memory store {self.key!r}")
            yield found.store(self.key)

    @contextmanager
    def made(self) -> Iterator[MemoryStore]:
        """The memory store, made if it is not there."""
        with self._open() as found:
            yield found.store(self.key)

    @contextmanager
    def opened(self) -> Iterator[Commonplace]:
        """All that is at the place. Raises `NotFound` if nothing is."""
        if not is_there(self.at):
            raise NotFound(f"there is no memory at {self.at} yet; `commonplace create` makes one")
        with self._open() as found:
            yield found

    def _open(self) -> Commonplace:
        return commonplace.open(self.at, replies=self.language, actor=self.actor or _login())


def _login() -> str:
    import getpass  # noqa: PLC0415 - the start of every command waits for imports

    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):  # a container that runs under a number without a name
        return f"user:{os.getuid()}"


pass_place = click.make_pass_decorator(Place)
"""Gives a subcommand the `Place` as its first argument."""
