"""Limits of a server process: its threads, the request rate of each key, and the memory used for request bodies."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from typing import Any, TypeVar

from retentive.server.errors import HttpError, overloaded
from retentive.server.options import DEADLINE_S, QUEUE, THREADS
from retentive.wire.stores import rate_of

T = TypeVar("T")


class _Job:
    """A call and its result. Whoever takes the token decides: a thread runs the call, or the event loop gives it up."""

    def __init__(self, work: Callable[[], Any], context: Context, future: asyncio.Future[Any]) -> None:
        self.work = work
        self.context = context
        self.future = future
        self.token = [None]
        self.result: Any = None
        self.error: BaseException | None = None

    def is_taken(self) -> bool:
        """Take the token. Return True if it was already taken."""
        try:
            self.token.pop()  # atomic
        except IndexError:
            return True
        return False


class Workers:
    """Threads that run handlers. Used by one event loop only."""

    def __init__(
        self, threads: int = THREADS, queue: int = QUEUE, *, deadline_s: float = DEADLINE_S, quick_calls: int = 1
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, "retentive-call")
        self._places = threads + queue
        self._deadline_s = deadline_s
        self._quick_calls = quick_calls
        self._quick: list[_Job] = []
        self._ended: deque[_Job] = deque()
        self._is_told = False

    async def run(self, work: Callable[[], T], *, is_quick: bool = False, deadline_s: float | None = None) -> T:
        """Run a function in a thread, and return its result.

        Up to `quick_calls` quick functions may share a thread, which runs them one after the other. If `deadline_s` is
        longer than the default deadline, it replaces the default.

        Raises `HttpError` 503 if too many calls are waiting, or if no thread was free before the deadline. Raises
        `HttpError` 504 if the function was started but has not ended before the deadline. That function continues to
        its end, and until then it counts as a running call.
        """
        if self._places <= 0:
            raise overloaded("the server is overloaded; try again later")
        self._places -= 1
        loop = asyncio.get_running_loop()
        job = _Job(work, copy_context(), loop.create_future())
        timer = loop.call_later(max(self._deadline_s, deadline_s or 0), self._give_up, job)
        if not is_quick:
            self._pool.submit(self._run_all, loop, [job])
        else:
            if not self._quick:
                loop.call_soon(self._start_quick, loop)
            self._quick.append(job)
        try:
            result: T = await job.future
        finally:
            timer.cancel()
        return result

    def close(self) -> None:
        """Wait for the running calls to end."""
        self._pool.shutdown()

    def _start_quick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pass the quick calls that arrived in this round of the event loop to threads."""
        jobs, self._quick = self._quick, []
        for start in range(0, len(jobs), self._quick_calls):
            self._pool.submit(self._run_all, loop, jobs[start : start + self._quick_calls])

    def _run_all(self, loop: asyncio.AbstractEventLoop, jobs: list[_Job]) -> None:
        begun = [job for job in jobs if not job.is_taken()]
        for job in begun:
            try:
                job.result = job.context.run(job.work)
            except BaseException as error:
                job.error = error
        self._ended.extend(begun)
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        """Pass the finished results to the callers. A job that ends from now on schedules another call of this."""
        self._is_told = False
        while self._ended:
            job = self._ended.popleft()
            self._places += 1
            if job.future.done():  # its deadline has passed, or its task was cancelled
                continue
            if job.error is None:
                job.future.set_result(job.result)
            else:
                job.future.set_exception(job.error)

    def _give_up(self, job: _Job) -> None:
        """Answer a call with status 503 or 504, because its deadline has passed."""
        error = HttpError(504, "timeout_error", "the request took too long; it may still take effect", "deadline")
        if not job.is_taken():
            self._places += 1
            error = overloaded("the server is overloaded; try again later")
        if not job.future.done():
            job.future.set_exception(error)


MAX_RETRY_AFTER_S = 60
"""Longest `retry-after` that both SDKs obey. They ignore longer times."""
BODY_BYTES = 256 << 20
"""Maximum total size of the request bodies that one process holds in memory."""
_MAX_BUCKETS = 10_000


class RateLimits:
    """Checks request rates by token buckets. `default` applies to keys that have no rate limit of their own."""

    def __init__(self, default: str | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._default = default
        self._clock = clock
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}

    def check(self, key_id: str, own: str | None) -> None:
        """Count a request with a key. Raises `HttpError` 429 if the key has sent too many requests.

        `own` is the rate limit of the key. If it is None, the default applies.
        """
        text = self._default if own is None else own
        rate = rate_of(text)
        if text is None or rate is None:
            return
        now = self._clock()
        tokens, since = self._buckets.pop((key_id, text), (float(rate.burst), now))
        tokens = min(float(rate.burst), tokens + (now - since) * rate.per_s)
        if len(self._buckets) == _MAX_BUCKETS:
            del self._buckets[next(iter(self._buckets))]  # the least recently used one
        self._buckets[key_id, text] = max(tokens - 1, 0.0) if tokens >= 1 else tokens, now
        if tokens < 1:
            after = min(MAX_RETRY_AFTER_S, math.ceil((1 - tokens) / rate.per_s))
            message = f"the API key has reached its rate limit of {text}; try again in {after} s"
            raise HttpError(429, "rate_limit_error", message, "rate_limited", retry_after_s=after)


class BodyBudget:
    """Limit on the memory that the request bodies of a process may use. Used by one event loop only."""

    def __init__(self, max_bytes: int = BODY_BYTES) -> None:
        self._left = max_bytes

    @contextmanager
    def reserved(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that reserves a number of bytes. The end of the block releases them.

        The function raises `HttpError` 503 if too few bytes are left.
        """
        held = 0

        def reserve(count: int) -> None:
            nonlocal held
            if count > self._left:
                raise overloaded("the server is holding too many request bodies; try again later")
            self._left -= count
            held += count

        try:
            yield reserve
        finally:
            self._left += held
