"""Beginning and committing in SQLite, so that a commit that failed stays failed."""

from __future__ import annotations

from retentive.errors import OutcomeUnknown, RetentiveError, StoreFull
from retentive.storage.sqlite.connection import SqliteConnection, wait_for_lock
from retentive.storage.sqlite.space import Space


class Commits:
    """The write transactions of one process on one file, one after the other."""

    def __init__(self, space: Space | None) -> None:
        self._space = space
        self._scrub_due = False

    def begin(self, connection: SqliteConnection) -> None:
        """Start a write, waiting for other processes."""
        if self._scrub_due:
            self._scrub(connection)
        wait_for_lock(connection)

    def commit(self, connection: SqliteConnection) -> None:
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
            except RetentiveError:
                raise OutcomeUnknown("the commit failed and could not be taken back") from error
            raise

    def _scrub(self, connection: SqliteConnection) -> None:
        try:
            self._commit_trifle(connection)
        except StoreFull:
            if self._space is None or not self._space.give_up():
                raise
            self._commit_trifle(connection)
            self._space.make_room(connection)
        self._scrub_due = False

    def _commit_trifle(self, connection: SqliteConnection) -> None:
        try:
            wait_for_lock(connection)
            number = int(connection.rows("PRAGMA user_version")[0][0] or 0) % 1_000_000
            connection.run(f"PRAGMA user_version = {number + 1}")
            connection.run("COMMIT")
        finally:
            connection.roll_back()
