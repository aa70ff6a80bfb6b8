"""Snapshot and transaction of a memory store on a database server. They need few round trips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retentive.storage.contract import Entry, Memory, Snapshot, Version
from retentive.storage.server.dialect import SerializationConflict, ServerConnection
from retentive.storage.sql.snapshot import SqlSnapshot, StoreHead, entry_with_head, marked_entry_with_head, select_head
from retentive.storage.sql.transaction import SqlTransaction


class ServerSnapshot(SqlSnapshot):
    """Snapshot with other queries in place of the queries that only SQLite can run."""

    def one_level(self, under: str, *, start: str = "", limit: int | None = None) -> Iterator[Memory]:
        return Snapshot.one_level(self, under, start=start, limit=limit)

    def walk_naming(
        self, under: str, names: Sequence[str] | None, *, start: str = "", limit: int
    ) -> tuple[list[Memory], str | None]:
        return Snapshot.walk_naming(self, under, names, start=start, limit=limit)

    def earlier(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version] | None:
        return None


class LazySnapshot(ServerSnapshot):
    """Snapshot that starts a transaction only if a read needs several statements. Most views need one round trip.

    Until the transaction starts, each statement also returns the revision of the store. If two statements return
    different revisions, `SerializationConflict` is raised, and the read is retried.
    """

    def __init__(self, connection: ServerConnection, store_id: str) -> None:
        self._server = connection
        self._first: StoreHead | None = None
        self._begun = False
        self._ahead = None
        self.connection = connection
        self.store_id = store_id

    @property
    def head(self) -> StoreHead:
        """Row of the store in the table of stores, read by the first statement."""
        return self._first or self._saw(select_head(self._server, self.store_id))

    @property
    def store(self) -> int:
        """Number of the store in the tables. The first use starts a transaction.

        Only reads with several statements need this number.
        """
        if not self._begun:
            self._begun = True
            self._server.begin_read()
            self._saw(select_head(self._server, self.store_id))
        return self.head.no

    def expect(self, path: str) -> None:
        if self._first is None:
            head, entry, mark = marked_entry_with_head(self._server, self.store_id, path)
            self._saw(head)
            self._ahead = path, entry, mark

    def get_marked(self, path: str) -> tuple[Entry, str | None]:
        if self._begun or (self._ahead is not None and self._ahead[0] == path):
            return super().get_marked(path)
        head, entry, mark = marked_entry_with_head(self._server, self.store_id, path)
        self._saw(head)
        return entry, mark

    def _saw(self, head: StoreHead) -> StoreHead:
        if self._first is not None and head.revision != self._first.revision:
            raise SerializationConflict("the store was changed during a read")
        self._first = head
        return head


class ServerTransaction(ServerSnapshot, SqlTransaction):
    """Transaction that changes a memory store whose row is locked."""

    def get(self, path: str) -> Entry:
        return entry_with_head(self.connection, self.store_id, path)[1]
