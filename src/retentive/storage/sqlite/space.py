"""Keeps a reserve of disk space beside a SQLite file and a short log, so that a full disk permits deletions."""

from __future__ import annotations

import os
from contextlib import suppress

from retentive.errors import RetentiveError
from retentive.storage.disk import Reserve, free_bytes, local_file_system
from retentive.storage.sqlite.connection import SqliteConnection

LOW_SPACE_BYTES = 16 * 1024 * 1024  # four times the longest log


class Space(Reserve):
    """Disk space for the database file at `path`, with a reserve. The caller has exclusive access."""

    def __init__(self, path: str) -> None:
        super().__init__(path + "-reserve")
        self._database = path
        self._file_system = local_file_system(os.path.dirname(path))

    @property
    def is_low(self) -> bool:
        """True if so little space is left that the log must be kept short."""
        return free_bytes(self._database, self._file_system) < LOW_SPACE_BYTES

    def make_room(self, connection: SqliteConnection) -> None:
        """Truncate the log and allocate the reserve, on a full or nearly full disk.

        A checkpoint frees the space of the log, but first needs space for new pages of the database. Without enough
        space, a failed checkpoint would use up the space left for deletions.
        """
        with suppress(RetentiveError, OSError):
            pages = int(connection.rows("PRAGMA page_count")[0][0] or 0)
            growth = pages * int(connection.rows("PRAGMA page_size")[0][0] or 0) - os.stat(self._database).st_size
            if growth <= free_bytes(self._database, self._file_system):
                connection.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        self.keep()
