"""`open`: from a place to a working memory, the one spot where the parts are put together."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

from commonplace.backends.base import Actor, Backend, Clock, NewId, StoreInfo, as_actor, plain_name, sortable_id
from commonplace.errors import InvalidInput, NotFound
from commonplace.limits import DEFAULT_LIST_ROWS, DEFAULT_MAX_MEMORY_BYTES, DEFAULT_VIEW_CHARS, Limits
from commonplace.replies import LANGUAGES, Replies
from commonplace.store import MemoryStore

if TYPE_CHECKING:
    from commonplace.backends.keys import KeyWrapper

Keys: TypeAlias = "str | os.PathLike[str] | KeyWrapper"
"""A key file by its path, or keys that are opened already."""
DEFAULT_PLACE = "./memory"
DEFAULT_KEY = "default"
_DIRECTORY_MARKS = ("memories", ".commonplace")  # one of them is in every directory that is somebody's memory
_ID = re.compile(r"memstore_[0-9a-f]{32}")


class Commonplace:
    """An opened backend with the memory stores in it. Threads may share it; it survives a fork."""

    def __init__(self, backend: Backend, *, limits: Limits, replies: Replies, actor: Actor | None) -> None:
        self.backend = backend
        self._limits = limits
        self._replies = replies
        self._actor = actor

    def store(self, id_or_key: str | None = None, *, name: str | None = None) -> MemoryStore:
        """The memory store with this id, else the one with this key, made if there is none.

        A key has 1 to 255 characters, none of them a control character; None means the store with the key `default`.
        `name` is shown to people and used only when the store is made. Raises `NotFound` for an id that is not there,
        `Locked` for a store that is sealed with a key that is not here.
        """
        key = DEFAULT_KEY if id_or_key is None else plain_name("a store key", id_or_key)
        info = self.backend.get_store(key)
        if info is None:
            if _ID.fullmatch(key):
                raise NotFound(f"there is no memory store {key}")
            info = self.backend.create_store(key=key, name=plain_name("a store name", name or key))
        self.backend.unlock(info)
        return MemoryStore(self.backend, info, limits=self._limits, replies=self._replies, actor=self._actor)

    def stores(self) -> list[StoreInfo]:
        """All memory stores, oldest first."""
        return self.backend.list_stores()

    def close(self) -> None:
        """Give back files and connections. Not closing loses nothing."""
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def open(  # noqa: A001 - `commonplace.open` is the name a reader expects
    at: str | os.PathLike[str] = DEFAULT_PLACE,
    *,
    view_chars: int = DEFAULT_VIEW_CHARS,
    list_rows: int = DEFAULT_LIST_ROWS,
    max_memory_bytes: int = DEFAULT_MAX_MEMORY_BYTES,
    create_overwrites: bool = False,
    replies: Replies | str = "en",
    actor: Actor | str | None = None,
    clock: Clock = time.time,
    new_id: NewId = sortable_id,
    keys: Keys | None = None,
    seal_paths: bool = False,
) -> Commonplace:
    """The memory at a place, made if it is not there.

    `at` is a directory (`./memory`), `sqlite:///file.db` (`sqlite:////` for an absolute path), `sqlite://` for one
    in memory, `postgresql://user:password@host/database`, `mariadb://user:password@host/database`, or object storage:
    `s3://bucket/prefix`, `gs://` or `az://` (docs/backends.md). The limits count characters, rows and bytes, 0 = none.
    `replies` is a language (`en`, `fr`) or a catalogue of one's own. `actor` is recorded with changes that name no
    other. Raises `InvalidInput` for what cannot be opened, and the errors of storage.

    With `keys` (a key file, a `KeyRing`, or what wraps keys otherwise) memory stores are sealed, those made with
    `seal_paths` their paths too; docs/encryption.md.
    """
    limits = Limits(view_chars, list_rows, max_memory_bytes, create_overwrites)
    return open_with(
        at,
        limits=limits,
        replies=replies,
        actor=actor,
        clock=clock,
        new_id=new_id,
        keys=keys,
        seal_paths=seal_paths,
    )


def open_with(
    at: str | os.PathLike[str],
    *,
    limits: Limits,
    replies: Replies | str = "en",
    actor: Actor | str | None = None,
    clock: Clock = time.time,
    new_id: NewId = sortable_id,
    keys: Keys | None = None,
    seal_paths: bool = False,
) -> Commonplace:
    """As `open`, with the limits in one value."""
    catalogue, who = _catalogue(replies), as_actor(actor)  # refuse these before anything is made on disk
    seal = _sealing(keys, clock, seal_paths=seal_paths)
    backend = seal(open_backend(at, clock=clock, new_id=new_id))
    return Commonplace(backend, limits=limits, replies=catalogue, actor=who)


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


def _sealing(keys: Keys | None, clock: Clock, *, seal_paths: bool) -> Callable[[Backend], Backend]:
    """What puts encryption over a backend, or leaves it as it is."""
    if keys is None:
        if seal_paths:
            raise InvalidInput("paths can be sealed only with keys")
        return lambda backend: backend
    try:
        from commonplace.backends.keys import as_wrapper  # noqa: PLC0415 - cryptography is imported late
        from commonplace.backends.sealed import SealedBackend  # noqa: PLC0415
    except ImportError:
        raise InvalidInput("encryption needs its library: pip install 'commonplace[crypto]'") from None
    wrapper = as_wrapper(keys)
    return lambda backend: SealedBackend(backend, wrapper, seal_paths=seal_paths, clock=clock)


def _open_directory(place: str, clock: Clock, new_id: NewId) -> Backend:
    if os.name != "posix":
        raise InvalidInput("memories as plain files need Linux or macOS; sqlite:///memory.db works here")
    from commonplace.backends.directory import DirectoryBackend  # noqa: PLC0415 - drivers are imported late

    if os.path.isfile(place):
        raise InvalidInput("the place is a file; for a SQLite database write sqlite:///NAME")
    return DirectoryBackend(place, clock=clock, new_id=new_id)


def _open_sqlite(rest: str, clock: Clock, new_id: NewId) -> Backend:
    from commonplace.backends.sqlite import SqliteBackend  # noqa: PLC0415 - drivers are imported late

    return SqliteBackend(_sqlite_path(rest), clock=clock, new_id=new_id)


def _open_postgresql(rest: str, clock: Clock, new_id: NewId) -> Backend:
    with _driver("PostgreSQL", extra="postgres"):
        from commonplace.backends.postgresql import open_postgresql  # noqa: PLC0415 - drivers are imported late
    return open_postgresql(rest, clock=clock, new_id=new_id)


def _open_mariadb(rest: str, clock: Clock, new_id: NewId) -> Backend:
    with _driver("MariaDB", extra="mariadb"):
        from commonplace.backends.mariadb import open_mariadb  # noqa: PLC0415 - drivers are imported late
    return open_mariadb(rest, clock=clock, new_id=new_id)


def _open_objects(url: str, clock: Clock, new_id: NewId) -> Backend:
    from commonplace.backends.objects import open_objects  # noqa: PLC0415 - drivers are imported late

    with _driver("object storage", extra="objects"):
        return open_objects(url, clock=clock, new_id=new_id)


@contextmanager
def _driver(what: str, *, extra: str) -> Iterator[None]:
    """Say what to install where an import fails."""
    try:
        yield
    except ImportError:
        raise InvalidInput(f"{what} needs its driver: pip install 'commonplace[{extra}]'") from None


def _sqlite_path(rest: str) -> str | None:
    """The file that `sqlite://` and `rest` name, None for a database in memory."""
    if rest in {"", "/", ":memory:", "/:memory:"}:
        return None
    if not rest.startswith("/"):
        raise InvalidInput("a SQLite place has three slashes before a relative path: sqlite:///memory.db")
    return rest[1:]


def is_there(at: str | os.PathLike[str]) -> bool:
    """Whether opening the place would find something, rather than make it; True where only opening can tell."""
    place = os.fspath(at)
    scheme, separator, rest = place.partition("://")
    if isinstance(at, str) and separator:
        path = _sqlite_path(rest) if scheme == "sqlite" else None
        return path is None or os.path.lexists(path)
    return os.path.isfile(place) or any(os.path.lexists(os.path.join(place, mark)) for mark in _DIRECTORY_MARKS)


_SCHEMES: dict[str, Callable[[str, Clock, NewId], Backend]] = {
    "sqlite": _open_sqlite,
    "postgresql": _open_postgresql,
    "mariadb": _open_mariadb,
    "s3": lambda rest, clock, new_id: _open_objects(f"s3://{rest}", clock, new_id),
    "gs": lambda rest, clock, new_id: _open_objects(f"gs://{rest}", clock, new_id),
    "az": lambda rest, clock, new_id: _open_objects(f"az://{rest}", clock, new_id),
    "memory": lambda rest, clock, new_id: _open_objects(f"memory://{rest}", clock, new_id),
}


def _catalogue(replies: Replies | str) -> Replies:
    if isinstance(replies, Replies):
        return replies
    if replies not in LANGUAGES:
        raise InvalidInput(f"no replies in {replies!r}; there are {', '.join(LANGUAGES)}")
    return LANGUAGES[replies]
