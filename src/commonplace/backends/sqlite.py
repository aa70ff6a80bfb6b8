"""Memory stores in one SQLite file (or in memory), safe for any number of threads and processes of one host.

What SQLite does not give by itself: a fair queue with shared commits (`queue.py`); commits that fail stay failed; a
full disk does not block deleting; a fork inherits no connection (`forking.py`); and a file that was deleted or
replaced underneath is noticed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar, cast

from commonplace.backends import forking, migrations, sql, sql_stores
from commonplace.backends.base import (
    Backend,
    Clock,
    NewId,
    Snapshot,
    StoreInfo,
    Transaction,
    now_us,
    sortable_id,
)
from commonplace.backends.disk import Reserve, free_bytes, local_file_system, make_directory, make_file, os_error
from commonplace.backends.pool import Pool
from commonplace.backends.queue import StoreJob, WriteQueue
from commonplace.backends.sqlite_connection import SqliteConnection, connect
from commonplace.errors import (
    CommonplaceError,
    Damaged,
    OutcomeUnknown,
    PermissionDenied,
    Refused,
    StoreFull,
    Unavailable,
)

T = TypeVar("T")
LOCK_TIMEOUT_S = 30.0
LOW_SPACE_BYTES = 16 * 1024 * 1024  # four times the log at its longest
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0002, 0.002
_STORAGE_ERRORS = (StoreFull, Unavailable, Damaged, PermissionDenied)


@dataclass(slots=True)
class _Ran:
    """What came of a job, until its commit makes it so."""

    job: StoreJob
    transaction: sql.SqlTransaction | None = None
    result: object = None
    error: Exception | None = None

    def settle(self) -> None:
        self.job.result, self.job.error = self.result, self.error


class SqliteBackend(Backend):
    """Memory stores in the SQLite file at `path`; `None` keeps them in memory, for as long as it is open."""

    def __init__(self, path: str | None, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> None:
        self.clock = clock
        self.new_id = new_id
        self._path = None if path is None else os.path.abspath(path)
        self._identity: tuple[int, int] | None = None
        self._file_system = ""
        self._reserve: Reserve | None = None
        self._closed = False
        self._scrub_due = False
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
            self._file_system = local_file_system(directory)
            make_file(path)
            self._identity = _identity(path)
        except OSError as error:
            raise os_error(error) from None
        self._reserve = Reserve(path + "-reserve")
        self._reserve.keep()

    def _migrate(self) -> None:
        connection = self._open_writer()
        if migrations.check(connection, "sqlite"):
            return
        self._begin(connection)
        try:
            migrations.apply(connection, "sqlite", now_us(self.clock))
            self._commit(connection)
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

    def create_store(self, *, key: str | None, name: str, seal: str | None = None) -> StoreInfo:
        with self._queue.paused(), self._exclusive() as connection:
            self._begin(connection)
            try:
                found = None if key is None else sql_stores.select_store_by_key(connection, key)
                if found is not None:
                    return found
                at = now_us(self.clock)
                store_id = self.new_id("memstore_", at)
                sql_stores.insert_store(connection, store_id=store_id, key=key, name=name, at=at, seal=seal)
                made = sql_stores.find_store(connection, store_id)
                self._commit(connection)
                return made
            finally:
                connection.roll_back()

    def get_store(self, id_or_key: str) -> StoreInfo | None:
        with self._reading() as connection:
            return sql_stores.select_store(connection, id_or_key)

    def list_stores(self, *, after: str | None = None, limit: int | None = None) -> list[StoreInfo]:
        with self._reading() as connection:
            return sql_stores.select_stores(connection, after, limit)

    def purge(self) -> None:
        if self._path is not None:
            with self._queue.paused(), self._exclusive() as connection:
                connection.clear_log()

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        with self._reading() as connection:
            connection.run("BEGIN")
            try:
                return work(self._snapshot(connection, store_id))
            finally:
                connection.roll_back()

    def _snapshot(self, connection: SqliteConnection, store_id: str) -> Snapshot:
        return sql.SqlSnapshot(connection, store_id)

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

    def write(self, store_id: str, work: Callable[[Transaction], T], *, frees: bool = False) -> T:
        return cast("T", self._queue.submit(StoreJob(store_id, work, frees=frees)))

    def _run_batch(self, jobs: Sequence[StoreJob]) -> None:
        """Run all jobs in one transaction, and those of a failed one each in its own."""
        if admitted := self._admitted(jobs):
            self._run_admitted(admitted)

    def _run_admitted(self, jobs: Sequence[StoreJob]) -> None:
        try:
            with self._exclusive() as connection:
                self._begin(connection)
                failure = self._attempt(connection, jobs)
        except CommonplaceError as error:  # no lock, no database: the same for all
            for job in jobs:
                job.error = error
            return
        if failure is None:
            return
        if len(jobs) > 1:
            for job in jobs:
                self._run_admitted([job])
        elif isinstance(failure, StoreFull) and jobs[0].frees and self._reserve and self._reserve.give_up():
            self._run_admitted(jobs)  # the reserve is gone now, so this ends
        else:
            jobs[0].error = failure

    def _admitted(self, jobs: Sequence[StoreJob]) -> Sequence[StoreJob]:
        """The jobs that may run: while the reserve is not whole, only those that free something."""
        if self._reserve is None or self._reserve.keep():
            return jobs
        for job in jobs:
            job.error = StoreFull("no space is left where the memory store rests")
        return [job for job in jobs if job.frees]

    def _make_room(self, connection: SqliteConnection) -> None:
        """On a disk that is full, or nearly: keep the log short, and hold the reserve.

        A checkpoint gives back the space of the log, but first needs some for the pages the database grew by. Tried
        without having it, it would eat up what is left for deletions.
        """
        if self._path is None or self._reserve is None:
            return
        with suppress(CommonplaceError, OSError):
            pages = int(connection.rows("PRAGMA page_count")[0][0] or 0)
            growth = pages * int(connection.rows("PRAGMA page_size")[0][0] or 0) - os.stat(self._path).st_size
            if growth <= free_bytes(self._path, self._file_system):
                connection.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        self._reserve.keep()

    def _attempt(self, connection: SqliteConnection, jobs: Sequence[StoreJob]) -> CommonplaceError | None:
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
                self._commit(connection)
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
            if self._path is not None and free_bytes(self._path, self._file_system) < LOW_SPACE_BYTES:
                self._make_room(connection)
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

    def _transaction(self, connection: SqliteConnection, store_id: str) -> sql.SqlTransaction:
        return sql.SqlTransaction(connection, store_id, clock=self.clock, new_id=self.new_id)

    def _job_done(self, transaction: sql.SqlTransaction) -> None:
        """What a backend over this one notes between two jobs of a batch."""

    def _before_commit(self, connection: SqliteConnection, changed: Sequence[sql.SqlTransaction]) -> None:
        """What a backend over this one adds to the commit."""

    def _after_commit(self, connection: SqliteConnection, changed: Sequence[sql.SqlTransaction]) -> None:
        """What a backend over this one does, still alone in the store, once the commit is durable."""

    @contextmanager
    def _exclusive(self) -> Iterator[SqliteConnection]:
        """The connection that writes. The caller leads the queue."""
        self._check_open()
        yield self._open_writer()

    def _begin(self, connection: SqliteConnection) -> None:
        """Start a write, waiting for other processes."""
        if self._scrub_due:
            self._scrub(connection)
        _wait_for_lock(connection)

    def _commit(self, connection: SqliteConnection) -> None:
        """Commit. A commit that failed must stay failed.

        Its frames, commit mark included, may rest whole in the log although syncing it failed; the next recovery would
        then revive a change that was refused. So something trivial is committed over them before anything else.
        Raises `OutcomeUnknown` if not even that can be written.
        """
        try:
            connection.run("COMMIT")
        except Exception as error:
            connection.roll_back()
            self._scrub_due = True
            try:
                self._scrub(connection)
            except CommonplaceError:
                raise OutcomeUnknown("the commit failed and could not be taken back") from error
            raise

    def _scrub(self, connection: SqliteConnection) -> None:
        try:
            self._commit_trifle(connection)
        except StoreFull:
            if self._reserve is None or not self._reserve.give_up():
                raise
            self._commit_trifle(connection)
            self._make_room(connection)
        self._scrub_due = False

    def _commit_trifle(self, connection: SqliteConnection) -> None:
        try:
            _wait_for_lock(connection)
            number = int(connection.rows("PRAGMA user_version")[0][0] or 0) % 1_000_000
            connection.run(f"PRAGMA user_version = {number + 1}")
            connection.run("COMMIT")
        finally:
            connection.roll_back()


def _wait_for_lock(connection: SqliteConnection) -> None:
    """Start a write transaction. SQLite's own waiting sleeps up to 100 ms at a time, ours at most 2."""
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    pause_s = _FIRST_PAUSE_S
    while not connection.begin():
        if time.monotonic() > deadline:
            raise Unavailable("another process holds the memory store")
        time.sleep(random.uniform(pause_s / 2, pause_s))  # noqa: S311 - spreads waiters, hides nothing
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


def _identity(path: str) -> tuple[int, int] | None:
    with suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None
