"""Which memory a command works on: what the options of `retentive` say, and opening it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import click

import retentive
from retentive.errors import InvalidInput, NotFound
from retentive.locations import find_store, is_in_memory, location_exists
from retentive.opening import DEFAULT_KEY, Keys, Retentive
from retentive.store import MemoryStore
from retentive.values.extras import pip_install

KEYS_VARIABLE, FILE_VARIABLE = "RETENTIVE_KEYS", "RETENTIVE_KEYS_FILE"  # as in backends/keys.py, not imported here


@dataclass(frozen=True, slots=True)
class Place:
    """A place, a memory store in it, who works there, and the keys."""

    at: str
    key: str
    actor: str | None
    keys: str | None = None
    seal_paths: bool = False

    @contextmanager
    def existing(self, *, sweep: bool = False) -> Iterator[MemoryStore]:
        """The memory store, for commands that need what is there: a mistyped name makes nothing.

        `sweep` is for commands that write memories: idle ones expire first. Who only looks, undoes or changes settings
        lets nothing go. Raises `NotFound` if the place or the store is not there.
        """
        with self.opened(sweep=sweep) as found:
            yield self.chosen(found)

    def chosen(self, found: Retentive) -> MemoryStore:
        """The memory store in an opened place. Raises `NotFound` if it is not there.

        Files that a person put into a directory are read as the store that they are to be.
        """
        if find_store(found.backend, self.key) is None and not (self.key == DEFAULT_KEY and self._is_new()):
            raise NotFound(f"there is no memory store {self.key!r}")
        return found.store(self.key)

    def _is_new(self) -> bool:
        """Whether opening makes the default memory store out of what is there, or nothing of it stays."""
        if "://" in self.at:
            return is_in_memory(self.at)
        try:
            return bool(os.listdir(os.path.join(self.at, "memories")))
        except OSError:
            return False

    @contextmanager
    def made(self, *, sweep: bool = False) -> Iterator[MemoryStore]:
        """The memory store, made if it is not there; `sweep` as for `existing`."""
        with self.opened(make=True, sweep=sweep) as found:
            yield found.store(self.key)

    @contextmanager
    def opened(self, *, make: bool = False, sweep: bool = False) -> Iterator[Retentive]:
        """All that is at the place. Raises `NotFound` if nothing is, unless `make`; a memory store is not made."""
        if not make and not location_exists(self.at):
            raise NotFound(f"there is no memory at {self.at} yet; `retentive create` makes one")
        with retentive.open(
            self.at,
            actor=self.actor or _login(),
            keys=self.given_keys(),
            seal_paths=self.seal_paths,
            sweep=sweep,
        ) as found:
            yield found

    def given_keys(self) -> Keys | None:
        """The keys that the option or the environment names. Raises `InvalidInput`."""
        if self.keys is not None:
            return self.keys
        if not any(os.environ.get(name) for name in (KEYS_VARIABLE, FILE_VARIABLE)):
            return None
        try:
            from retentive.storage.sealed.keys import KeyRing  # noqa: PLC0415 - imports cryptography
        except ImportError:
            raise InvalidInput(f"encryption needs its library: {pip_install('crypto')}") from None
        return KeyRing.from_environment(os.environ)


def key_file(option: str | None, environ: Mapping[str, str]) -> str | None:
    """The key file that is named by the option or the environment."""
    return option if option is not None else environ.get(FILE_VARIABLE) or None


def _login() -> str:
    import getpass  # noqa: PLC0415 - the start of every command waits for imports

    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):  # a container that runs under a number without a name
        return f"user:{os.getuid()}"


pass_place = click.make_pass_decorator(Place)
"""Gives a subcommand the `Place` as its first argument."""
