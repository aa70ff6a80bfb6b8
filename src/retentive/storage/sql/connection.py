"""Interface of database connections that the shared SQL statements use, and the pool of the threads of a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, Protocol, TypeAlias, TypeVar

from retentive.errors import Damaged, Unavailable

Value: TypeAlias = str | int | bytes | None
Row: TypeAlias = tuple[Value, ...]
MAX_IDLE = 8
T = TypeVar("T")


class Connection(Protocol):
    """Connection to a database. Its methods raise the errors of `retentive.errors`.

    `usable` is false after a failure that ended the connection.
    """

    usable: bool

    def close(self) -> None:
        """Close the connection."""

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a statement and return all its rows."""

    def run(self, sql: str, values: Sequence[Value] = ()) -> None:
        """Run a statement that returns no rows.

        The statement may be queued, and sent later together with the commit or with the next call of `rows`. The later
        call then raises the errors of the statement.
        """


C = TypeVar("C", bound=Connection)


class Pool(Generic[C]):
    """Connection pool that opens connections on demand and keeps idle connections for later use.

    `limit` is the maximum number of open connections. With a limit, every returned connection is kept, unless it has
    failed. Borrowing a connection raises `Unavailable` if none is free within `timeout_s`.
    """

    def __init__(self, open_one: Callable[[], C], *, limit: int | None = None, timeout_s: float = 30.0) -> None:
        self._open_one = open_one
        self._limit = limit
        self._timeout_s = timeout_s
        self._idle: list[C] = []
        self._busy = 0
        self._held = False
        self._mutex = threading.Lock()
        self._change = threading.Condition(self._mutex)

    def run(self, work: Callable[[C], T]) -> T:
        """Return the result of `work` with a connection. If the connection fails, it is closed."""
        with self._mutex:
            if not self._has_free() and not self._change.wait_for(self._has_free, self._timeout_s):
                raise Unavailable("all database connections of this process are in use; try again later")
            self._busy += 1
            connection = self._idle.pop() if self._idle else None
        has_failed = False
        try:
            if connection is None:
                connection = self._open_one()
            return work(connection)
        except (Unavailable, Damaged):
            has_failed = True
            raise
        finally:
            with self._mutex:
                if connection is not None:
                    if has_failed or not connection.usable or len(self._idle) >= (self._limit or MAX_IDLE):
                        connection.close()  # while it counts as busy, so that a fork waits for the close
                    else:
                        self._idle.append(connection)
                self._busy -= 1
                if self._held or self._limit is not None:  # otherwise nobody waits
                    self._change.notify_all()

    def _has_free(self) -> bool:
        return not self._held and (self._limit is None or self._busy < self._limit)

    @property
    def size(self) -> tuple[int, int]:
        """Number of connections in use, and of idle ones."""
        return self._busy, len(self._idle)

    def drop(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait until no connection is in use, and close all connections.

        During the context, no connection can be borrowed.
        """
        with self._change:
            self._held = True
            self._change.wait_for(lambda: not self._busy)
            self.drop()
        try:
            yield
        finally:
            with self._change:
                self._held = False
                self._change.notify_all()
