"""SQLite backend: memory stores in one file (or in memory), for any number of threads and processes of one host.

It adds to SQLite:

- a fair queue for writers, with group commit (`queue.py`)
- a lock file that lets one process write at a time (`lock_file.py`); SQLite's own lock needs polling and is unfair
- a guarantee that a failed commit does not take effect later (`writer.py`)
- reserved disk space, so that deletions work on a full disk (`writer.py`)
- closing of all connections before a fork (`forking.py`)
- detection of a database file that was deleted or replaced while it was open
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TypeVar, Unpack, cast

from retentive.errors import Closed, RetentiveError, StoreFull, Unavailable
from retentive.storage import forking
from retentive.storage.contract import Clock, NewId, Transaction, WriteMode, sortable_id
from retentive.storage.disk import make_directory, make_file, os_error
from retentive.storage.findings import Finding
from retentive.storage.lock_file import LockFile, writers_lock
from retentive.storage.queue import BatchFailed, StoreJob, WriteQueue, run_batch
from retentive.storage.sql import schema
from retentive.storage.sql.backend import SqlBackend
from retentive.storage.sql.connection import Connection, Pool
from retentive.storage.sql.snapshot import StoreHead
from retentive.storage.sql.transaction import SqlTransaction
from retentive.storage.sqlite.connection import SqliteConnection
from retentive.storage.sqlite.format import NEW_SUFFIX, check_format, check_log, integrity, size_of
from retentive.storage.sqlite.writer import RESERVE_SUFFIX, Writer

T = TypeVar("T")
PURGE_WAIT_S = 5.0  # maximum wait for readers of the log


class SqliteTransaction(SqlTransaction):
    """Transaction that also keeps the table of versions dense."""

    def close_gaps(self, version_ids: Sequence[str]) -> None:
        """Move the rows of versions away and back.

        SQLite merges half-empty pages only when it deletes rows. Without this, 1,000 packed versions of a memory of
        2 KB take 4.1 MB instead of 0.4 MB.
        """
        sql = f"UPDATE versions SET seq = -seq WHERE store = ? AND id IN ({', '.join('?' * len(version_ids))})"
        for _ in range(2):
            self.connection.run(sql, (self.store, *version_ids))


class SqliteBackend(SqlBackend):
    """Backend that keeps memory stores in the SQLite file at `path`. If `path` is None, they exist only in memory.

    Subclasses extend `prepare_batch` and `follow_commit`, to keep plain files beside the database. The thread that runs
    a batch calls them, while it holds the lock for writers.
    """

    def __init__(
        self,
        path: str | None,
        *,
        clock: Clock = time.time,
        new_id: NewId = sortable_id,
    ) -> None:
        super().__init__(clock, new_id)
        self._path = None if path is None else os.path.abspath(path)
        self._closed = False
        self._writer = Writer(None) if self._path is None else self._prepare(self._path)
        self._lock = self._open_lock()
        self.renew_after_fork()
        try:
            if not schema.is_current(self._writer.connection, self.dialect):
                self._writer.transact(partial(schema.create, dialect=self.dialect))
            else:
                self._writer.keep_reserve(measures=True)
            if self._path is not None:
                with suppress(OSError):  # there is none, except after the creation of the tables
                    os.unlink(self._path + NEW_SUFFIX)
        except BaseException:
            self._writer.close()
            raise
        forking.watch(self)

    def _prepare(self, path: str) -> Writer:
        try:
            make_directory(os.path.dirname(path))
            writer = Writer(path)
            check_log(path)
            check_format(path)
            if not size_of(path):
                make_file(path + NEW_SUFFIX)
            make_file(path)
            self._identity = _identity(path)
        except OSError as error:
            raise os_error(error) from None
        writer.keep_reserve()
        return writer

    def _open_lock(self) -> LockFile | None:
        """Return the lock between the processes that write."""
        return None if self._path is None else writers_lock(self._path + RESERVE_SUFFIX)

    def prepare_batch(self, writer: Writer) -> None:
        """Prepare for a batch of jobs. If this raises, all jobs of the batch fail."""

    def follow_commit(self, writer: Writer) -> None:
        """Do what follows a durable commit, before the next batch starts. Must not raise."""

    def transaction(self, connection: Connection, store_id: str, heads: dict[str, StoreHead]) -> SqlTransaction:
        return SqliteTransaction(connection, store_id, heads, clock=self.clock, new_id=self.new_id)

    def close(self) -> None:
        with self._queue.paused(), self._readers.held():
            self._drop_all()

    def __del__(self) -> None:
        with suppress(Exception):  # the object is partly constructed, or the interpreter is shutting down
            self._drop_all()

    def _drop_all(self) -> None:
        if not self._closed:
            self._closed = True
            self._readers.drop()
            self._writer.close()
            self._writer.keep_reserve()  # the last process that closes the file frees the space of the log
            if self._lock is not None:
                self._lock.close()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Stop readers and writers and close all connections to the file. The process may fork during the context."""
        with self._queue.paused(), self._readers.held():
            if self._path is not None:
                self._writer.close()
            yield

    def renew_after_fork(self) -> None:
        """Replace the locks, queue and connection pool in a forked child, which has no threads of the parent."""
        self._queue = WriteQueue(self._run_batch, lock=self._lock)
        self._readers = Pool(self._writer.connected)

    def check_open(self) -> None:
        """Raise `Closed` if the backend was closed, and `Unavailable` if its file was moved, replaced or deleted."""
        if self._closed:
            raise Closed("the location is closed; open it again")
        if self._path is not None and _identity(self._path) != self._identity:
            raise Unavailable("the database file was moved, replaced or deleted while it was open")

    def _examine(self, connection: Connection, *, quick: bool) -> Iterator[Finding]:
        yield from integrity(connection, quick=quick)
        yield from super()._examine(connection, quick=quick)

    def purge(self) -> bool:
        """Remove overwritten and deleted bytes from the log and free pages. All pages are written again (`VACUUM`).

        `secure_delete` overwrites deleted rows, but not the copies that stay in unused parts of pages when SQLite moves
        rows between pages. 130 MB take about 3 s. Returns False if a reader uses the log, or without space for this.
        """
        if self._path is None:
            return True
        with self.exclusive() as writer:
            clear_log = partial(writer.connection.clear_log, wait_s=PURGE_WAIT_S)
            is_rewritten = writer.with_reserve(clear_log)
            try:
                if is_rewritten:
                    writer.connection.run("VACUUM")
            except (StoreFull, Unavailable):
                is_rewritten = False
            return writer.with_reserve(clear_log) and is_rewritten

    def with_reader(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run `work` with a connection for reading. No transaction is open."""
        self.check_open()
        if self._path is not None:
            return self._readers.run(work)
        with self._queue.paused():  # an in-memory database has one connection, for readers and writers
            self.check_open()  # the backend may have been closed during the wait
            return work(self._writer.connection)

    def write(self, store_id: str, work: Callable[[Transaction], T], **mode: Unpack[WriteMode]) -> T:
        return cast("T", self._queue.submit(StoreJob(store_id, work, **mode)))

    def look(self, work: Callable[[Connection], T]) -> T:
        def look(connection: SqliteConnection) -> T:
            connection.rows("BEGIN")
            try:
                return work(connection)
            finally:
                connection.roll_back()

        return self.with_reader(look)

    def transact(self, work: Callable[[Connection], T], *, may_use_reserve: bool = False) -> T:
        with self.exclusive() as writer:
            return writer.transact(work, may_use_reserve=may_use_reserve)

    @contextmanager
    def exclusive(self) -> Iterator[Writer]:
        """Hold exclusive write access during the context. No transaction is open."""
        with self._queue.paused(), nullcontext() if self._lock is None else self._lock.held():
            self.check_open()
            self.prepare_batch(self._writer)
            yield self._writer

    def _run_batch(self, jobs: Sequence[StoreJob]) -> None:
        """Run and commit jobs. While the reserved disk space is not complete, only jobs that may use it can run."""
        if not self._writer.keep_reserve():
            for job in jobs:
                job.error = StoreFull("no space is left for the memory store")
            jobs = [job for job in jobs if job.may_use_reserve]
        run_batch(jobs, self._attempt)

    def _attempt(self, jobs: Sequence[StoreJob]) -> None:
        """Run the jobs and commit. On a full disk, a deletion may use the reserved disk space."""
        try:
            self.check_open()
            self.prepare_batch(self._writer)
        except RetentiveError as error:
            raise BatchFailed(error) from error
        if len(jobs) == 1 and jobs[0].may_use_reserve:
            self._writer.with_reserve(partial(self._commit, jobs))
        else:
            self._commit(jobs)

    def _commit(self, jobs: Sequence[StoreJob]) -> None:
        writer = self._writer
        try:
            writer.begin(deadline=jobs[0].deadline)
        except RetentiveError as error:  # another program may have locked the database
            raise BatchFailed(error) from error
        try:
            committed = self.run_jobs(writer.connection, jobs, lambda _: writer.commit())
        finally:
            writer.connection.roll_back()
        if committed:
            self.follow_commit(writer)
            writer.watch_space()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
