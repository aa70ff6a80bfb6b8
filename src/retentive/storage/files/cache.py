"""Cache of records that were read from the database. It is valid as long as the database is unchanged.

With the cache, a view of an unchanged file takes a few `stat` calls and one read of SQLite's change counter (`PRAGMA
data_version`), instead of a transaction with two statements. The counter changes as soon as another connection commits,
in this process or in any other program. While the counter is the same, the cached records are the current state of the
database, so reads stay linearizable. Files are compared with cached records just as with records from the database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, cast

from retentive.errors import Damaged, RetentiveError
from retentive.storage.contract import Entry, verified
from retentive.storage.files.known import MemoryRow
from retentive.storage.sql.connection import Row
from retentive.storage.sql.snapshot import SqlSnapshot, StoreHead, select_head
from retentive.storage.sqlite.connection import SqliteConnection, connect

T = TypeVar("T")
FIRST_READS = 2  # made without the cache, since opening its connection does not pay off for so few reads
_MAX_BYTES = 32 * 1024 * 1024
_ENTRY_BYTES = 1_024  # size of the objects of an entry, apart from its text
_ROW_BYTES = 256


class NotCached(Exception):
    """The cache cannot answer a query. The read is repeated in a transaction."""


@dataclass(slots=True, eq=False)
class CachedRecords:
    """Records of one memory store in one state of the database, with some of the methods of `SqlSnapshot`."""

    store_id: str
    head: StoreHead
    cache: CachedState
    entries: dict[str, tuple[Entry, str | None]] = field(default_factory=dict)
    rows: dict[str, list[MemoryRow]] = field(default_factory=dict)

    @property
    def revision(self) -> int:
        """Revision of the store."""
        return self.head.revision

    @property
    def seal(self) -> str | None:
        """Seal of the store."""
        return self.head.seal

    def get_marked(self, path: str) -> tuple[Entry, str | None]:
        """Entry at a path with its verified text, and the mark stored with it. Raises `NotCached`."""
        found = self.entries.get(path)
        if found is None:
            entry, mark = found = self.cache.load(lambda connection: self._snapshot(connection).get_marked(path))
            if entry.memory is not None:
                try:
                    verified(entry.data, entry.memory.sha256, entry.memory.seal, path)
                except Damaged:
                    raise NotCached from None
            self.add_entry(path, entry, mark)
        return found

    def rows_below(self, columns: str, under: str) -> list[Row]:
        """Path, version and size of all memories below a path; `columns` must name these. Raises `NotCached`."""
        found = cast("list[Row] | None", self.rows.get(under))
        if found is None:
            found = self.cache.load(lambda connection: self._snapshot(connection).rows_below(columns, under))
            self.add_rows(under, cast("list[MemoryRow]", found))
        return found

    def _snapshot(self, connection: SqliteConnection) -> SqlSnapshot:
        return SqlSnapshot(connection, self.store_id, self.head)

    def add_entry(self, path: str, entry: Entry, mark: str | None) -> None:
        """Keep an entry whose text was verified."""
        if self.cache.has_room(_ENTRY_BYTES + len(entry.data or b"")):
            self.entries[path] = entry, mark

    def add_rows(self, under: str, rows: list[MemoryRow]) -> None:
        """Keep path, version and size of all memories below a path."""
        if under not in self.rows and self.cache.has_room(_ROW_BYTES * len(rows)):
            self.rows[under] = rows


class CachedState:
    """Records of one state of the database. Threads may share it. Records added to an outdated state are not used."""

    def __init__(self, cache: RecordCache) -> None:
        self.stores: dict[str, CachedRecords] = {}
        self._cache = cache
        self._bytes = 0

    def records(self, store_id: str) -> CachedRecords:
        """Records of a store. Raises `NotCached`."""
        found = self.stores.get(store_id)
        if found is None:
            head = self.load(partial(select_head, store_id=store_id))
            found = self.stores.setdefault(store_id, CachedRecords(store_id, head, self))
        return found

    def load(self, query: Callable[[SqliteConnection], T]) -> T:
        """Result of a query, if the database is still in this state. Raises `NotCached`."""
        return self._cache.load(self, query)

    def of(self, store_id: str, head: StoreHead) -> CachedRecords | None:
        """Records of a store with this head. None if the cached records belong to another head.

        Each commit that changes a memory changes the head.
        """
        records = self.stores.setdefault(store_id, CachedRecords(store_id, head, self))
        return records if records.head == head else None

    def has_room(self, size: int) -> bool:
        """Reserve `size` bytes. Empties the cache if it is full. Returns False if `size` alone exceeds the limit."""
        if size > _MAX_BYTES:
            return False
        self._bytes += size
        if self._bytes > _MAX_BYTES:
            self._bytes = size
            for records in tuple(self.stores.values()):
                records.entries, records.rows = {}, {}
        return True


class RecordCache:
    """Cache for the database at `path`. Threads may share it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.renew_after_fork()

    def renew_after_fork(self) -> None:
        """Start with an empty cache. In a forked child, this replaces the lock and the connection of the parent."""
        self._lock = threading.Lock()
        self._connection: SqliteConnection | None = None
        self._reads = 0
        self._changes, self._state = -1, CachedState(self)

    def now(self) -> CachedState | None:
        """The present state of the database. None for the first reads, or if the state cannot be determined."""
        if self._reads < FIRST_READS:
            self._reads += 1
            return None
        with self._lock:
            try:
                if self._connection is None:
                    self._connection, self._changes = connect(self._path), -1
                changes = _changes(self._connection)
            except RetentiveError:  # the read that follows reports the error
                self._close()
                return None
            if changes != self._changes:
                self._changes, self._state = changes, CachedState(self)
            return self._state

    def load(self, state: CachedState, query: Callable[[SqliteConnection], T]) -> T:
        """Result of a query, if the database was in this state before and after the query. Raises `NotCached`.

        This takes half the time of a transaction, which would also have to read the head again.
        """
        with self._lock, suppress(RetentiveError):  # the read that follows reports the error
            if self._state is state and self._connection is not None:
                found = query(self._connection)
                if _changes(self._connection) == self._changes:
                    return found
        raise NotCached

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(RetentiveError):
                connection.close()

    def close(self) -> None:
        """Close the connection. The next use opens it again."""
        with self._lock:
            self._close()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Context without a connection, for the time of a fork."""
        with self._lock:
            self._close()
            yield


def _changes(connection: SqliteConnection) -> int:
    return cast("int", connection.rows("PRAGMA data_version")[0][0])
