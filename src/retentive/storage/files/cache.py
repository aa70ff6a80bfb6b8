"""Cache of records that were read from the database. It is valid as long as the database is unchanged.

With the cache, a view of an unchanged file takes a few `stat` calls and one read of SQLite's change counter (`PRAGMA
data_version`). Without the cache, a view takes a transaction with two statements. The counter changes when any other
connection commits, in this process or in another program. While the counter stays the same, the cached records are the
current state of the database, so reads stay linearizable. Files are compared with the cached records in the same way as
with records from the database.
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
    """The cache cannot answer a query, so the read must be repeated in a transaction."""


@dataclass(slots=True, eq=False)
class CachedRecords:
    """Cached records of one memory store in one state of the database. Has some of the methods of `SqlSnapshot`."""

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
        """Data of the encryption layer for the store, or None if the store is not encrypted."""
        return self.head.seal

    def get_marked(self, path: str) -> tuple[Entry, str | None]:
        """Return the entry at a path with its verified text, and the stored mark of its file.

        A mark has the inode, size and times of a file. Raises `NotCached` if the database has changed.
        """
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
        """Return the path, version and size of each memory below a path. `columns` must name these three columns.

        Raises `NotCached` if the database has changed.
        """
        found = cast("list[Row] | None", self.rows.get(under))
        if found is None:
            found = self.cache.load(lambda connection: self._snapshot(connection).rows_below(columns, under))
            self.add_rows(under, cast("list[MemoryRow]", found))
        return found

    def _snapshot(self, connection: SqliteConnection) -> SqlSnapshot:
        return SqlSnapshot(connection, self.store_id, self.head)

    def add_entry(self, path: str, entry: Entry, mark: str | None) -> None:
        """Add an entry to the cache. Its text must have been verified."""
        if self.cache.has_room(_ENTRY_BYTES + len(entry.data or b"")):
            self.entries[path] = entry, mark

    def add_rows(self, under: str, rows: list[MemoryRow]) -> None:
        """Add `rows` to the cache: the path, version and size of each memory below a path."""
        if under not in self.rows and self.cache.has_room(_ROW_BYTES * len(rows)):
            self.rows[under] = rows


class CachedState:
    """Cached records of one state of the database. Threads may share it.

    After the database has changed, a new object is used. Records that are added to the old object have no effect.
    """

    def __init__(self, cache: RecordCache) -> None:
        self.stores: dict[str, CachedRecords] = {}
        self._cache = cache
        self._bytes = 0

    def records(self, store_id: str) -> CachedRecords:
        """Return the cached records of a store. Raises `NotCached` if the database has changed."""
        found = self.stores.get(store_id)
        if found is None:
            head = self.load(partial(select_head, store_id=store_id))
            found = self.stores.setdefault(store_id, CachedRecords(store_id, head, self))
        return found

    def load(self, query: Callable[[SqliteConnection], T]) -> T:
        """Run a query and return its result. Raises `NotCached` if the database is no longer in this state."""
        return self._cache.load(self, query)

    def of(self, store_id: str, head: StoreHead) -> CachedRecords | None:
        """Return the cached records of a store, or None if they belong to another state of the store.

        `head` is the row of the store that the caller has read. Each commit that changes a memory changes this row.
        """
        records = self.stores.setdefault(store_id, CachedRecords(store_id, head, self))
        return records if records.head == head else None

    def has_room(self, size: int) -> bool:
        """Reserve `size` bytes in the cache. If the cache is full, it is emptied first.

        Returns False if `size` alone exceeds the limit.
        """
        if size > _MAX_BYTES:
            return False
        self._bytes += size
        if self._bytes > _MAX_BYTES:
            self._bytes = size
            for records in tuple(self.stores.values()):
                records.entries, records.rows = {}, {}
        return True


class RecordCache:
    """Cache of records of the database at `path`. Threads may share it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.renew_after_fork()

    def renew_after_fork(self) -> None:
        """Empty the cache. In a forked child, also replace the lock and the connection that the child inherited."""
        self._lock = threading.Lock()
        self._connection: SqliteConnection | None = None
        self._reads = 0
        self._changes, self._state = -1, CachedState(self)

    def now(self) -> CachedState | None:
        """Return the cached records of the current state of the database.

        The first `FIRST_READS` calls return None. Later calls return None if the database cannot be read.
        """
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
        """Run a query and return its result.

        The database must be in the state `state` before and after the query, otherwise `NotCached` is raised. A
        transaction would take twice the time, because it would have to read the row of the store again.
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
        """Close the connection. The next use opens a new one."""
        with self._lock:
            self._close()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep the connection closed during the context, so that the process can fork."""
        with self._lock:
            self._close()
            yield


def _changes(connection: SqliteConnection) -> int:
    return cast("int", connection.rows("PRAGMA data_version")[0][0])
