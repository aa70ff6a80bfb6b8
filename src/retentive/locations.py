"""From the name of a place, a path or a URL, to the backend there. Drivers are imported when they are needed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from retentive.errors import InvalidInput
from retentive.extras import pip_install
from retentive.storage.contract import Backend, Clock, NewId, StoreInfo, plain_name, sortable_id

if TYPE_CHECKING:
    from retentive.storage.server.backend import ServerBackend

_DIRECTORY_MARKS = ("memories", ".retentive")  # one of them is in every directory that is somebody's memory


def open_backend(at: str | os.PathLike[str], *, clock: Clock = time.time, new_id: NewId = sortable_id) -> Backend:
    """The backend for a place. A driver is imported only when its backend is opened."""
    place = os.fspath(at)
    if not place or "\0" in place:
        raise InvalidInput("the place of the memory must not be empty")
    scheme, separator, rest = place.partition("://")
    if not isinstance(at, str) or not separator:
        return _open_directory(place, clock, new_id)
    if scheme not in _SCHEMES:
        raise InvalidInput(f"unknown kind of place {scheme!r}; known are a directory, and {', '.join(_SCHEMES)}")
    return _SCHEMES[scheme](rest, clock, new_id)


def _open_directory(place: str, clock: Clock, new_id: NewId) -> Backend:
    if os.name != "posix":
        raise InvalidInput("memories as plain files need Linux or macOS; sqlite:///memory.db works here")
    from retentive.storage.files.backend import DirectoryBackend  # noqa: PLC0415 - drivers are imported late

    if os.path.isfile(place):
        raise InvalidInput("the place is a file; for a SQLite database write sqlite:///NAME")
    return DirectoryBackend(place, clock=clock, new_id=new_id)


def _open_sqlite(rest: str, clock: Clock, new_id: NewId) -> Backend:
    from retentive.storage.sqlite.backend import SqliteBackend  # noqa: PLC0415 - drivers are imported late

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
    from retentive.storage.objects.backend import open_objects  # noqa: PLC0415

    with _driver("object storage", extra="objects"):
        return open_objects(f"{scheme}://{rest}", clock=clock, new_id=new_id)


@contextmanager
def _driver(what: str, *, extra: str) -> Iterator[None]:
    """Say what to install where an import fails."""
    try:
        yield
    except ImportError:
        raise InvalidInput(f"{what} needs its driver: {pip_install(extra)}") from None


def _sqlite_path(rest: str) -> str | None:
    """The file that `sqlite://` and `rest` name, None for a database in memory."""
    if rest in {"", "/", ":memory:", "/:memory:"}:
        return None
    if not rest.startswith("/"):
        raise InvalidInput("a SQLite place has three slashes before a relative path: sqlite:///memory.db")
    return rest[1:]


def is_in_memory(at: str) -> bool:
    """Whether a place is a database that is gone when it is closed."""
    scheme, separator, rest = at.partition("://")
    return bool(separator) and scheme == "sqlite" and _sqlite_path(rest) is None


def is_there(at: str | os.PathLike[str]) -> bool:
    """Whether opening the place would find something, rather than make it; True where only opening can tell."""
    place = os.fspath(at)
    scheme, separator, rest = place.partition("://")
    if isinstance(at, str) and separator:
        path = _sqlite_path(rest) if scheme == "sqlite" else None
        return path is None or os.path.lexists(path)
    return os.path.isfile(place) or any(os.path.lexists(os.path.join(place, mark)) for mark in _DIRECTORY_MARKS)


def find_store(backend: Backend, id_or_key: str) -> StoreInfo | None:
    """The memory store with this id, also an erased one, else the one with this key.

    Every id or key that somebody gives goes through here. Raises `InvalidInput` for one that cannot be: no storage
    has to answer for a lone surrogate.
    """
    return backend.get_store(plain_name("a store key", id_or_key))


def migrate_schema(at: str | os.PathLike[str], *, partitions: int = 0) -> list[int]:
    """Bring the tables at a place up to date, making them if they are not there; the numbers of the steps taken.

    On a database server this is the only thing that changes tables that hold something; may be run while others use
    it. `partitions` splits memories and versions by the hash of their store, when the tables are made. Elsewhere
    opening does all there is to do. Raises `InvalidInput`, `UnknownSchema` and the errors of storage.
    """
    scheme, _, rest = os.fspath(at).partition("://")
    if not isinstance(at, str) or scheme not in _SERVERS:
        if partitions:
            raise InvalidInput("only a database server has partitions")
        open_backend(at).close()
        return []
    backend = _open_server(scheme, rest, time.time, sortable_id, check=False)
    try:
        return backend.migrate(partitions=partitions)
    finally:
        backend.close()


_SERVERS = ("postgresql", "mariadb")
_OBJECTS = ("s3", "gs", "az", "memory")
_SCHEMES: dict[str, Callable[[str, Clock, NewId], Backend]] = {
    "sqlite": _open_sqlite,
    **{scheme: partial(_open_server, scheme) for scheme in _SERVERS},
    **{scheme: partial(_open_objects, scheme) for scheme in _OBJECTS},
}
