"""Connection pool that the threads of one process share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from retentive.errors import Damaged, Unavailable

MAX_IDLE = 8


class Closable(Protocol):
    """Object that the pool can manage."""

    @property
    def usable(self) -> bool:
        """False after a failure that ended the connection."""

    def close(self) -> None:
        """Close the connection."""


C = TypeVar("C", bound=Closable)


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

    @contextmanager
    def connection(self) -> Iterator[C]:
        """Borrow a connection for the context. If the connection fails, it is closed at the end of the context."""
        connection = self._take()
        has_failed = False
        try:
            yield connection
        except (Unavailable, Damaged):
            has_failed = True
            raise
        finally:
            self._give_back(connection, has_failed=has_failed)

    def _take(self) -> C:
        """Borrow a connection. The caller must return it with `_give_back`."""
        with self._mutex:
            if self._held or (self._limit is not None and self._busy >= self._limit):
                self._wait()
            self._busy += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._open_one()
        except BaseException:
            with self._mutex:
                self._busy -= 1
                self._change.notify_all()
            raise

    def _wait(self) -> None:
        deadline = time.monotonic() + self._timeout_s
        while self._held or (self._limit is not None and self._busy >= self._limit):
            left_s = None if self._held else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                raise Unavailable("all database connections of this process are in use; try again later")
            self._change.wait(left_s)

    def _give_back(self, connection: C, *, has_failed: bool = False) -> None:
        """Return a borrowed connection to the pool.

        The connection is closed if it has failed, or if the pool has enough idle connections.
        """
        with self._mutex:
            if has_failed or not connection.usable or len(self._idle) >= (self._limit or MAX_IDLE):
                connection.close()  # while it counts as busy, so that a fork waits for the close
            else:
                self._idle.append(connection)
            self._busy -= 1
            if self._held or self._limit is not None:
                self._change.notify_all()

    def drop(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait until no connection is in use, and close all connections.

        During the context, no connection can be borrowed.
        """
        with self._mutex:
            self._held = True
            while self._busy:
                self._change.wait()
            self.drop()
        try:
            yield
        finally:
            with self._mutex:
                self._held = False
                self._change.notify_all()
