"""Parses locations and opens their backends. A location is the path of a directory, or a URL.

Database drivers are imported only when a location needs them.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from retentive.errors import InvalidInput, NotFound
from retentive.storage.contract import DEFAULT_WORKSPACE, Backend, Clock, NewId, StoreInfo, plain_name, sortable_id
from retentive.storage.disk import can_write, exists, expanded, kind_of, need_posix, need_readable
from retentive.values.extras import pip_install
from retentive.values.properties import named
from retentive.values.records import SYSTEM_STORE

PRIVATE = ".retentive"  # as in storage/files/tree.py, slow to import
_DATABASE_ENDINGS = (".db", ".db3", ".sqlite", ".sqlite3")
_ALIASES = {"postgres": "postgresql", "sqlite3": "sqlite"}
_SERVERS, _OBJECTS = ("postgresql", "mariadb"), ("s3", "gs", "az", "memory")
_SCHEMES = ("sqlite", *_SERVERS, *_OBJECTS)
_VARIABLE = re.compile(r"\$\{[^{}]*\}|\$\([^()]*\)|\$[A-Za-z_]\w*|%[A-Za-z_]\w*%|\{\{.*\}\}")
_WINDOWS = re.compile(r"^[A-Za-z]:(?=[\\/])|\\" if sys.platform != "win32" else "(?!)")
_IN_MEMORY = {"", "/", ":memory:", "/:memory:"}


def open_backend(
    location: str | os.PathLike[str],
    *,
    clock: Clock = time.time,
    new_id: NewId = sortable_id,
    create: bool = True,
    read_only: bool = False,
) -> Backend:
    """Open the backend of a location. Raises `InvalidInput` and the errors of storage.

    With `create=False`, opening or reading a directory of plain files creates nothing in it. In this case, the caller
    must call `location_exists` first, to check that the location exists. With `read_only`, local files and directories
    are opened without changing them.
    """
    scheme, rest = parse_location(location)
    _refuse_other_kinds(scheme, rest)
    if scheme is None:
        return _open_directory(rest, clock, new_id, create=create, read_only=read_only)
    if scheme == "sqlite":
        return _open_sqlite(rest or None, clock, new_id, read_only=read_only)
    if scheme == "postgresql":
        with _driver("PostgreSQL", extra="postgres"):
            from retentive.storage.server.postgresql import PostgresqlBackend  # noqa: PLC0415
        return PostgresqlBackend(rest, clock=clock, new_id=new_id)
    if scheme == "mariadb":
        with _driver("MariaDB", extra="mariadb"):
            from retentive.storage.server.mariadb import MariadbBackend  # noqa: PLC0415
        return MariadbBackend(rest, clock=clock, new_id=new_id)
    from retentive.storage.objects import ObjectsBackend  # noqa: PLC0415

    with _driver("object storage", extra="objects"):
        return ObjectsBackend(f"{scheme}://{rest}", clock=clock, new_id=new_id)


def parse_location(location: str | os.PathLike[str]) -> tuple[str | None, str]:
    """Return the scheme of a URL and what follows it. For a directory, return None and its path.

    What follows `sqlite` is the path of the database file; empty for a database in memory. `~` at the start of a path
    is replaced by the home directory. Raises `InvalidInput` for an invalid location, and for a path that looks like a
    database file or like a URL with a mistake.
    """
    if not isinstance(location, str | os.PathLike):
        raise InvalidInput(f"the location must be a path or a URL, not {type(location).__name__}")
    text = os.fspath(location)
    if not text or "\0" in text:
        raise InvalidInput("the location is empty or contains a NUL character; use a directory or a URL")
    scheme, separator, rest = text.partition("://")
    if isinstance(location, str) and separator:
        known = _known_scheme(scheme)
        if known != "sqlite" or rest in _IN_MEMORY:
            return known, "" if known == "sqlite" else rest
        if not rest.startswith("/"):
            raise InvalidInput("a SQLite URL needs three slashes before a relative path: sqlite:///memory.db")
        path = expanded(rest[1:])
        _refuse_typing_errors(path)
        if "?" in path and not os.path.lexists(path):
            raise InvalidInput("a SQLite URL has no parameters; remove the ? and what follows it")
        return known, path
    start = text.partition(":")[0].lower() if ":" in text else ""
    if start in {*_SCHEMES, *_ALIASES, "http", "https"} and not os.path.lexists(text):
        raise InvalidInput(
            "the location looks like a URL but has no :// after the scheme; use sqlite:///memory.db,"
            " postgresql://host/database, s3://bucket/prefix; for a directory, write ./ before the name"
        )
    path = expanded(text)
    _refuse_typing_errors(path)
    if path.lower().endswith(_DATABASE_ENDINGS) and not os.path.isdir(path):
        raise InvalidInput(
            "the location must be a directory, but it has the name of a database file; for a SQLite database use "
            "sqlite:///memory.db, or sqlite:////srv/memory.db for an absolute path"
        )
    return None, path


def _known_scheme(written: str) -> str:
    scheme = _ALIASES.get(written.lower(), written.lower())
    if scheme in {"http", "https"}:
        raise InvalidInput(
            "this operation is not available through a server; run it on the machine of the server, with the location "
            "that the server uses"
        )
    if scheme not in _SCHEMES:
        usable = ", ".join(f"{each}://" for each in (*_SCHEMES, "https"))
        raise InvalidInput(f"unknown scheme {written!r}; use a directory, or a URL that starts with {usable}")
    return scheme


def _refuse_typing_errors(path: str) -> None:
    """Raise `InvalidInput` for a path with a variable that nobody replaced, or with the form of another system.

    MCP clients and unit files pass `${HOME}` as it is, and a new memory store of this name would seem to be empty. A
    directory that really has such a name can be used.
    """
    match = _VARIABLE.search(path) or _WINDOWS.search(path)
    if match and not os.path.lexists(path[: match.end()] + path[match.end() :].partition("/")[0]):
        raise InvalidInput(
            "the location contains a variable, such as ${HOME} or %APPDATA%, that was not replaced by its value, or it"
            " is a path of Windows; use a path such as /home/ann/memory"
        )


def _refuse_other_kinds(scheme: str | None, path: str) -> None:
    """Raise `InvalidInput` if the path of a directory or a database file has something else."""
    kind, right = kind_of(path) if local_scheme(scheme) and path else "nothing", "a file" if scheme else "a directory"
    if kind not in {"nothing", right}:
        raise InvalidInput(
            f"the location is {kind}, not {right}; a SQLite database is sqlite:///FILE, and plain files are in a"
            " directory without sqlite:///"
        )


def _open_directory(path: str, clock: Clock, new_id: NewId, *, create: bool, read_only: bool) -> Backend:
    need_posix("a directory of memories", "on this system use sqlite:///memory.db")
    from retentive.storage.files import DirectoryBackend  # noqa: PLC0415 - drivers are imported late

    private = os.path.join(path, PRIVATE)
    if not read_only and is_foreign(path) and os.path.isdir(path) and not (create and can_write(private)):
        from retentive.storage.files.foreign import ForeignDirectory  # noqa: PLC0415 - rarely needed

        return ForeignDirectory(path, clock=clock, new_id=new_id)
    if read_only or not can_write(os.path.join(private, "memory.db")):
        from retentive.storage.files.read_only import ReadOnlyDirectory  # noqa: PLC0415 - rarely needed

        return ReadOnlyDirectory(path, compares=not read_only)
    return DirectoryBackend(path, clock=clock, new_id=new_id)


def _open_sqlite(path: str | None, clock: Clock, new_id: NewId, *, read_only: bool) -> Backend:
    from retentive.storage.sqlite import SqliteBackend  # noqa: PLC0415 - drivers are imported late

    is_there = path is not None and os.path.exists(path)
    if path is not None and (read_only or is_there):
        if is_there:
            need_readable(path)
        if read_only or not can_write(path):
            from retentive.storage.sqlite.read_only import ReadOnlyBackend  # noqa: PLC0415 - rarely needed

            return ReadOnlyBackend(path)
    return SqliteBackend(path, clock=clock, new_id=new_id)


@contextmanager
def _driver(product: str, *, extra: str) -> Iterator[None]:
    """Replace an `ImportError` with an `InvalidInput` that names the package to install."""
    try:
        yield
    except ImportError:
        raise InvalidInput(f"{product} needs a driver: {pip_install(extra)}") from None


def location_exists(location: str | os.PathLike[str], *, or_is_empty: bool = False) -> bool:
    """Return whether a location exists.

    Database servers and object storage are not contacted; for them the result is always True. An empty database file
    counts as existing only if `or_is_empty` is true. Raises `InvalidInput` and `PermissionDenied`, as `open_backend`.
    """
    scheme, path = parse_location(location)
    _refuse_other_kinds(scheme, path)
    if scheme is not None:
        return scheme != "sqlite" or not path or (exists(path) and (or_is_empty or os.path.getsize(path) > 0))
    memories = os.path.join(path, "memories")
    try:
        return exists(os.path.join(path, PRIVATE)) or bool(os.listdir(memories))
    except OSError:
        return os.path.lexists(memories)  # opening the location will raise the error with its reason


def local_path(location: str) -> str | None:
    """Return the path of the directory or database file of a location. Returns None if it has none on this machine."""
    if location.partition("://")[0].lower() in {"http", "https"}:
        return None
    scheme, path = parse_location(location)
    return path or None if local_scheme(scheme) else None


def local_scheme(scheme: str | None) -> bool:
    """Return whether locations with this scheme are on this machine."""
    return scheme in {None, "sqlite"}


def is_foreign(location: str | os.PathLike[str]) -> bool:
    """Return whether a location is the path of a directory that was never opened (it has no `.retentive`)."""
    scheme, path = parse_location(location)
    return scheme is None and not os.path.lexists(os.path.join(path, PRIVATE))


def find_store(backend: Backend, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo | None:
    """Return the memory store that has this id, or this key in the workspace. Returns None if it does not exist.

    An id finds a store even if it was erased. An invalid id or key, such as a string with a lone surrogate, raises
    `InvalidInput` and does not reach the storage. Raises `NotFound` for the internal store that has the records of the
    location. All lookups of stores go through this function.
    """
    if id_or_key == SYSTEM_STORE:
        raise NotFound(f"there is no memory store {id_or_key!r}")
    found = backend.get_store(plain_name("a store key", id_or_key), workspace=plain_name("a workspace id", workspace))
    return None if found is None else named(found)


def existing_store(backend: Backend, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo:
    """Return a memory store as `find_store` does. Raises `NotFound` if it does not exist or was erased."""
    info = find_store(backend, id_or_key, workspace=workspace)
    if info is None or info.erased_at is not None:
        raise NotFound(f"there is no memory store {id_or_key!r}")
    return info
