"""Interface for copies of the memories, such as plain files, that follow the commits of a SQLite backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from retentive.storage.contract import Snapshot
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.storage.sql.transaction import SqlTransaction
from retentive.storage.sqlite.commit import FinishableTransaction, Writer

ObservedTransaction: TypeAlias = FinishableTransaction
"""Transaction of one job, as wrapped by the observer."""


class CommitObserver:
    """Base class of observers; does nothing.

    Every call except `snapshot` comes from the thread that leads the writers.

    An error before the commit refuses the batch. After the commit the observer must handle its own errors.
    """

    def lock(self, writer: Writer) -> None:
        """Acquire the observer's lock for a batch. May first recover the unfinished work of a killed process."""

    def unlock(self) -> None:
        """Release the observer's lock."""

    def snapshot(self, records: SqlSnapshot) -> Snapshot:
        """Snapshot for a reader of one store. Called from any thread."""
        return records

    def transaction(self, records: SqlTransaction) -> ObservedTransaction:
        """Transaction for one job of a batch."""
        return records

    def before_commit(self, writer: Writer, batch: Sequence[ObservedTransaction]) -> None:
        """Prepare for the commit of these transactions, as the last step of their database transaction."""

    def after_commit(self, writer: Writer, batch: Sequence[ObservedTransaction]) -> None:
        """Handle committed, durable transactions. The next batch waits for this call. Must not raise."""
