"""Write transactions of one process on one SQLite file. A commit that failed never takes effect later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from retentive.errors import Damaged, OutcomeUnknown, PermissionDenied, Refused, RetentiveError, StoreFull, Unavailable
from retentive.storage.queue import Ran, StoreJob
from retentive.storage.sql.snapshot import StoreHead
from retentive.storage.sql.transaction import SqlTransaction
from retentive.storage.sqlite.connection import SqliteConnection, connect
from retentive.storage.sqlite.space import Space

T = TypeVar("T")
_STORAGE_ERRORS = (StoreFull, Unavailable, Damaged, PermissionDenied)  # these undo the whole transaction


class Writer:
    """The only write connection of this process to the file at `path` (None: a database in memory).

    Only one thread may use the object at a time. `space` is None if no space is reserved.
    """

    def __init__(self, path: str | None, space: Space | None) -> None:
        self._path = path
        self._space = space
        self._connection: SqliteConnection | None = None
        self._overwrite_due = False

    @property
    def connection(self) -> SqliteConnection:
        """The write connection. It is opened when first used, and opened again after a fork."""
        if self._connection is None:
            self._connection = connect(self._path, timeout_s=0.0)
        return self._connection

    def close(self) -> None:
        """Close the connection. The next use opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def transact(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run work in a separate transaction and commit."""
        self.begin()
        try:
            done = work(self.connection)
            self.commit()
        finally:
            self.roll_back()
        return done

    def begin(self, *, deadline: float | None = None) -> None:
        """Start a write transaction, after waiting for write transactions of other processes until the deadline."""
        if self._overwrite_due:
            self._overwrite_failed_commit()
        self.connection.begin(deadline=deadline)

    def roll_back(self) -> None:
        """Roll back the open transaction, if there is one."""
        self.connection.roll_back()

    def commit(self) -> None:
        """Commit. If the commit fails, make sure that recovery cannot apply the transaction later.

        When the sync fails, the WAL may still contain all frames of the transaction and its commit record. The next
        recovery would then apply a change that was reported as failed. To prevent this, a commit of a header field
        overwrites these frames before any other write. Raises `OutcomeUnknown` if that commit fails too.
        """
        try:
            self.connection.run("COMMIT")
        except Exception as error:
            self.roll_back()
            self._overwrite_due = True
            try:
                self._overwrite_failed_commit()
            except RetentiveError:
                raise OutcomeUnknown(
                    "the commit failed, and recovery may still apply it; read the memory before retrying"
                ) from error
            raise

    def _overwrite_failed_commit(self) -> None:
        try:
            self._commit_trifle()
        except StoreFull:
            if self._space is None or not self._space.give_up():
                raise
            self._commit_trifle()
            self._space.make_room(self.connection)
        self._overwrite_due = False

    def _commit_trifle(self) -> None:
        connection = self.connection
        try:
            connection.begin()
            # SQLite increments this header field itself, so the change has no effect except that other connections read
            # the schema again.
            number = int(connection.rows("PRAGMA schema_version")[0][0] or 0) % 1_000_000_000
            connection.run(f"PRAGMA schema_version = {number + 1}")
            connection.run("COMMIT")
        finally:
            connection.roll_back()


@dataclass(slots=True)
class SqliteSharedTransaction:
    """Open transaction for the jobs of a batch. It has no savepoints, since they would cost about 10 us per job.

    If a job fails after a change, the changes of all jobs are undone and each job runs alone. The jobs of one store
    share its head, in `heads` by store id, which is written once, before the commit.
    """

    writer: Writer
    before_commit: Callable[[Writer, Sequence[SqlTransaction]], None]
    transaction: Callable[[str, StoreHead | None], SqlTransaction]
    alone: bool
    heads: dict[str, StoreHead] = field(default_factory=dict, init=False)

    def start(self, job: StoreJob) -> SqlTransaction:
        return self.transaction(job.store_id, self.heads.get(job.store_id))

    def finish(self, transaction: SqlTransaction) -> None:
        self.heads[transaction.store_id] = transaction.head  # raises `NotFound`, even if the job read nothing
        transaction.finish()

    def undo(self, transaction: SqlTransaction | None, error: Exception) -> bool:
        if isinstance(error, _STORAGE_ERRORS):
            raise error
        if isinstance(error, Refused) and transaction is not None and transaction.outlasts_refusal:
            self.finish(transaction)
            return True
        if transaction is not None and transaction.changed:
            if not self.alone:
                raise error
            self.writer.roll_back()
        return False

    def commit(self, ran: Sequence[Ran[SqlTransaction]], changed: Sequence[SqlTransaction]) -> None:
        if changed:
            for last in {transaction.store_id: transaction for transaction in changed}.values():
                last.write_head()
            self.before_commit(self.writer, changed)
            self.writer.commit()
