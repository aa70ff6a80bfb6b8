"""The interface by which copies of the memories, such as plain files, follow the commits of a SQLite backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from retentive.storage.contract import Snapshot
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.storage.sql.transaction import SqlTransaction
from retentive.storage.sqlite.commit import FinishableTransaction, Writer

ObservedTransaction: TypeAlias = FinishableTransaction
"""The transaction of one job, as the observer lets it see the store."""


class CommitObserver:
    """Follows nothing; the base of those that do.

    Every call except `snapshot` comes from the one thread that leads the writers.

    An error before the commit refuses the batch; one after it is the observer's own to make up for.
    """

    def lock(self, writer: Writer) -> None:
        """Take the lock under which this process writes, if there is one. May complete what a killed process left."""

    def unlock(self) -> None:
        """Release it."""

    def snapshot(self, records: SqlSnapshot) -> Snapshot:
        """The snapshot for a reader of one store. Called by any thread."""
        return records

    def transaction(self, records: SqlTransaction) -> ObservedTransaction:
        """The transaction for one job of a batch."""
        return records

    def before_commit(self, writer: Writer, batch: Sequence[ObservedTransaction]) -> None:
        """The transactions that are about to be committed together, as the last step of their database transaction."""

    def after_commit(self, writer: Writer, batch: Sequence[ObservedTransaction]) -> None:
        """Handle committed transactions, after they are durable. The next batch waits for this call. Must not raise."""
