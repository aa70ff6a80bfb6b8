"""Interface for copies of the memories, such as plain files, that follow the commits of a SQLite backend."""

from __future__ import annotations

from collections.abc import Sequence

from retentive.storage.contract import Clock, NewId, Snapshot
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.storage.sql.transaction import SqlTransaction
from retentive.storage.sqlite.commit import Writer


class CommitObserver:
    """Base class of observers; does nothing.

    Every call except `snapshot` comes from the thread that leads the writers.

    An error before the commit refuses the batch. After the commit the observer must handle its own errors.
    """

    def lock(self, writer: Writer) -> None:
        """Acquire the observer's lock for a batch. May first recover the unfinished work of a killed process."""

    def unlock(self) -> None:
        """Release the observer's lock."""

    def snapshot(self, connection: Connection, store_id: str) -> Snapshot:
        """Snapshot for a reader of one store. Called from any thread."""
        return SqlSnapshot(connection, store_id)

    def transaction(self, connection: Connection, store_id: str, clock: Clock, new_id: NewId) -> SqlTransaction:
        """Transaction for one job of a batch."""
        return SqlTransaction(connection, store_id, clock=clock, new_id=new_id)

    def before_commit(self, writer: Writer, batch: Sequence[SqlTransaction]) -> None:
        """Prepare for the commit of these transactions, as the last step of their database transaction."""

    def after_commit(self, writer: Writer) -> None:
        """Handle the commit, which is durable. The next batch waits for this call. Must not raise."""
