"""A full disk must not block deleting: space kept in reserve beside a SQLite file, and a log kept short."""

from __future__ import annotations

import os
from contextlib import suppress

from retentive.errors import RetentiveError
from retentive.storage.disk import Reserve, free_bytes, local_file_system
from retentive.storage.sqlite.connection import SqliteConnection

LOW_SPACE_BYTES = 16 * 1024 * 1024  # four times the log at its longest


class Space:
    """The space for the database file at `path`. The caller is alone with it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file_system = local_file_system(os.path.dirname(path))
        self.reserve = Reserve(path + "-reserve")

    def keep(self) -> bool:
        """Hold the reserve; False if there is no space for all of it."""
        return self.reserve.keep()

    def give_up(self) -> bool:
        """Free the reserve; False if it was free already."""
        return self.reserve.give_up()

    @property
    def is_low(self) -> bool:
        """True if little space is left, so that the log must be kept short."""
        return free_bytes(self._path, self._file_system) < LOW_SPACE_BYTES

    def make_room(self, connection: SqliteConnection) -> None:
        """On a disk that is full, or nearly: keep the log short, and hold the reserve.

        A checkpoint gives back the space of the log, but first needs some for the pages the database grew by. Tried
        without having it, it would eat up what is left for deletions.
        """
        with suppress(RetentiveError, OSError):
            pages = int(connection.rows("PRAGMA page_count")[0][0] or 0)
            growth = pages * int(connection.rows("PRAGMA page_size")[0][0] or 0) - os.stat(self._path).st_size
            if growth <= free_bytes(self._path, self._file_system):
                connection.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        self.reserve.keep()
