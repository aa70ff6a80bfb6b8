"""Memory stores in one SQLite file (or in memory), safe for any number of threads and processes of one host.

What SQLite does not give by itself: a fair queue with shared commits (`queue.py`); commits that fail stay failed; a
full disk does not block deleting; a fork inherits no connection (`forking.py`); and a file that was deleted or
replaced underneath is noticed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import TypeVar, cast

from retentive.errors import (
    Damaged,
    PermissionDenied,
    Refused,
    RetentiveError,
    StoreFull,
    Unavailable,
)
from retentive.storage import forking
from retentive.storage.capabilities import Checkable, Purgeable
from retentive.storage.contract import (
    Actor,
    Backend,
    Clock,
    NewId,
    Snapshot,
    StoreInfo,
    Transaction,
    now_us,
    sortable_id,
)
from retentive.storage.disk import make_directory, make_file, os_error
from retentive.storage.findings import Finding
from retentive.storage.pool import Pool
from retentive.storage.queue import BatchFailed, Ran, StoreJob, WriteQueue, run_batch, run_together
from retentive.storage.sql import check as sql_check
from retentive.storage.sql import migrations
from retentive.storage.sql import side_records as sql_side_records
from retentive.storage.sql import snapshot as sql_snapshot
from retentive.storage.sql import stores as sql_stores
from retentive.storage.sql.transaction import SqlTransaction
from retentive.storage.sqlite.check import integrity
from retentive.storage.sqlite.commit import Commits
from retentive.storage.sqlite.connection import SqliteConnection, connect
from retentive.storage.sqlite.space import Space
from retentive.values.records import to_us

T = TypeVar("T")
PURGE_WAIT_S = 5.0  # for those who still read from the log
_STORAGE_ERRORS = (StoreFull, Unavailable, Damaged, PermissionDenied)


class SqliteBackend(Backend, Checkable, Purgeable):
    """Memory stores in the SQLite file at `path`; `None` keeps them in memory, for as long as it is open."""

    def __init__(self, path: str | None, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> None:
        self.clock = clock
        self.new_id = new_id
        self._path = None if path is None else os.path.abspath(path)
        self._identity: tuple[int, int] | None = None
        self._space: Space | None = None
        self._closed = False
        self._commits = Commits(None)
        self._writer: SqliteConnection | None = None
        self._new_locks()
        try:
            if self._path is not None:
                self._prepare(self._path)
            self._migrate()
        except BaseException:
            self._close_writer()
            raise
        forking.watch(self)

    # -- opening, forking, closing ---------------------------------------------------------------------------

    def _new_locks(self) -> None:
        self._queue: WriteQueue[StoreJob] = WriteQueue(self._run_batch)
        self._readers = Pool(lambda: connect(self._path))

    def _prepare(self, path: str) -> None:
        directory = os.path.dirname(path)
        try:
            make_directory(directory)
            self._space = Space(path)
            make_file(path)
            self._identity = _identity(path)
        except OSError as error:
            raise os_error(error) from None
        self._space.keep()
        self._commits = Commits(self._space)

    def _migrate(self) -> None:
        connection = self._open_writer()
        if migrations.check(connection, "sqlite"):
            return
        self._commits.begin(connection)
        try:
            migrations.apply(connection, "sqlite", now_us(self.clock))
            self._commits.commit(connection)
        finally:
            connection.roll_back()

    def close(self) -> None:
        with self._queue.paused(), self._readers.held():
            if not self._closed:
                self._leave()
                self._drop_all()

    def __del__(self) -> None:
        with suppress(Exception):  # half made, or the interpreter is going down
            if not self._closed:
                self._drop_all()

    def _leave(self) -> None:
        """What a backend over this one does before it is closed."""

    def _drop_all(self) -> None:
        self._closed = True
        self._readers.drop()
        self._close_writer()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """While inside (over a fork), nobody reads or writes, and no connection to a file is open."""
        with self._queue.paused(), self._readers.held():
            if self._path is not None:
                self._close_writer()
            yield

    def forget_threads(self) -> None:
        """In a forked child: other threads, and the locks they held, are not there."""
        self._new_locks()

    def _open_writer(self) -> SqliteConnection:
        if self._writer is None:
            self._writer = connect(self._path, timeout_s=0.0)
        return self._writer

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the backend is closed")
        if self._path is not None and _identity(self._path) != self._identity:
            raise Unavailable("the database file was moved, replaced or deleted while it was open")

    # -- memory stores ---------------------------------------------------------------------------------------

    def create_store(
        self,
        *,
        key: str | None,
        name: str,
        seal: str | None = None,
        store_id: str | None = None,
        created_at: datetime | None = None,
    ) -> StoreInfo:
        def create(connection: SqliteConnection) -> StoreInfo:
            found = None if key is None else sql_stores.select_store_by_key(connection, key)
            if found is None and store_id is not None:
                found = sql_stores.select_store_by_id(connection, store_id)
            if found is not None:
                return found
            at = now_us(self.clock) if created_at is None else to_us(created_at)
            new_id = store_id or self.new_id("memstore_", at)
            sql_stores.insert_store(connection, store_id=new_id, key=key, name=name, at=at, seal=seal)
            return sql_stores.find_store(connection, new_id)

        return self._alone(create)

    def _alone(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run and commit what is no change of a store's memories."""
        with self._queue.paused(), self._exclusive() as connection:
            self._commits.begin(connection)
            try:
                done = work(connection)
                self._commits.commit(connection)
            finally:
                connection.roll_back()
            return done

    def get_store(self, id_or_key: str) -> StoreInfo | None:
        with self._reading() as connection:
            return sql_stores.select_store(connection, id_or_key)

    def list_stores(self, *, after: str | None = None, limit: int | None = None) -> list[StoreInfo]:
        with self._reading() as connection:
            return sql_stores.select_stores(connection, after, limit)

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        def erase(connection: SqliteConnection) -> None:
            by = None if actor is None else str(actor)
            sql_stores.erase_store(connection, store_id, at=now_us(self.clock), by=by)

        self._alone(erase)

    def put_side_records(self, store_id: str, kind: str, values: Mapping[str, str | None]) -> None:
        # There is one writer for the whole file in any case.
        self._alone(
            lambda found: sql_side_records.write_notes(
                found, sql_side_records.store_number(found, store_id), kind, values
            )
        )

    def side_records(self, store_id: str, kind: str, *, after: str = "") -> Iterator[tuple[str, str]]:
        with self._reading() as connection:
            number = sql_side_records.store_number(connection, store_id)
            return iter(sql_side_records.select_notes(connection, number, kind, after=after))

    def check(self) -> Iterator[Finding]:
        with self._reading() as connection:
            yield from [*integrity(connection), *sql_check.examine(connection, "sqlite")]

    def repair(self) -> None:
        def work(connection: SqliteConnection) -> None:
            sql_check.mend_indexes(connection, "sqlite")
            sql_check.remove_rows(connection, sql_check.left_stores(connection))
            for store in sql_stores.select_stores(connection, None, None):
                sql_check.mend_store(connection, store.id)

        self._alone(work)

    def purge(self) -> bool:
        if self._path is None:
            return True
        with self._queue.paused(), self._exclusive() as connection:
            return connection.clear_log(wait_s=PURGE_WAIT_S)

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        with self._reading() as connection:
            connection.run("BEGIN")
            try:
                return work(self._snapshot(connection, store_id))
            finally:
                connection.roll_back()

    def _snapshot(self, connection: SqliteConnection, store_id: str) -> Snapshot:
        return sql_snapshot.SqlSnapshot(connection, store_id)

    @contextmanager
    def _reading(self) -> Iterator[SqliteConnection]:
        self._check_open()
        if self._path is None:  # a database in memory has one connection, which readers and writers take in turn
            with self._queue.paused():
                self._check_open()  # it may have been closed while this waited
                yield self._open_writer()
        else:
            with self._readers.connection() as connection:
                yield connection

    # -- writing ---------------------------------------------------------------------------------------------

    def write(self, store_id: str, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        return cast("T", self._queue.submit(StoreJob(store_id, work, may_use_reserve=may_use_reserve)))

    def _run_batch(self, jobs: Sequence[StoreJob]) -> None:
        if admitted := self._admitted(jobs):
            run_batch(admitted, self._attempt)

    def _admitted(self, jobs: Sequence[StoreJob]) -> Sequence[StoreJob]:
        """The jobs that may run: while the reserve is not whole, only those that free something."""
        if self._space is None or self._space.keep():
            return jobs
        for job in jobs:
            job.error = StoreFull("no space is left where the memory store rests")
        return [job for job in jobs if job.may_use_reserve]

    def _attempt(self, jobs: Sequence[StoreJob]) -> None:
        """Run and commit; a deletion that finds the disk full is given the reserve."""
        with self._begun() as connection:
            try:
                self._run_and_commit(connection, jobs)
            except StoreFull:
                if len(jobs) > 1 or not jobs[0].may_use_reserve or not self._space or not self._space.give_up():
                    raise
                self._commits.begin(connection)
                self._run_and_commit(connection, jobs)

    @contextmanager
    def _begun(self) -> Iterator[SqliteConnection]:
        """The connection that writes, with a transaction begun. Raises `BatchFailed`."""
        with ExitStack() as held:
            try:
                connection = held.enter_context(self._exclusive())
                self._commits.begin(connection)
            except RetentiveError as error:  # no lock, no database: the same for all
                raise BatchFailed(error) from error
            yield connection

    def _shared(self, connection: SqliteConnection, *, alone: bool) -> _SharedTransaction:
        return _SharedTransaction(
            connection,
            partial(self._transaction, connection),
            self._job_done,
            partial(self._commit, connection),
            alone=alone,
        )

    def _commit(self, connection: SqliteConnection, changed: Sequence[SqlTransaction]) -> None:
        self._before_commit(connection, changed)
        self._commits.commit(connection)

    def _run_and_commit(self, connection: SqliteConnection, jobs: Sequence[StoreJob]) -> None:
        try:
            committed = run_together(self._shared(connection, alone=len(jobs) == 1), jobs)
        finally:
            connection.roll_back()
        if committed:
            self._after_commit(connection, committed)
            if self._space is not None and self._space.is_low:
                self._space.make_room(connection)

    def _transaction(self, connection: SqliteConnection, store_id: str) -> SqlTransaction:
        return SqlTransaction(connection, store_id, clock=self.clock, new_id=self.new_id)

    def _job_done(self, transaction: SqlTransaction) -> None:
        """What a backend over this one notes between two jobs of a batch."""

    def _before_commit(self, connection: SqliteConnection, changed: Sequence[SqlTransaction]) -> None:
        """What a backend over this one adds to the commit."""

    def _after_commit(self, connection: SqliteConnection, changed: Sequence[SqlTransaction]) -> None:
        """What a backend over this one does, still alone in the store, once the commit is durable."""

    @contextmanager
    def _exclusive(self) -> Iterator[SqliteConnection]:
        """The connection that writes. The caller leads the queue."""
        self._check_open()
        yield self._open_writer()


class _SharedTransaction:
    """Transaction of a batch, with a savepoint for each job unless it is `alone`."""

    def __init__(
        self,
        connection: SqliteConnection,
        transaction: Callable[[str], SqlTransaction],
        job_done: Callable[[SqlTransaction], None],
        commit: Callable[[Sequence[SqlTransaction]], None],
        *,
        alone: bool,
    ) -> None:
        self._connection = connection
        self._transaction = transaction
        self._job_done = job_done
        self._commit = commit
        self._alone = alone

    def start(self, job: StoreJob) -> SqlTransaction:
        if not self._alone:
            self._connection.run("SAVEPOINT job")
        return self._transaction(job.store_id)

    def finish(self, transaction: SqlTransaction) -> None:
        transaction.finish()
        self._job_done(transaction)
        if not self._alone:
            self._connection.run("RELEASE job")

    def undo(self, transaction: SqlTransaction | None, error: Exception) -> bool:
        if isinstance(error, _STORAGE_ERRORS):
            raise error
        kept = isinstance(error, Refused) and transaction is not None and transaction.outlasts_refusal
        if kept and transaction is not None:
            transaction.finish()
        else:
            self._connection.run("ROLLBACK" if self._alone else "ROLLBACK TO job")
        if not self._alone:
            self._connection.run("RELEASE job")
        return kept

    def commit(self, ran: Sequence[Ran[SqlTransaction]]) -> None:
        changed = [one.transaction for one in ran if one.transaction is not None and one.transaction.changed]
        if changed:
            self._commit(changed)


def _identity(path: str) -> tuple[int, int] | None:
    with suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None
