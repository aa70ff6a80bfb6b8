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
from typing import TypeAlias, TypeVar, cast

from retentive.errors import Damaged, RetentiveError
from retentive.storage.contract import Entry, verified
from retentive.storage.files.known import MemoryRow
from retentive.storage.sql.connection import Row
from retentive.storage.sql.snapshot import SqlSnapshot, StoreHead, marked_entry, rows_after, select_head
from retentive.storage.sqlite.connection import SqliteConnection, connect

T = TypeVar("T")
FIRST_READS = 2  # made without the cache, since opening its connection does not pay off for so few reads
_MAX_BYTES = 32 * 1024 * 1024
_ENTRY_BYTES = 1_024  # size of the objects of an entry, apart from its text
_ROW_BYTES = 256
_PRICE = 4  # credits for one row
_FEWEST_AHEAD, _MOST_AHEAD = 4, 64  # rows
MarkedEntry: TypeAlias = tuple[Entry, str | None]
"""Entry of a memory, and the stored mark of its file."""


class NotCached(Exception):
    """The cache cannot answer a query, so the read must be repeated in a transaction."""


@dataclass(slots=True, eq=False)
class CachedRecords:
    """Cached records of one memory store in one state of the database. Has some of the methods of `SqlSnapshot`.

    Rows of memories are also loaded ahead of their use, because one statement that reads 64 rows takes a third of the
    time of 64 statements. Credits decide how many: a read that finds no row earns one, a read of a row that was loaded
    ahead earns eight, and each row that is loaded ahead costs four. So a process that reads most memories of a store
    needs few statements, and one that reads a few of many loads at most a quarter more.
    """

    store_id: str
    head: StoreHead
    cache: CachedState
    entries: dict[str, MarkedEntry] = field(default_factory=dict)
    ahead: dict[str, Row] = field(default_factory=dict)  # of `rows_after`, by path; not verified yet
    rows: dict[str, list[MemoryRow]] = field(default_factory=dict)
    credits: int = 0

    @property
    def revision(self) -> int:
        """Revision of the store."""
        return self.head.revision

    @property
    def seal(self) -> str | None:
        """Data of the encryption layer for the store, or None if the store is not encrypted."""
        return self.head.seal

    def get_marked(self, path: str) -> MarkedEntry:
        """Return the entry at a path with its verified text, and the stored mark of its file.

        A mark has the inode, size and times of a file. Raises `NotCached` if the database has changed.
        """
        found = self.entries.get(path)
        if found is not None:
            return found
        ahead = self.ahead.pop(path, None)
        if ahead is not None:
            self.credits += 2 * _PRICE
            found = marked_entry(ahead)
            _verify(path, found[0])
            self.entries[path] = found  # its size is already counted
            return found
        found, others = self.cache.load(partial(self._load, path))
        _verify(path, found[0])
        self.credits += found[0].memory is not None
        self.add_entry(path, *found)
        if others and self.cache.has_room(sum(map(_row_bytes, others.values()))):
            self.ahead |= others
        return found

    def _load(self, path: str, connection: SqliteConnection) -> tuple[MarkedEntry, dict[str, Row]]:
        """Read the entry at a path and, if there are enough credits, the rows of the memories that follow it."""
        found = self._snapshot(connection).get_marked(path)
        count = min(self.credits // _PRICE, _MOST_AHEAD)
        if count < _FEWEST_AHEAD:
            return found, {}
        self.credits -= count * _PRICE
        return found, rows_after(connection, self.head.no, path, count)

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
                records.entries, records.ahead, records.rows = {}, {}, {}
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


def _verify(path: str, entry: Entry) -> None:
    """Raise `NotCached` if the text of a memory is damaged. The read from the database then reports it."""
    if entry.memory is not None:
        try:
            verified(entry.data, entry.memory.sha256, entry.memory.seal, path)
        except Damaged:
            raise NotCached from None


def _row_bytes(row: Row) -> int:
    return _ENTRY_BYTES + len(cast("bytes", row[0]))


def _changes(connection: SqliteConnection) -> int:
    return cast("int", connection.rows("PRAGMA data_version")[0][0])
