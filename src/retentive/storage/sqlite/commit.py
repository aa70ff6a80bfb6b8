"""The write transactions of one process on one SQLite file. A commit that failed stays failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from retentive.errors import OutcomeUnknown, RetentiveError, StoreFull
from retentive.storage.sqlite.connection import SqliteConnection, connect, wait_for_lock
from retentive.storage.sqlite.space import Space

T = TypeVar("T")


class Writer:
    """The one connection of this process that writes to the file at `path` (None: a database in memory).

    For one thread at a time. `space` is None where no space is reserved.
    """

    def __init__(self, path: str | None, space: Space | None) -> None:
        self._path = path
        self._space = space
        self._connection: SqliteConnection | None = None
        self._overwrite_due = False

    @property
    def connection(self) -> SqliteConnection:
        """The connection; opened when it is needed, as after a fork."""
        if self._connection is None:
            self._connection = connect(self._path, timeout_s=0.0)
        return self._connection

    def close(self) -> None:
        """Close the connection; it is opened again when it is needed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def transact(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run work in a transaction of its own, and commit."""
        self.begin()
        try:
            done = work(self.connection)
            self.commit()
        finally:
            self.roll_back()
        return done

    def begin(self) -> None:
        """Start a transaction, waiting for other processes."""
        if self._overwrite_due:
            self._overwrite_failed_commit()
        wait_for_lock(self.connection)

    def roll_back(self) -> None:
        """End the transaction, if there is one, as if it had never been."""
        self.connection.roll_back()

    def commit(self) -> None:
        """Commit. A commit that failed must stay failed.

        Its frames, commit mark included, may be whole in the log although syncing it failed; the next recovery would
        then revive a change that was refused. So something trivial is committed over them before anything else.
        Raises `OutcomeUnknown` if not even that can be written.
        """
        try:
            self.connection.run("COMMIT")
        except Exception as error:
            self.roll_back()
            self._overwrite_due = True
            try:
                self._overwrite_failed_commit()
            except RetentiveError:
                raise OutcomeUnknown("the commit failed and could not be taken back") from error
            raise

    def _overwrite_failed_commit(self) -> None:
        try:
            self._commit_trifle()
        except StoreFull:
            if self._space is None or not self._space.give_up():
                raise
            self._commit_trifle()
            self._space.make_room(self.connection)
        self._overwrite_due = False

    def _commit_trifle(self) -> None:
        connection = self.connection
        try:
            wait_for_lock(connection)
            # The only number in the header that SQLite itself counts up: other connections read the schema again.
            number = int(connection.rows("PRAGMA schema_version")[0][0] or 0) % 1_000_000_000
            connection.run(f"PRAGMA schema_version = {number + 1}")
            connection.run("COMMIT")
        finally:
            connection.roll_back()
