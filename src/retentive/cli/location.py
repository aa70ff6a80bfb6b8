"""The memory location and memory store of a command, from the options of `retentive`, and how it is opened."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

import retentive
from retentive.errors import InvalidInput, NotFound, RetentiveError
from retentive.locations import find_store, is_in_memory, location_exists
from retentive.opening import DEFAULT_KEY, Keys, Retentive
from retentive.store import MemoryStore
from retentive.values.extras import pip_install

if TYPE_CHECKING:
    from retentive.storage.sealed.keys import KeyRing

INTEGRATION = "cli"
"""The name of the command line in audit logs."""
KEYS_VARIABLE, FILE_VARIABLE = "RETENTIVE_KEYS", "RETENTIVE_KEYS_FILE"  # as in storage/sealed/keys.py, slow to import
STORAGE_CODES = frozenset({"store_full", "unavailable", "outcome_unknown", "damaged", "unknown_schema", "locked"})
"""Codes of errors of the storage as a whole, for which the location is printed."""
OPENING_CODES = STORAGE_CODES | {"permission_denied"}  # later, this is the permission of an actor


@dataclass(frozen=True, slots=True)
class Location:
    """A directory or URL with memory stores, the key of one of them, the actor, and the keys.

    `keys` is the path of a key file.
    """

    url: str
    store_key: str
    actor: str | None
    keys: str | None = None
    seal_paths: bool = False

    @property
    def shown(self) -> str:
        """The location without its password, to be printed."""
        return shown(self.url)

    @contextmanager
    def existing(self, *, sweep: bool = False) -> Iterator[MemoryStore]:
        """The memory store, for commands that need existing memories: a mistyped name creates nothing.

        `sweep` is for commands that write memories: idle memories expire first. Reading, undoing and changing settings
        expire nothing. Raises `NotFound` if the location or the store does not exist.
        """
        with self.opened(sweep=sweep) as found:
            yield self.chosen(found)

    def chosen(self, found: Retentive) -> MemoryStore:
        """The memory store in an opened location. Raises `NotFound` if it does not exist.

        Files that a person put into a directory before any command ran are its default memory store.
        """
        is_known = find_store(found.backend, self.store_key) is not None
        if not is_known and not (self.store_key == DEFAULT_KEY and self._becomes_store()):
            raise NotFound(
                f"the memory store {self.store_key!r} does not exist; `retentive stores` lists the existing ones"
            )
        return found.store(self.store_key).through(INTEGRATION)

    def _becomes_store(self) -> bool:
        """True if opening the default store records files that exist, or leaves nothing behind."""
        if "://" in self.url:
            return is_in_memory(self.url)
        try:
            return bool(os.listdir(os.path.join(self.url, "memories")))
        except OSError:
            return False

    @contextmanager
    def created(self, *, sweep: bool = False) -> Iterator[MemoryStore]:
        """The memory store, created if it does not exist; `sweep` as in `existing`."""
        with self.opened(create=True, sweep=sweep) as found:
            yield found.store(self.store_key).through(INTEGRATION)

    @contextmanager
    def opened(self, *, create: bool = False, sweep: bool = False) -> Iterator[Retentive]:
        """The opened location, with all its memory stores. Raises `NotFound` if it does not exist, unless `create`."""
        if not create and not location_exists(self.url):
            raise NotFound(f"{self.shown} does not exist; `retentive create` creates it")
        with naming("Location", self.shown, codes=OPENING_CODES):
            opened = retentive.open(
                self.url, actor=self.actor or _login(), keys=self.given_keys(), seal_paths=self.seal_paths, sweep=sweep
            )
        with naming("Location", self.shown, codes=STORAGE_CODES), opened as found:
            yield found

    def given_keys(self) -> Keys | None:
        """The keys from the option or the environment. Raises `InvalidInput`."""
        if self.keys is None and os.environ.get(KEYS_VARIABLE):
            return key_ring().from_environment(os.environ)
        return None if self.key_file is None else read_key_file(self.key_file)

    @property
    def key_file(self) -> str | None:
        """The path of the key file, from the option or the environment."""
        return self.keys if self.keys is not None else os.environ.get(FILE_VARIABLE) or None


def read_key_file(path: str) -> KeyRing:
    """The keys in a file. Raises `InvalidInput`, `NotFound` and `PermissionDenied`, which name the file."""
    with naming("Key file", path):
        return key_ring().from_file(path)


def key_ring() -> type[KeyRing]:
    """The class of key rings. Raises `InvalidInput` without the library for encryption."""
    try:
        from retentive.storage.sealed.keys import KeyRing  # noqa: PLC0415 - imports cryptography
    except ImportError:
        raise InvalidInput(f"encryption needs its library: {pip_install('crypto')}") from None
    return KeyRing


@contextmanager
def naming(label: str, name: str, *, codes: Collection[str] | None = None) -> Iterator[None]:
    """Adds a line such as `File: backup.tar` to errors with these codes; to all errors without `codes`.

    The messages of retentive name no file of the machine, since models and remote users read them. A person at the
    shell needs the name.
    """
    try:
        yield
    except RetentiveError as error:
        if codes is None or error.code in codes:
            error.add_note(f"{label}: {name}")
        raise


def shown(url: str) -> str:
    """The location without user names, passwords and parameters, to be printed."""
    scheme, separator, _ = url.partition("://")
    if not separator or scheme == "sqlite":
        return url
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _login() -> str:
    import getpass  # noqa: PLC0415 - the start of every command waits for imports

    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):  # a container that runs under a number without a name
        return f"user:{os.getuid()}"


pass_location = click.make_pass_decorator(Location)
"""Passes the `Location` to a subcommand as its first argument."""
