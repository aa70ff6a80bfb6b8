"""Threads that run handlers, with a bounded queue and a deadline.

Calls are passed to threads in batches: quick calls that arrive together may share a thread, and results that are ready
together reach the event loop together. Passing each call and each result separately, as executors do, took a third of
the time of a `view` command.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar, cast

from retentive.server.errors import HttpError, overloaded

T = TypeVar("T")
THREADS = 40
QUEUE = 200
"""Maximum number of calls that wait for a thread. Further calls get status 503."""
DEADLINE_S = 60.0
"""Default deadline of a call. It is shorter than the timeouts of the SDKs (600 s) and of most proxies."""
_TICK_S = 1.0


@dataclass(eq=False, slots=True)
class _Job:
    """A call and its result.

    The token decides whether the call runs. A thread takes the token right before it starts the call. If the deadline
    passes first, the event loop takes the token, and the call never starts.
    """

    work: Callable[[], object]
    context: Context
    future: asyncio.Future[object]
    due: float
    token: list[None] = field(default_factory=lambda: [None])
    result: object = None
    error: BaseException | None = None

    def is_taken(self) -> bool:
        """Take the token. Return True if it was already taken."""
        try:
            self.token.pop()  # atomic
        except IndexError:
            return True
        return False

    def run(self) -> None:
        try:
            self.result = self.context.run(self.work)
        except BaseException as error:
            self.error = error


class Workers:
    """Threads that run handlers. Used by one event loop only."""

    def __init__(
        self, threads: int = THREADS, queue: int = QUEUE, *, deadline_s: float = DEADLINE_S, quick_calls: int = 1
    ) -> None:
        self._most = threads
        self._quick_calls = quick_calls
        self._quick: list[_Job] = []
        self._places = threads + queue
        self._deadline_s = deadline_s
        self._threads: list[Thread] = []
        self._jobs: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._known: dict[_Job, None] = {}
        self._ended: deque[_Job] = deque()
        self._is_told = False
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, work: Callable[[], T], *, is_quick: bool = False, deadline_s: float | None = None) -> T:
        """Run a function in a thread, and return its result.

        Up to `quick_calls` quick functions may share a thread, which runs them one after the other. If
        `deadline_s` is longer than the default deadline, it replaces the default.

        Raises `HttpError` 503 if too many calls are waiting, or if no thread was free before the deadline. Raises
        `HttpError` 504 if the function was started but has not ended before the deadline. That function continues to
        its end, and until then it counts as a running call.
        """
        if self._places <= 0:
            raise overloaded("the server is overloaded; try again later")
        self._places -= 1
        loop = asyncio.get_running_loop()
        due = loop.time() + max(self._deadline_s, deadline_s or 0)
        job = _Job(work, copy_context(), loop.create_future(), due)
        self._known[job] = None
        if len(self._threads) < min(self._most, len(self._known)):
            self._threads.append(Thread(target=self._work, args=(loop,), name="retentive-call", daemon=True))
            self._threads[-1].start()
        if self._timer is None:
            self._timer = loop.call_later(min(_TICK_S, self._deadline_s), self._give_up, loop)
        if is_quick and self._quick_calls > 1:
            if not self._quick:
                loop.call_soon(self._start_quick)
            self._quick.append(job)
        else:
            self._jobs.put([job])
        return cast("T", await job.future)

    def close(self) -> None:
        """Wait for the running calls to end."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (jobs := self._jobs.get()) is not None:
            begun = [job for job in jobs if not job.is_taken()]
            _run_all(begun)
            self._ended.extend(begun)
            if begun and not self._is_told:
                self._is_told = True
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._deliver)
            del jobs, begun  # otherwise a waiting thread would keep results in memory

    def _start_quick(self) -> None:
        """Start the quick calls that arrived in this round of the event loop: pass them to threads."""
        jobs, self._quick = self._quick, []
        for start in range(0, len(jobs), self._quick_calls):
            self._jobs.put(jobs[start : start + self._quick_calls])

    def _deliver(self) -> None:
        """Hand the finished results to the callers.

        `_is_told` means that a call of this function is scheduled. It is reset first, so another call is scheduled
        if a job ends while this function runs.
        """
        self._is_told = False
        while self._ended:
            job = self._ended.popleft()
            self._release(job)
            if job.future.done():
                continue  # its deadline has passed, or its task was cancelled
            if job.error is None:
                job.future.set_result(job.result)
            else:
                job.future.set_exception(job.error)

    def _give_up(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer calls with status 503 or 504 if their deadline has passed."""
        now = loop.time()
        for job in [job for job in self._known if job.due <= now]:
            is_begun = job.is_taken()
            if not is_begun:
                self._release(job)
            if not job.future.done():
                job.future.set_exception(
                    _late() if is_begun else overloaded("the server is overloaded; try again later")
                )
        pause = min(_TICK_S, self._deadline_s)
        self._timer = loop.call_later(pause, self._give_up, loop) if self._known else None

    def _release(self, job: _Job) -> None:
        self._places += 1
        del self._known[job]


def _run_all(jobs: list[_Job]) -> None:
    for job in jobs:
        job.run()


def _late() -> HttpError:
    message = "the request took too long; it may still take effect"
    return HttpError(504, "timeout_error", message, "deadline")
