"""The location and memory store that the global options select for a command, and functions to open them."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

import retentive
from retentive.errors import InvalidInput, NotFound, ReadOnly, RetentiveError
from retentive.locations import find_store, is_foreign, location_exists, parse_location
from retentive.mounts import StoreOrMounts, tree_of
from retentive.opening import DEFAULT_KEY, DEFAULT_LOCATION, Keys, Retentive
from retentive.opening import is_remote as is_url_of_server
from retentive.remote import is_remote
from retentive.storage.contract import as_actor
from retentive.store import MemoryStore, core_of
from retentive.values.extras import pip_install
from retentive.values.mounting import MountOption
from retentive.values.paths import ROOT
from retentive.values.replies import Reply

if TYPE_CHECKING:
    from retentive.storage.sealed.keys import KeyRing

INTEGRATION = "cli"
"""Name of the command line in audit entries."""
KEYS_VARIABLE, FILE_VARIABLE = "RETENTIVE_KEYS", "RETENTIVE_KEYS_FILE"  # as in storage/sealed/keys.py, slow to import
NEEDS_MACHINE = ("admin", "console", "doctor", "gateway", "groups", "init", "keys", "serve", "tidy")
"""Commands that refuse the URL of a server."""
STORAGE_CODES = frozenset(
    ("storage_read_only", "store_full", "unavailable", "outcome_unknown", "damaged", "unknown_schema", "locked")
)
"""Codes of errors that concern the whole storage. The location is printed after the messages of these errors."""
READ_ONLY_ADVICE = "`retentive settings` shows what may be changed, and `retentive trust list` shows hidden memories."

_KEYS = re.compile(
    r"\{\s*\"(?:current|keys)\"\s*:.*\}|(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{43}=(?![\w=])|(?<!\w)rtv_[0-9A-Za-z_-]{20,}"
    r"|(?<=password=)[^\s&;'\"]+|(?<=pwd=)[^\s&;'\"]+"
)
_PLAIN = re.compile(
    r"[^:]*://(?:[^@/?#]*@)?(?P<host>(?:[^@/?#:\[\]]*|\[[^]@/?#]*\])(?::[0-9]*)?)(?P<path>(?:/[^@?#]*)?)(?:[?#][^@]*)?"
)
"""URL in which it is certain where the password ends."""


@dataclass(frozen=True, slots=True, eq=False)
class Location:
    """Values of the global options: a location, the key of a memory store in it, the actor, and the encryption keys.

    `url` is a directory or a URL. `keys` is the path of a key file. `mounts` are those of --mount. `typed` has the
    names of the options that were given on the command line, not by an environment variable or a default.
    """

    url: str = DEFAULT_LOCATION
    store_key: str = DEFAULT_KEY
    actor: str | None = None
    keys: str | None = None
    typed: frozenset[str] = frozenset()
    mounts: tuple[MountOption, ...] = ()

    @property
    def shown(self) -> str:
        """The location without its password. It can be printed."""
        return shown(self.url)

    @contextmanager
    def existing(self, *, sweep: bool = False) -> Iterator[MemoryStore]:
        """Open the memory store without creating anything, for commands that need existing memories.

        If `sweep` is true, idle memories expire first. Only commands that write memories set `sweep`, not those that
        read, undo or change settings. Raises `NotFound` if the location or the store does not exist.
        """
        with self.opened(sweep=sweep) as found:
            try:
                yield self.chosen(found)
            except ReadOnly as error:
                error.add_note(READ_ONLY_ADVICE)
                raise

    @contextmanager
    def created(self, *, sweep: bool = False, dry_run: bool = False) -> Iterator[MemoryStore]:
        """Open the memory store. Create the location and the store if they do not exist; for a dry run, see `tree`."""
        with replace(self, mounts=()).tree(create=not dry_run, sweep=sweep, dry_run=dry_run) as store:
            assert isinstance(store, MemoryStore)
            yield store

    @contextmanager
    def tree(self, *, create: bool = False, sweep: bool = False, dry_run: bool = False) -> Iterator[StoreOrMounts]:
        """Open the memory store and those of `mounts` as one tree; without mounts, the memory store itself.

        If `create` is true, the location and those of its memory stores that are not mounted read-only are created. For
        a dry run, a store at /memories that does not exist is an empty one. Raises `NotFound` for any other store that
        does not exist, and `InvalidInput` for an invalid mount point.
        """
        stores, places = dict[str, MemoryStore](), dict[str, Retentive]()
        with ExitStack() as stack:
            for mount in (MountOption(ROOT, self.store_key), *self.mounts):
                url, is_new = mount.url or self.url, create and not mount.is_read_only
                typed = self.typed - {"keys"} if mount.url else self.typed
                place = replace(self, url=url, store_key=mount.key, typed=typed)
                try:
                    if url not in places:
                        is_own = url == self.url
                        places[url] = stack.enter_context(
                            place.opened(create=create and is_own, sweep=sweep and is_own)
                        )
                    if not is_new and is_remote(places[url]):
                        places[url].get_store(mount.key)  # raises; the next call could create it
                    store = places[url].store(mount.key).through(INTEGRATION) if is_new else place.chosen(places[url])
                except NotFound:
                    if not dry_run or mount.point != ROOT:
                        raise
                    store = stack.enter_context(retentive.open("sqlite://")).store()
                stores[mount.point] = store.read_only() if mount.is_read_only else store
            yield tree_of(stores)

    def chosen(self, found: Retentive) -> MemoryStore:
        """Return the memory store with the key `store_key` in an opened location.

        Raises `NotFound` if the store does not exist. If a directory has plain files that retentive has not recorded
        yet, these files are the memories of its default store.
        """
        with suppress(NotFound):
            if is_remote(found):
                return found.store(self.store_key)
            is_known = find_store(found.backend, self.store_key) is not None
            if is_known or self._has_plain_files():
                return found.store(self.store_key).through(INTEGRATION)
        raise no_store(self.store_key)

    def named_store(self) -> str:
        """Return the value of --store. Raises `UsageError` if the command line does not contain this option.

        Commands that remove a whole store use this method, so that no store is removed by default.
        """
        if "store" not in self.typed:
            raise click.UsageError("Name the memory store with --store KEY. `retentive stores` lists them.")
        return self.store_key

    def _has_plain_files(self) -> bool:
        """Return whether the store is the default one of a directory with plain files, which become its memories.

        An in-memory database has a default store too.
        """
        scheme, path = parse_location(self.url)
        if scheme is not None or self.store_key != DEFAULT_KEY:
            return self.store_key == DEFAULT_KEY and scheme == "sqlite" and not path
        try:
            return bool(os.listdir(os.path.join(path, "memories")))
        except OSError:
            return False

    def take_over(self) -> None:
        """Record the plain files of a directory that retentive never opened as memories.

        The memories keep the ids that earlier reads have shown.
        """
        with naming("Location", self.shown):
            is_new = is_foreign(self.url) and location_exists(self.url)
        if is_new:
            with self.opened(create=True) as found:
                store = found.store()
                # not an operation, because it changes no memory
                core_of(store).backend.write(store.id, lambda _: None)
                store.memories()

    @contextmanager
    def opened(self, *, create: bool = False, sweep: bool = False) -> Iterator[Retentive]:
        """Open the location with all its memory stores.

        If `create` is true, a location that does not exist is created. If `create` is false, raises `NotFound` for it.
        """
        if is_url_of_server(self.url):
            name = click.get_current_context().command_path.partition(" ")[2]
            if name.startswith(NEEDS_MACHINE):
                raise InvalidInput(
                    f"`retentive {name}` cannot use a server; run the command on the machine of the server"
                )
            if "keys" in self.typed:
                raise InvalidInput("--keys has no effect on a server")
            actor, keys, makes = as_actor(self.actor), None, create  # by default, the actor is that of the API key
        else:
            with naming("Location", self.shown):
                is_there = location_exists(self.url)
            if not create and not is_there:
                raise NotFound(
                    f"there is no location {self.shown}; --at names another one, and `retentive create` creates one"
                )
            actor, keys = as_actor(self.actor_name), self.given_keys()
            # Plain files of a directory are recorded with the ids that earlier reads returned, if nothing is created.
            keeps_ids = keys is None and self._has_plain_files()
            makes = not is_foreign(self.url) or (create and not keeps_ids)
        with naming("Location", self.shown):
            opened = retentive.open(self.url, actor=actor, keys=keys, sweep=sweep, create=makes)
        with naming("Location", self.shown, codes=STORAGE_CODES), opened as found:
            yield found

    @property
    def actor_name(self) -> str:
        """The actor given by --actor, or else the user who runs this process. Raises `InvalidInput`."""
        if self.actor:
            return str(as_actor(self.actor))
        try:
            return f"user:{getpass.getuser()}"
        except (OSError, KeyError, ImportError):  # for example, in a container the user id may have no name
            return f"user:{os.getuid() if hasattr(os, 'getuid') else 'unknown'}"

    @property
    def key_file(self) -> str | None:
        """Path of the key file, from --keys or the environment. None if neither is given."""
        return self.keys if self.keys is not None else os.environ.get(FILE_VARIABLE) or None

    def given_keys(self) -> Keys | None:
        """Return the encryption keys, from --keys or the environment. Returns None if no keys are given.

        Raises `InvalidInput` for invalid keys. If the key file cannot be read, raises an error that names the file.
        """
        if self.keys is None and os.environ.get(KEYS_VARIABLE):
            return read_keys(None)
        return None if self.key_file is None else read_keys(self.key_file)


def no_store(key: str) -> NotFound:
    """Return the error for a memory store that does not exist."""
    return NotFound(f"there is no memory store {key!r}; `retentive stores` lists the existing ones")


def read_keys(path: str | None) -> KeyRing | None:
    """Return the encryption keys that a file contains, or the environment if `path` is None.

    Raises `InvalidInput`, `NotFound` or `PermissionDenied`, with the name of the file.
    """
    try:
        from retentive.storage.sealed.keys import KeyRing  # noqa: PLC0415 - imports cryptography
    except ImportError:
        raise InvalidInput(f"encryption needs the package cryptography: {pip_install('crypto')}") from None
    if path is None:
        return KeyRing.from_environment(os.environ)
    with naming("Key file", path):
        return KeyRing.from_file(path)


@contextmanager
def naming(label: str, name: str, *, codes: Collection[str] | None = None) -> Iterator[None]:
    """Context manager that adds a line, such as `File: backup.tar`, to errors whose code is in `codes`.

    If `codes` is None, the line is added to all errors. Messages of the library do not contain names of local files,
    because models and remote users read these messages. A person at the shell needs the names.
    """
    try:
        yield
    except RetentiveError as error:
        text = str(error)
        for of_python, of_command_line in _OPTIONS.items():
            text = text.replace(of_python, of_command_line)
        if text != str(error):
            error.args = (text,)
        if name and (codes is None or error.code in codes):
            error.add_note(f"{label}: {name}")
        raise


_OPTIONS = {
    "set ANTHROPIC_API_KEY or pass a client": "set ANTHROPIC_API_KEY",
    "pass an API key as `api_key`, or set RETENTIVE_API_KEY": "set RETENTIVE_API_KEY to an API key",
    "pass the API key as `api_key`, or set RETENTIVE_API_KEY": "set RETENTIVE_API_KEY to the API key",
    "use https, or pass insecure=True": "use https",
    "pass `ca_file`": "set SSL_CERT_FILE to a file with the certificate of its authority",
    "open the location with keys": "name its key file with --keys",
    "open the location with its encryption keys": "name its key file with --keys",
    "pass its keys, or pass": "name its key file, or",
}
"""What the messages of the library tell a Python program, and what they tell a person at the shell."""


def without_keys(text: str) -> str:
    """Mask what was passed in the wrong place: encryption keys, API keys of a server, and passwords of a database."""
    return _KEYS.sub("…", text)


def failure(error: RetentiveError) -> Reply:
    """Return the error reply for an exception. It includes the lines that `location.naming` added to the exception."""
    text = without_keys("\n".join([str(error), *getattr(error, "__notes__", [])]))
    return Reply(text if text.startswith("Error:") else f"Error: {text}", is_error=True, code=error.code)


def shown(url: str) -> str:
    """Return a location without user names, passwords and parameters.

    A password may contain any character. If it is not certain where the password ends, only the scheme is returned.
    """
    scheme, separator, _ = url.partition("://")
    if not separator:
        head, colon, _ = url.partition(":")
        return f"{head}:…" if colon and "@" in url else url
    if scheme.lower() in {"sqlite", "sqlite3"}:
        return url
    plain = _PLAIN.fullmatch(url)
    return f"{scheme}://…" if plain is None else f"{scheme}://{plain['host']}{plain['path']}"


pass_location = click.make_pass_decorator(Location, ensure=True)
"""Decorator that passes the `Location` to a subcommand as its first argument."""
