"""Threads for the calls of handlers, with a bounded queue and a deadline."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from retentive.server.errors import ApiError, overloaded
from retentive.server.options import DEADLINE_S, QUEUE, THREADS

T = TypeVar("T")


class Workers:
    """Threads for the calls of handlers. It belongs to one event loop."""

    def __init__(self, threads: int = THREADS, queue: int = QUEUE, *, deadline_s: float = DEADLINE_S) -> None:
        self._pool = ThreadPoolExecutor(threads, "retentive-call")
        self._places = threads + queue
        self._deadline_s = deadline_s

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function in a thread.

        Raises `ApiError` 503 if too many calls wait, or if it found no thread before the deadline, and 504 if it
        takes longer. It then still runs to its end, and holds its place until then.
        """
        if self._places <= 0:
            raise overloaded("the server is overloaded; try again later")
        self._places -= 1
        begun = self._pool.submit(copy_context().run, work)
        done: Future[T] = asyncio.wrap_future(begun)
        done.add_done_callback(self._free)
        try:
            async with asyncio.timeout(self._deadline_s):
                return await asyncio.shield(done)
        except TimeoutError:
            if done.done() and not done.cancelled():
                return done.result()  # the function raised TimeoutError, or ended just now
            if begun.cancel():
                raise overloaded("the server is overloaded; try again later") from None
            message = "the request took too long; it may still take effect"
            raise ApiError(504, "timeout_error", message, "deadline") from None

    def close(self) -> None:
        """Wait for the calls that run."""
        self._pool.shutdown()

    def _free(self, done: Future[T]) -> None:
        self._places += 1
        if not done.cancelled():
            done.exception()  # nobody else takes it after the deadline
