"""Write transactions of one process on one SQLite file. A failed commit never takes effect later."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from retentive.errors import OutcomeUnknown, RetentiveError, StoreFull
from retentive.storage.sqlite.connection import SqliteConnection, connect
from retentive.storage.sqlite.space import Space

T = TypeVar("T")


class Writer:
    """Connection for all write transactions of this process. `path` is the file, or None for a database in memory.

    Only one thread at a time may use the object. `space` manages the reserved disk space, if there is any.
    """

    def __init__(self, path: str | None, space: Space | None) -> None:
        self._path = path
        self._space = space
        self._connection: SqliteConnection | None = None
        self._overwrite_due = False

    @property
    def connection(self) -> SqliteConnection:
        """Connection for writing. It is opened when it is first used, and again after `close`."""
        if self._connection is None:
            opened = partial(connect, self._path, timeout_s=0.0)
            self._connection = opened() if self._space is None else self._space.connected(opened)
        return self._connection

    def close(self) -> None:
        """Close the connection. The next use opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def transact(self, work: Callable[[SqliteConnection], T], *, may_use_reserve: bool = False, wait: bool = True) -> T:
        """Run `work` in a transaction of its own, commit, and return the result of `work`."""
        if may_use_reserve:
            return self.with_reserve(partial(self.transact, work, wait=wait))
        self.begin(deadline=None if wait else 0.0)
        try:
            result = work(self.connection)
            self.commit()
        finally:
            self.connection.roll_back()
        return result

    def with_reserve(self, work: Callable[[], T]) -> T:
        """Call `work`. On a full disk, call it again with the space of the reserve."""
        try:
            return work()
        except StoreFull:
            if self._space is None or not self._space.give_up():
                raise
        try:
            return work()
        finally:
            self._space.make_room(self.connection)

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
