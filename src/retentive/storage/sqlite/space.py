"""Reserved disk space, so that viewing and deleting work even on a full disk.

The space is reserved by a second file next to the SQLite file. If little space is free, the write-ahead log is also
kept short.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from retentive.errors import RetentiveError, StoreFull, Unavailable
from retentive.storage.disk import CLOSE_ON_EXEC, FILE_MODE, local_file_system
from retentive.storage.sqlite.connection import SqliteConnection

RESERVE_SUFFIX = "-reserve"
RESERVE_BYTES = 128 * 1024  # SQLite's index of the log takes 32 KB; the log of one deletion, about 8 pages of 4 KB
RESERVE_PER_MEMORY_BYTES = 640  # measured: to delete a directory takes 560 bytes of log for each memory in it
MAX_RESERVE_BYTES = 16 * 1024 * 1024
LOW_SPACE_BYTES = 16 * 1024 * 1024  # four times the longest log
_PAGE_BYTES = 4_096


class Space:
    """File that occupies disk space until a deletion needs this space. It is next to the database file at `path`.

    Callers need exclusive write access to the database, except for `connected`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._reserve = path + RESERVE_SUFFIX
        self._wanted_bytes = RESERVE_BYTES
        self.is_reserved = False
        self.file_system = local_file_system(os.path.dirname(path))
        self._has_small_blocks = hasattr(os, "statvfs") and os.statvfs(os.path.dirname(path)).f_frsize < _PAGE_BYTES

    def measure(self, connection: SqliteConnection) -> None:
        """Adapt the size of the reserve to the number of memories, so that all of them can be deleted."""
        with suppress(RetentiveError):
            memories = int(connection.rows("SELECT count(*) FROM memories")[0][0] or 0)
            wanted = min(RESERVE_BYTES + memories * RESERVE_PER_MEMORY_BYTES, MAX_RESERVE_BYTES)
            self.is_reserved = self.is_reserved and wanted <= self._wanted_bytes
            self._wanted_bytes = wanted

    def keep(self) -> bool:
        """Write the reserve file, or as much of it as the disk has space for. Returns True if it is complete."""
        if not self.is_reserved:
            with suppress(OSError):
                descriptor = os.open(self._reserve, os.O_CREAT | os.O_WRONLY | CLOSE_ON_EXEC, FILE_MODE)
                try:
                    self.is_reserved = _reserve(descriptor, self._wanted_bytes)
                finally:
                    os.close(descriptor)
        return self.is_reserved

    def give_up(self) -> bool:
        """Empty the reserve file. Returns True if this freed any space."""
        self.is_reserved = False
        try:
            size = os.path.getsize(self._reserve)
            os.truncate(self._reserve, 0)
        except OSError:
            return False
        return size > 0

    @property
    def is_low(self) -> bool:
        """True if the disk has so little free space that the log must be kept short."""
        return self._has_less_than(LOW_SPACE_BYTES)

    def connected(self, connect: Callable[[], SqliteConnection]) -> SqliteConnection:
        """Return the result of `connect`, which opens the database. On a full disk, it uses the reserved space.

        SQLite needs space for the index of its log. It reports some failures on a full disk as an unreadable file.
        """
        has_holes = self._has_small_blocks and not os.path.exists(self._path + "-shm")
        if has_holes and self._has_less_than(RESERVE_BYTES):
            self.give_up()
        try:
            return _filled(connect()) if has_holes else connect()
        except (StoreFull, Unavailable):
            if not self._has_less_than(RESERVE_BYTES) or not self.give_up():
                raise
        try:
            return connect()
        except Unavailable:
            raise StoreFull("no space is left for the memory store") from None
        finally:
            self.keep()

    def make_room(self, connection: SqliteConnection) -> None:
        """Truncate the write-ahead log and write the reserve file. Called on a full or nearly full disk.

        A checkpoint truncates the log. It first needs space for new pages of the database file. If there is not enough
        space for them, the checkpoint is skipped, because a failed checkpoint would use up the space that deletions
        need.
        """
        with suppress(RetentiveError, OSError):
            pages = int(connection.rows("PRAGMA page_count")[0][0] or 0)
            growth = pages * int(connection.rows("PRAGMA page_size")[0][0] or 0) - os.stat(self._path).st_size
            if growth <= _free_bytes(self._path, self.file_system):
                connection.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        self.measure(connection)
        self.keep()

    def _has_less_than(self, size: int) -> bool:
        return _free_bytes(self._path, self.file_system) < size


def _filled(connection: SqliteConnection) -> SqliteConnection:
    """Commit a change of nothing, so that SQLite writes the whole index of its log. Returns the connection.

    SQLite reserves space for the index by one byte for each 4 KB. With smaller blocks, this leaves holes in the mapped
    file, and on a full disk the first write to a hole kills the process (SIGBUS).
    """
    with suppress(RetentiveError):  # another process is writing, so it has written the index
        connection.rewrite_header(deadline=time.monotonic())
    return connection


def _reserve(descriptor: int, size: int) -> bool:
    """Give the file `size` bytes, or the largest part of them that the disk has space for. Returns True for all bytes.

    Raises `OSError` if there is no space for a single page.
    """
    present = os.fstat(descriptor).st_size
    part = size
    while part > present:
        try:
            _allocate(descriptor, present, part)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, present)
            part = present + (part - present) // 2 // _PAGE_BYTES * _PAGE_BYTES
        else:
            break
    return max(part, present) >= size


def _allocate(descriptor: int, present: int, size: int) -> None:
    """Extend a file from `present` to `size` bytes. A sparse file would reserve no space."""
    if hasattr(os, "posix_fallocate"):
        with suppress(OSError):  # not every file system has it; a full disk fails again below
            os.posix_fallocate(descriptor, present, size - present)
            return
    os.lseek(descriptor, present, os.SEEK_SET)
    if os.write(descriptor, bytes(size - present)) != size - present:
        raise OSError("only a part of the reserve was written")


def _free_bytes(path: str, file_system: str) -> int:
    """Return how many bytes this process can still write in the directory of `path`, or `sys.maxsize` if unknown."""
    if not hasattr(os, "statvfs"):
        return sys.maxsize
    try:
        found = os.statvfs(path)
    except OSError:
        return sys.maxsize
    if os.geteuid() != 0:
        return found.f_bavail * found.f_frsize
    kept = min(found.f_blocks // 50, 4_096) if file_system == "ext4" else 0  # reserved even from root, but not reported
    return max(found.f_bfree - kept, 0) * found.f_frsize
