"""Write transactions of one process on one SQLite file. A failed commit never takes effect later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from retentive.errors import (
    Damaged,
    OutcomeUnknown,
    PermissionDenied,
    RetentiveError,
    StorageReadOnly,
    StoreFull,
    Unavailable,
)
from retentive.storage.queue import Ran, StoreJob
from retentive.storage.sql.snapshot import StoreHead
from retentive.storage.sql.transaction import SqlTransaction
from retentive.storage.sqlite.connection import SqliteConnection, connect
from retentive.storage.sqlite.space import Space

T = TypeVar("T")
_STORAGE_ERRORS = (StoreFull, Unavailable, Damaged, PermissionDenied, StorageReadOnly)
"""Errors that undo the whole transaction."""


class Writer:
    """Connection for all write transactions of this process. `path` is the file, or None for a database in memory.

    Only one thread at a time may use the object. `space` manages the reserved disk space, if there is any.
    """

    def __init__(self, path: str | None, space: Space | None) -> None:
        self._path = path
        self._space = space
        self._connection: SqliteConnection | None = None
        self._overwrite_due = False

    @property
    def connection(self) -> SqliteConnection:
        """Connection for writing. It is opened when it is first used, and again after `close`."""
        if self._connection is None:
            opened = partial(connect, self._path, timeout_s=0.0)
            self._connection = opened() if self._space is None else self._space.connected(opened)
        return self._connection

    def close(self) -> None:
        """Close the connection. The next use opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def transact(self, work: Callable[[SqliteConnection], T], *, may_use_reserve: bool = False, wait: bool = True) -> T:
        """Run `work` in a transaction of its own, commit, and return the result of `work`."""
        if may_use_reserve:
            return self.with_reserve(partial(self.transact, work, wait=wait))
        self.begin(deadline=None if wait else 0.0)
        try:
            done = work(self.connection)
            self.commit()
        finally:
            self.roll_back()
        return done

    def with_reserve(self, work: Callable[[], T]) -> T:
        """Call `work`. On a full disk, call it again with the space of the reserve."""
        try:
            return work()
        except StoreFull:
            if self._space is None or not self._space.give_up():
                raise
        try:
            return work()
        finally:
            self._space.make_room(self.connection)

    def begin(self, *, deadline: float | None = None) -> None:
        """Start a write transaction. Waits for write transactions of other processes until the deadline."""
        if self._overwrite_due:
            self._overwrite_failed_commit()
        self.connection.begin(deadline=deadline)

    def roll_back(self) -> None:
        """Roll back the open transaction, if there is one."""
        self.connection.roll_back()

    def commit(self) -> None:
        """Commit. If the commit fails, make sure that the transaction does not take effect later.

        If the sync of the write-ahead log fails, the log may still contain all frames of the transaction and its commit
        record. The next recovery would then apply a change that was reported as failed. To prevent this, another commit
        overwrites these frames. This second commit changes only a field of the file header. Raises `OutcomeUnknown` if
        the second commit fails too.
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
                    "the outcome of the commit is unknown: it may still take effect; read the memory before you retry"
                ) from error
            raise

    def _overwrite_failed_commit(self) -> None:
        try:
            self.connection.rewrite_header()
        except StoreFull:
            if self._space is None or not self._space.give_up():
                raise
            self.connection.rewrite_header()
            self._space.make_room(self.connection)
        self._overwrite_due = False


@dataclass(slots=True, eq=False)
class SqliteSharedTransaction:
    """Open transaction that the jobs of a batch share.

    There are no savepoints, because they would cost about 10 us per job. If a job fails after it has changed something,
    the whole transaction is undone, and each job runs again alone.

    `heads` has the heads of the stores, by store id. All jobs on one store share its head.
    """

    writer: Writer
    before_commit: Callable[[Writer, Sequence[SqlTransaction]], None]
    transaction: Callable[[StoreJob, StoreHead | None], SqlTransaction]
    alone: bool
    heads: dict[str, StoreHead] = field(default_factory=dict, init=False)

    def start(self, job: StoreJob) -> SqlTransaction:
        return self.transaction(job, self.heads.get(job.store_id))

    def finish(self, transaction: SqlTransaction) -> None:
        self.heads[transaction.store_id] = transaction.head  # `head` raises `NotFound` if there is no store
        transaction.finish()

    def undo(self, transaction: SqlTransaction | None, error: Exception) -> None:
        if isinstance(error, _STORAGE_ERRORS):
            raise error
        if transaction is not None and transaction.changed:
            if not self.alone:
                raise error
            self.writer.roll_back()

    def commit(self, ran: Sequence[Ran[SqlTransaction]], changed: Sequence[SqlTransaction]) -> None:
        if changed:
            self.before_commit(self.writer, changed)
            self.writer.commit()
