"""Parsing of locations (a directory path or a URL), and their backends. Drivers are imported when needed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from retentive.errors import InvalidInput, NotFound
from retentive.storage.contract import DEFAULT_WORKSPACE, Backend, Clock, NewId, StoreInfo, plain_name, sortable_id
from retentive.storage.disk import expanded, need_posix
from retentive.values.extras import pip_install
from retentive.values.properties import named
from retentive.values.records import SYSTEM_STORE

if TYPE_CHECKING:
    from retentive.storage.server import ServerBackend

_DATABASE_ENDINGS = (".db", ".db3", ".sqlite", ".sqlite3")
_ALIASES = {"postgres": "postgresql", "sqlite3": "sqlite"}
_EXAMPLES = "sqlite:///memory.db, postgresql://host/database, s3://bucket/prefix"


def open_backend(
    location: str | os.PathLike[str], *, clock: Clock = time.time, new_id: NewId = sortable_id, create: bool = True
) -> Backend:
    """Open the backend for a location. Raises `InvalidInput` and the errors of storage.

    If `create` is False, the location must exist, and opening or reading a directory creates nothing in it.
    """
    scheme, rest = parse_location(location)
    if scheme is None:
        return _open_directory(rest, clock, new_id, create=create)
    return _SCHEMES[scheme](rest, clock, new_id)


def parse_location(location: str | os.PathLike[str]) -> tuple[str | None, str]:
    """Split a URL into its scheme and the rest. For a directory, return None and the path. `~` is expanded in paths.

    Raises `InvalidInput`, also if the path of a directory looks like a database file or a URL.
    """
    if not isinstance(location, str | os.PathLike):
        raise InvalidInput(f"the location must be a path or a URL, not {type(location).__name__}")
    text = os.fspath(location)
    if not text or "\0" in text:
        raise InvalidInput("the location is empty or contains a NUL character; use a directory or a URL")
    scheme, separator, rest = text.partition("://")
    if isinstance(location, str) and separator:
        scheme = _known_scheme(scheme)
        path = _sqlite_path(rest) if scheme == "sqlite" else None
        return scheme, rest if path is None else f"/{expanded(path)}"
    if isinstance(location, str) and _schemed(text.partition(":")[0]) in _SCHEMES and ":" in text:
        raise InvalidInput(
            f"the location looks like a URL but has no :// after the scheme; use {_EXAMPLES};"
            " for a directory write ./ before its name"
        )
    path = expanded(text)
    if path.lower().endswith(_DATABASE_ENDINGS) and not os.path.isdir(path):
        raise InvalidInput(
            "the location is the name of a database file, not of a directory; for a SQLite database use "
            "sqlite:///memory.db, or sqlite:////srv/memory.db for an absolute path"
        )
    return None, path


def _schemed(name: str) -> str:
    return _ALIASES.get(name.lower(), name.lower())


def _known_scheme(written: str) -> str:
    scheme = _schemed(written)
    if scheme in _SCHEMES:
        return scheme
    kind = _schemed(scheme.partition("+")[0])
    if kind in {"http", "https"}:
        raise InvalidInput("this needs the storage itself, not the URL of a server; do it on the machine of the server")
    if kind == "mysql":
        raise InvalidInput(
            "MySQL is not supported; use MariaDB 10.11 or newer, mariadb://user:password@host/database, "
            f"or another of {', '.join(_SCHEMES)}"
        )
    usable = f"a directory, or a URL that starts with {', '.join(f'{scheme}://' for scheme in _SCHEMES)}"
    if kind in _SCHEMES:
        usable = f"{kind}://, without the name of a driver"
    raise InvalidInput(f"unknown scheme {written!r}; use {usable}")


def _open_directory(path: str, clock: Clock, new_id: NewId, *, create: bool) -> Backend:
    need_posix("a directory of memories", "on this system use sqlite:///memory.db")
    from retentive.storage.files import DirectoryBackend  # noqa: PLC0415 - drivers are imported late

    if os.path.isfile(path):
        raise InvalidInput("the location is a file, not a directory; for a SQLite database use sqlite:///NAME")
    if not create and is_foreign(path):
        from retentive.storage.files.foreign import ForeignDirectory  # noqa: PLC0415 - rarely needed

        return ForeignDirectory(path, clock=clock, new_id=new_id)
    return DirectoryBackend(path, clock=clock, new_id=new_id)


def _open_sqlite(rest: str, clock: Clock, new_id: NewId) -> Backend:
    from retentive.storage.sqlite import SqliteBackend  # noqa: PLC0415 - drivers are imported late

    return SqliteBackend(_sqlite_path(rest), clock=clock, new_id=new_id)


def _open_server(scheme: str, rest: str, clock: Clock, new_id: NewId, *, check: bool = True) -> ServerBackend:
    if scheme == "postgresql":
        with _driver("PostgreSQL", extra="postgres"):
            from retentive.storage.server.postgresql import open_postgresql  # noqa: PLC0415
        return open_postgresql(rest, clock=clock, new_id=new_id, check=check)
    with _driver("MariaDB", extra="mariadb"):
        from retentive.storage.server.mariadb import open_mariadb  # noqa: PLC0415
    return open_mariadb(rest, clock=clock, new_id=new_id, check=check)


def _open_objects(scheme: str, rest: str, clock: Clock, new_id: NewId) -> Backend:
    from retentive.storage.objects import open_objects  # noqa: PLC0415

    with _driver("object storage", extra="objects"):
        return open_objects(f"{scheme}://{rest}", clock=clock, new_id=new_id)


@contextmanager
def _driver(product: str, *, extra: str) -> Iterator[None]:
    """Turn a failed import into an error that names the package to install."""
    try:
        yield
    except ImportError:
        raise InvalidInput(f"{product} needs its driver: {pip_install(extra)}") from None


def _sqlite_path(rest: str) -> str | None:
    """File path in the URL `sqlite://{rest}`; None for an in-memory database."""
    if rest in {"", "/", ":memory:", "/:memory:"}:
        return None
    if not rest.startswith("/"):
        raise InvalidInput("a SQLite URL needs three slashes before a relative path: sqlite:///memory.db")
    return rest[1:]


def is_in_memory(location: str) -> bool:
    """Return whether the location is an in-memory database, which is lost when closed."""
    scheme, rest = parse_location(location)
    return scheme == "sqlite" and _sqlite_path(rest) is None


def location_exists(location: str | os.PathLike[str], *, or_is_empty: bool = False) -> bool:
    """Return whether a location exists, so that opening it creates nothing. True if only opening it can tell.

    An empty database file counts as existing only with `or_is_empty`.
    """
    scheme, rest = parse_location(location)
    if scheme is not None:
        path = _sqlite_path(rest) if scheme == "sqlite" else None
        return path is None or (os.path.lexists(path) and (or_is_empty or not _is_empty_file(path)))
    return os.path.isfile(rest) or os.path.lexists(os.path.join(rest, ".retentive")) or _has_files(rest)


def is_foreign(location: str | os.PathLike[str]) -> bool:
    """Return whether the location is a directory of memories that retentive has never opened."""
    scheme, path = parse_location(location)
    return scheme is None and not os.path.lexists(os.path.join(path, ".retentive"))


def _is_empty_file(path: str) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) == 0


def _has_files(directory: str) -> bool:
    """True if the directory contains a `memories` folder with files, even if it was never opened."""
    memories = os.path.join(directory, "memories")
    try:
        return bool(os.listdir(memories))
    except OSError:
        return os.path.lexists(memories)  # opening says why it cannot be read


def find_store(backend: Backend, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo | None:
    """Find a memory store by id, or by its key in a workspace. An id also finds an erased store.

    All callers look up ids and keys with this function. It raises `InvalidInput` for an invalid id or key, such as a
    string with a lone surrogate, before the storage gets it, and `NotFound` for the store of the location's records.
    """
    if id_or_key == SYSTEM_STORE:
        raise NotFound(f"there is no memory store {id_or_key!r}")
    found = backend.get_store(plain_name("a store key", id_or_key), workspace=plain_name("a workspace id", workspace))
    return None if found is None else named(found)


def existing_store(backend: Backend, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo:
    """Find a memory store like `find_store`. Raises `NotFound` for an unknown or erased store, and `InvalidInput`."""
    info = find_store(backend, id_or_key, workspace=workspace)
    if info is None or info.erased_at is not None:
        raise NotFound(f"there is no memory store {id_or_key!r}")
    return info


def migrate_schema(location: str | os.PathLike[str], *, partitions: int = 0) -> list[int]:
    """Create or migrate the tables of a database server; return the numbers of the migrations applied.

    No other function changes tables that contain data. Other processes may use the database meanwhile. When the tables
    are created, `partitions` splits the tables of memories and versions by the hash of the store number. Locations of
    other kinds are migrated when they are opened. Raises `InvalidInput`, `UnknownSchema` and the errors of storage.
    """
    scheme, rest = parse_location(location)
    if scheme is None or scheme not in _SERVERS:
        if partitions:
            raise InvalidInput("partitions need a location on a database server (PostgreSQL or MariaDB)")
        open_backend(location).close()
        return []
    with closing(_open_server(scheme, rest, time.time, sortable_id, check=False)) as backend:
        return backend.migrate(partitions=partitions)


_SERVERS = ("postgresql", "mariadb")
_SCHEMES: dict[str, Callable[[str, Clock, NewId], Backend]] = {
    "sqlite": _open_sqlite,
    **{scheme: partial(_open_server, scheme) for scheme in _SERVERS},
    **{scheme: partial(_open_objects, scheme) for scheme in ("s3", "gs", "az", "memory")},
}
