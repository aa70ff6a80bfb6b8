"""Memory stores in one SQLite file (or in memory), safe for any number of threads and processes of one host.

What SQLite does not give by itself: a fair queue with shared commits (`queue.py`); commits that fail stay failed; a
full disk does not block deleting; a fork inherits no connection (`forking.py`); and a file that was deleted or
replaced underneath is noticed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar, cast

from retentive.errors import (
    Damaged,
    OutcomeUnknown,
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
from retentive.storage.queue import StoreJob, WriteQueue
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


@dataclass(slots=True)
class _Ran:
    """What came of a job, until its commit makes it so."""

    job: StoreJob
    transaction: SqlTransaction | None = None
    result: object = None
    error: Exception | None = None

    def settle(self) -> None:
        self.job.result, self.job.error = self.result, self.error


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
        """Run all jobs in one transaction, and those of a failed one each in its own."""
        if admitted := self._admitted(jobs):
            self._run_admitted(admitted)

    def _run_admitted(self, jobs: Sequence[StoreJob]) -> None:
        try:
            with self._exclusive() as connection:
                self._commits.begin(connection)
                failure = self._attempt(connection, jobs)
        except RetentiveError as error:  # no lock, no database: the same for all
            for job in jobs:
                job.error = error
            return
        if failure is None:
            return
        if len(jobs) > 1:
            for job in jobs:
                self._run_admitted([job])
        elif isinstance(failure, StoreFull) and jobs[0].may_use_reserve and self._space and self._space.give_up():
            self._run_admitted(jobs)  # the reserve is gone now, so this ends
        else:
            jobs[0].error = failure

    def _admitted(self, jobs: Sequence[StoreJob]) -> Sequence[StoreJob]:
        """The jobs that may run: while the reserve is not whole, only those that free something."""
        if self._space is None or self._space.keep():
            return jobs
        for job in jobs:
            job.error = StoreFull("no space is left where the memory store rests")
        return [job for job in jobs if job.may_use_reserve]

    def _attempt(self, connection: SqliteConnection, jobs: Sequence[StoreJob]) -> RetentiveError | None:
        """Run and commit; the failure of storage that undid all of it, if there was one."""
        ran: list[_Ran] = []
        try:
            for job in jobs:
                ran.append(self._run_job(connection, job, alone=len(jobs) == 1))  # noqa: PERF401 - kept if it raises
            changed = [one.transaction for one in ran if one.transaction is not None and one.transaction.changed]
            if changed:
                for job in jobs:
                    job.error = OutcomeUnknown("the commit was interrupted")  # until we know better
                self._before_commit(connection, changed)
                self._commits.commit(connection)
        except OutcomeUnknown as error:
            for one in ran:
                one.job.error = one.error or error
            return None
        except _STORAGE_ERRORS as error:
            return error
        finally:
            connection.roll_back()
        for one in ran:
            one.settle()
        if changed:
            self._after_commit(connection, changed)
            if self._space is not None and self._space.is_low:
                self._space.make_room(connection)
        return None

    def _run_job(self, connection: SqliteConnection, job: StoreJob, *, alone: bool) -> _Ran:
        """Run one job; what it raised leaves the others of the batch as they are."""
        if not alone:
            connection.run("SAVEPOINT job")
        ran = _Ran(job)
        try:
            ran.transaction = self._transaction(connection, job.store_id)
            ran.result = job.work(ran.transaction)
            ran.transaction.finish()
            self._job_done(ran.transaction)
        except _STORAGE_ERRORS:
            raise
        except Exception as error:
            ran.error = error
            if isinstance(error, Refused) and ran.transaction is not None and ran.transaction.outlasts_refusal:
                ran.transaction.finish()
            else:
                connection.run("ROLLBACK TO job" if not alone else "ROLLBACK")
                ran.transaction = None
        if not alone:
            connection.run("RELEASE job")
        return ran

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


def _identity(path: str) -> tuple[int, int] | None:
    with suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None
