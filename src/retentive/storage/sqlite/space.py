"""Reserved disk space, so that deletions work even on a full disk.

The space is reserved by a second file next to the SQLite file. If little space is free, the write-ahead log is also
kept short.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from retentive.errors import RetentiveError
from retentive.storage.disk import CLOSE_ON_EXEC, FILE_MODE, local_file_system
from retentive.storage.sqlite.connection import SqliteConnection

RESERVE_SUFFIX = "-reserve"
RESERVE_BYTES = 64 * 1024  # enough for the log of one deletion: about 8 pages of 4 KB
LOW_SPACE_BYTES = 16 * 1024 * 1024  # four times the longest log


class Space:
    """File that occupies disk space until a deletion needs this space. It is next to the database file at `path`.

    Callers need exclusive write access to the database.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._reserve = path + RESERVE_SUFFIX
        self.is_reserved = False
        self.file_system = local_file_system(os.path.dirname(path))

    def keep(self) -> bool:
        """Write the reserve file if the disk has enough space. Returns True if the reserve file is complete."""
        if not self.is_reserved:
            with suppress(OSError):
                self.is_reserved = os.path.getsize(self._reserve) >= RESERVE_BYTES
        if not self.is_reserved:
            with suppress(OSError):
                descriptor = os.open(self._reserve, os.O_CREAT | os.O_WRONLY | CLOSE_ON_EXEC, FILE_MODE)
                try:  # bytes are written, because a sparse file reserves no space
                    self.is_reserved = os.write(descriptor, bytes(RESERVE_BYTES)) == RESERVE_BYTES
                    os.fsync(descriptor)
                except OSError:
                    self.is_reserved = False
                    os.ftruncate(descriptor, 0)
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
        return _free_bytes(self._path, self.file_system) < LOW_SPACE_BYTES

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
        self.keep()


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
