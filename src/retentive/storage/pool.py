"""Connection pool that the threads of one process share, and a lock that lets reading threads run one at a time."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from retentive.errors import Damaged, Unavailable

MAX_IDLE = 8
SOON_S = 0.0002  # a thread whose last read ended less than this ago will probably read again as soon
RUN_S = 0.0005  # time after which such a thread must let others read
RETRY_S = 0.002  # time after which the first waiting thread looks whether the turn is free
SLOW_S = 0.02  # a reader that takes longer loses its turn, so that others need not wait


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
        connection = self.take()
        has_failed = False
        try:
            yield connection
        except (Unavailable, Damaged):
            has_failed = True
            raise
        finally:
            self.give_back(connection, has_failed=has_failed)

    def take(self) -> C:
        """Borrow a connection. The caller must return it with `give_back`."""
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

    def give_back(self, connection: C, *, has_failed: bool = False) -> None:
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


class _Waiter:
    """Thread that waits for its turn. `number` is 0 until the thread gets a turn, and then the number of this turn."""

    __slots__ = ("has_turn", "number")

    def __init__(self) -> None:
        self.has_turn = threading.Lock()
        self.has_turn.acquire()
        self.number = 0


class ReadTurns:
    """Lock that lets reading threads work one at a time. Threads cannot run Python code at the same time anyway.

    The module `sqlite3` and system calls release Python's global lock several times in each read. Each release wakes
    another thread that waits for the global lock. With 64 reading threads, one view took 90 thread switches. A thread
    that waits for its turn here does not wait for the global lock, so it is not woken.

    A thread may read many times in a row for up to `RUN_S`. When it releases a turn during this time, no other thread
    is woken, and it can take the next turn itself. After `RUN_S`, the thread that has waited longest gets the turn.
    With 16 threads, a view takes 0.4 thread switches instead of 2. If the thread does not read again, the turn stays
    free until the first waiting thread takes it, after `RETRY_S` at the latest.

    If the work of a thread takes longer than `SLOW_S`, the next thread starts before this work ends.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: deque[_Waiter] = deque()
        self._last_read = threading.local()
        self._is_free = True
        self._number = 0
        self._since = 0.0  # start of the current read
        self._run_since = 0.0  # time when the turn last went to another thread
        self._reads_again = False

    def take(self) -> int:
        """Wait for a turn and return its number. Pass the number to `release` when the work is done."""
        now = time.monotonic()
        reads_again = now - getattr(self._last_read, "ended", -math.inf) < SOON_S
        with self._mutex:
            if self._is_free:
                self._is_free, self._reads_again, self._since = False, reads_again, now
                self._number += 1
                return self._number
            waiter = _Waiter()
            self._waiting.append(waiter)
            retry_s = RETRY_S * len(self._waiting)
        try:
            while not waiter.has_turn.acquire(timeout=retry_s) and not self._takes_over(waiter):
                pass
        except BaseException:  # an interrupt must neither leave the waiter in the queue nor lose the turn
            self._withdraw(waiter)
            raise
        self._reads_again = reads_again
        return waiter.number

    def _next(self, now: float) -> int:
        self._since = now
        self._number += 1
        return self._number

    def _takes_over(self, waiter: _Waiter) -> bool:
        """Give `waiter` the turn if the turn is free, or if the thread that has it is slow.

        Returns True if `waiter` now has the turn.
        """
        now = time.monotonic()
        with self._mutex:
            if not waiter.number and (self._is_free or now - self._since > SLOW_S):
                self._waiting.remove(waiter)
                self._is_free = False
                self._run_since = now
                waiter.number = self._next(now)
            return waiter.number > 0

    def _withdraw(self, waiter: _Waiter) -> None:
        with self._mutex:
            if not waiter.number:
                self._waiting.remove(waiter)
        if waiter.number:
            self.release(waiter.number)

    def release(self, number: int) -> None:
        """End the turn `number`. Does nothing if the turn took so long that another thread has begun the next turn."""
        now = self._last_read.ended = time.monotonic()
        with self._mutex:
            if number != self._number:
                return
            if not self._waiting or (self._reads_again and now - self._run_since < RUN_S):
                self._is_free = True
                return
            waiter = self._waiting.popleft()
            self._run_since = now
            waiter.number = self._next(now)
        waiter.has_turn.release()
