"""Database transaction shared by the jobs of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from retentive.errors import Damaged, PermissionDenied, Refused, StoreFull, Unavailable
from retentive.storage.queue import Ran, StoreJob
from retentive.storage.sqlite.commit import Writer
from retentive.storage.sqlite.observer import CommitObserver, ObservedTransaction

_STORAGE_ERRORS = (StoreFull, Unavailable, Damaged, PermissionDenied)  # they undo the whole transaction


class SharedTransaction:
    """Open transaction with a savepoint for each job, or without one if a job is `alone`."""

    def __init__(
        self,
        writer: Writer,
        observer: CommitObserver,
        transaction: Callable[[str], ObservedTransaction],
        *,
        alone: bool,
    ) -> None:
        self._writer = writer
        self._connection = writer.connection
        self._observer = observer
        self._transaction = transaction
        self._alone = alone

    def start(self, job: StoreJob) -> ObservedTransaction:
        if not self._alone:
            self._connection.run("SAVEPOINT job")
        return self._transaction(job.store_id)

    def finish(self, transaction: ObservedTransaction) -> None:
        transaction.finish()
        if not self._alone:
            self._connection.run("RELEASE job")

    def undo(self, transaction: ObservedTransaction | None, error: Exception) -> bool:
        if isinstance(error, _STORAGE_ERRORS):
            raise error
        if isinstance(error, Refused) and transaction is not None and transaction.outlasts_refusal:
            self.finish(transaction)
            return True
        self._connection.run("ROLLBACK" if self._alone else "ROLLBACK TO job")
        if not self._alone:
            self._connection.run("RELEASE job")
        return False

    def commit(self, ran: Sequence[Ran[ObservedTransaction]], changed: Sequence[ObservedTransaction]) -> None:
        if changed:
            self._observer.before_commit(self._writer, changed)
            self._writer.commit()
