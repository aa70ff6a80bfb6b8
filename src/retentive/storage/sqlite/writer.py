"""Write transactions of one process on one SQLite file, and the disk space that is reserved for deletions.

A failed commit never takes effect later. Viewing and deleting work even on a full disk: the space for them is reserved
by a second file next to the SQLite file. If little space is free, the write-ahead log is also kept short.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from retentive.errors import OutcomeUnknown, RetentiveError, StoreFull, Unavailable
from retentive.storage.disk import CLOSE_ON_EXEC, FILE_MODE, free_bytes, local_file_system
from retentive.storage.sqlite.connection import READ_TIMEOUT_S, SqliteConnection

T = TypeVar("T")
RESERVE_SUFFIX = "-reserve"
RESERVE_BYTES = 128 * 1024  # SQLite's index of the log takes 32 KB; the log of one deletion, about 8 pages of 4 KB
RESERVE_PER_MEMORY_BYTES = 640  # measured: to delete a directory takes 560 bytes of log for each memory in it
MAX_RESERVE_BYTES = 16 * 1024 * 1024
LOW_SPACE_BYTES = 16 * 1024 * 1024  # four times the longest log
SPACE_CHECK_EVERY = 16  # number of commits; if space is low, it is checked after each commit
_PAGE_BYTES = 4_096


class Writer:
    """Connection for all write transactions of this process, and the reserve file next to the database at `path`.

    Without a path, the database is in memory and needs no reserve. Callers need exclusive write access to the database,
    except for `connected`.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._connection: SqliteConnection | None = None
        self._overwrite_due = False
        self._wanted_bytes = RESERVE_BYTES
        self._is_reserved = path is None
        self._commits, self._is_space_low = 0, True  # assume low space until the first commit checks it
        self._file_system, self._has_small_blocks = "", False
        if path is not None:
            directory = os.path.dirname(path)
            self._file_system = local_file_system(directory)
            self._has_small_blocks = hasattr(os, "statvfs") and os.statvfs(directory).f_frsize < _PAGE_BYTES

    @property
    def connection(self) -> SqliteConnection:
        """Connection for writing. It is opened when it is first used, and again after `close`."""
        if self._connection is None:
            self._connection = self.connected(timeout_s=0.0)  # `begin` waits
        return self._connection

    def close(self) -> None:
        """Close the connection. The next use opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def transact(self, work: Callable[[SqliteConnection], T], *, may_use_reserve: bool = False) -> T:
        """Run `work` in a transaction of its own, commit, and return the result of `work`."""
        if may_use_reserve:
            return self.with_reserve(partial(self.transact, work))
        self.begin()
        try:
            result = work(self.connection)
            self.commit()
        finally:
            self.connection.roll_back()
        return result

    def begin(self, *, deadline: float | None = None) -> None:
        """Start a write transaction. Waits for write transactions of other processes until the deadline."""
        if self._overwrite_due:
            self._overwrite_failed_commit()
        self.connection.begin(deadline=deadline)

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
            self.connection.roll_back()
            self._overwrite_due = True
            try:
                self._overwrite_failed_commit()
            except RetentiveError:
                raise OutcomeUnknown(
                    "the outcome of the commit is unknown: it may still take effect; read the memory before you retry"
                ) from error
            raise

    def _overwrite_failed_commit(self) -> None:
        self.with_reserve(self.connection.rewrite_header)
        self._overwrite_due = False

    def with_reserve(self, work: Callable[[], T]) -> T:
        """Call `work`. On a full disk, call it again with the space of the reserve."""
        try:
            return work()
        except StoreFull:
            if not self._give_up_reserve():
                raise
        try:
            return work()
        finally:
            self._make_room()

    def keep_reserve(self, *, measures: bool = False) -> bool:
        """Write the reserve file, or as much of it as the disk has space for. Returns True if it is complete.

        With `measures`, the reserve gets the size that is needed to delete all memories.
        """
        if self._path is None:
            return True
        if measures:
            with suppress(RetentiveError):
                memories = int(self.connection.rows("SELECT count(*) FROM memories")[0][0] or 0)
                wanted = min(RESERVE_BYTES + memories * RESERVE_PER_MEMORY_BYTES, MAX_RESERVE_BYTES)
                self._is_reserved = self._is_reserved and wanted <= self._wanted_bytes
                self._wanted_bytes = wanted
        if not self._is_reserved:
            flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | CLOSE_ON_EXEC
            with suppress(OSError):
                descriptor = os.open(self._path + RESERVE_SUFFIX, flags, FILE_MODE)
                try:
                    # The bytes are random, because a file system that compresses would reserve nothing for zeros.
                    while (missing := self._wanted_bytes - os.fstat(descriptor).st_size) > 0:
                        os.write(descriptor, os.urandom(min(missing, 1 << 20)))
                    self._is_reserved = True
                finally:
                    os.fsync(descriptor)
                    os.close(descriptor)
        return self._is_reserved

    def _give_up_reserve(self) -> bool:
        """Empty the reserve file. Returns True if this freed any space."""
        if self._path is None:
            return False
        self._is_reserved = False
        try:
            size = os.path.getsize(self._path + RESERVE_SUFFIX)
            os.truncate(self._path + RESERVE_SUFFIX, 0)
        except OSError:
            return False
        return size > 0

    def _has_less_than(self, size: int) -> bool:
        return self._path is not None and free_bytes(self._path, self._file_system) < size

    def connected(self, *, timeout_s: float = READ_TIMEOUT_S) -> SqliteConnection:
        """Open the database. On a full disk, this uses the reserved space.

        SQLite needs space for the index of its log. It reports some failures on a full disk as an unreadable file. With
        blocks smaller than 4 KB, SQLite reserves this space with holes, and the first write to a hole on a full disk
        kills the process (SIGBUS). A commit of nothing fills the holes.
        """
        if self._path is None:
            return SqliteConnection(None)
        has_holes = self._has_small_blocks and not os.path.exists(self._path + "-shm")
        if has_holes and self._has_less_than(RESERVE_BYTES):
            self._give_up_reserve()
        connect = partial(SqliteConnection, self._path, timeout_s=timeout_s, use_log=True)
        try:
            connection = connect()
        except (StoreFull, Unavailable):
            if not self._has_less_than(RESERVE_BYTES) or not self._give_up_reserve():
                raise
        else:
            if has_holes:
                with suppress(RetentiveError):  # another process is writing, so it has filled them
                    connection.rewrite_header(deadline=time.monotonic())
            return connection
        try:
            return connect()
        except Unavailable:
            raise StoreFull("no space is left for the memory store") from None
        finally:
            self.keep_reserve()

    def watch_space(self) -> None:
        """Check the free space after a commit, at intervals, and make room if it is low."""
        self._commits += 1
        if self._path is not None and (self._is_space_low or self._commits % SPACE_CHECK_EVERY == 0):
            self._is_space_low = self._has_less_than(LOW_SPACE_BYTES)
            if self._is_space_low:
                self._make_room()

    def _make_room(self) -> None:
        """Truncate the write-ahead log and write the reserve file. Called on a full or nearly full disk.

        A checkpoint truncates the log. It first needs space for new pages of the database file. If there is not enough
        space for them, the checkpoint is skipped, because a failed checkpoint would use up the space that deletions
        need.
        """
        with suppress(RetentiveError, OSError):
            rows = self.connection.rows
            pages, page_bytes = (int(rows(f"PRAGMA {name}")[0][0] or 0) for name in ("page_count", "page_size"))
            if not self._has_less_than(pages * page_bytes - os.stat(str(self._path)).st_size):
                rows("PRAGMA wal_checkpoint(TRUNCATE)")
        self.keep_reserve(measures=True)
