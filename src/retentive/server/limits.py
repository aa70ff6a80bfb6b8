"""Limits of a server process: its threads, rates and event streams of keys, and failed sign-ins."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from datetime import UTC, datetime
from threading import Lock, Semaphore
from typing import Any, TypeVar

from retentive.server.errors import HttpError, overloaded
from retentive.server.metrics import AUTH_FAILURES, QUEUED, STREAMS, inside
from retentive.server.options import DEADLINE_S, QUEUE, STREAMS_OF_KEY, THREADS
from retentive.wire.stores import rate_of

T = TypeVar("T")


class Workers:
    """Threads that run handlers, with a bounded queue and a deadline."""

    def __init__(self, threads: int = THREADS, queue: int = QUEUE, *, deadline_s: float = DEADLINE_S) -> None:
        self._pool = ThreadPoolExecutor(threads, "retentive-call")
        self._places = Semaphore(threads + queue)
        self._deadline_s = deadline_s

    async def run(self, work: Callable[[], T], *, deadline_s: float | None = None) -> T:
        """Run a function in a thread, and return its result.

        If `deadline_s` is longer than the default deadline, it replaces the default.

        Raises `HttpError` 503 if too many calls are waiting, or if no thread was free before the deadline. Raises
        `HttpError` 504 if the function was started but has not ended before the deadline. That function continues to
        its end, and until then it counts as a running call.
        """
        if not self._places.acquire(blocking=False):
            raise overloaded("the server is overloaded; try again later")
        QUEUED.inc()
        job = self._pool.submit(copy_context().run, inside, work)
        job.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(max(self._deadline_s, deadline_s or 0)) as deadline:
                return await asyncio.wrap_future(job)
        except TimeoutError:
            if not deadline.expired():
                raise
        if job.cancel():
            raise overloaded("the server is overloaded; try again later")
        raise HttpError(504, "timeout_error", "the request took too long; it may still take effect", "deadline")

    def _ended(self, job: Future[Any]) -> None:
        if job.cancelled():  # otherwise it has left the queue when it began
            QUEUED.dec()
        self._places.release()

    def close(self) -> None:
        """Wait for the running calls to end."""
        self._pool.shutdown()


MAX_RETRY_AFTER_S = 60
"""Longest `retry-after` that both SDKs obey. They ignore longer times."""
_MAX_BUCKETS = 10_000
_HEADER = "anthropic-ratelimit-requests-"
"""Start of the names of the headers of the hosted API. Source: Claude API docs, "Rate limits", response headers."""


class _Buckets:
    """Token buckets by name. The one that was used longest ago is forgotten if there are too many."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, float]] = {}

    def take(self, name: str, burst: int, per_s: float) -> float:
        """Take a token. Return how many there were before; if there was less than one, none was taken."""
        now = self._clock()
        tokens, since = self._known.pop(name, (float(burst), now))
        tokens = min(float(burst), tokens + max(0.0, now - since) * per_s)
        if len(self._known) == _MAX_BUCKETS:
            del self._known[next(iter(self._known))]
        self._known[name] = tokens - 1 if tokens >= 1 else tokens, now
        return tokens


class RateLimits:
    """Checks request rates by token buckets, and counts event streams. For use in one thread.

    `default` applies to keys that have no rate limit of their own. A key may have `streams` open streams.
    """

    def __init__(
        self,
        default: str | None = None,
        *,
        streams: int = STREAMS_OF_KEY,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._default = default
        self._max_streams = streams
        self._wall = wall
        self._buckets = _Buckets(clock)
        self._streams = Counter[str]()

    def check(self, key_id: str, own: str | None) -> dict[str, str]:
        """Count a request with a key. Raises `HttpError` 429 if the key has sent too many requests.

        `own` is the rate limit of the key. If it is None, the default applies. Returns the headers that tell the client
        its rate, without any if it has none: burst, requests left, and when the burst is full again.
        """
        text = self._default if own is None else own
        rate = rate_of(text)
        if text is None or rate is None:
            return {}
        burst, per_s = rate
        tokens = self._buckets.take(f"{key_id} {text}", burst, per_s)
        left = tokens - 1 if tokens >= 1 else tokens
        reset = datetime.fromtimestamp(math.ceil(self._wall() + (burst - left) / per_s), UTC)
        told = {"limit": str(burst), "remaining": str(int(left)), "reset": f"{reset:%Y-%m-%dT%H:%M:%SZ}"}
        headers: dict[str, Any] = {_HEADER + name: value for name, value in told.items()}
        if tokens < 1:
            after = min(MAX_RETRY_AFTER_S, math.ceil((1 - tokens) / per_s))
            message = f"the API key has reached its rate limit of {text}; try again in {after} s"
            raise HttpError(429, "rate_limit_error", message, "rate_limited", retry_after=str(after), **headers)
        return headers

    def open_stream(self, key_id: str) -> Callable[[], None]:
        """Count an event stream of a key. Returns the function to call when it ends.

        Raises `HttpError` 429 if the key has too many open streams in this process.
        """
        if self._streams[key_id] >= self._max_streams:
            message = f"the API key has {self._max_streams} open event streams, the maximum; close one first"
            raise HttpError(429, "rate_limit_error", message, "too_many_streams", retry_after=str(MAX_RETRY_AFTER_S))
        self._streams[key_id] += 1
        STREAMS.inc()

        def close() -> None:
            STREAMS.dec()
            self._streams[key_id] -= 1
            if not self._streams[key_id]:
                del self._streams[key_id]

        return close


MAX_FAILURES, FAILURES_S = 10, 60
"""Failed sign-ins of an address or a key at this rate, after which further ones get 429."""
MAX_NOTED = 100
"""Failed sign-ins at this rate that a process notes in the audit log, so that nobody can fill it."""


class Failures:
    """Counts failed sign-ins, after the credential was checked.

    So a right credential is never refused because others failed. Each process counts for itself. Threads may share it.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._buckets = _Buckets(clock)
        self._lock = Lock()

    def add(self, address: str, key_id: str) -> bool:
        """Count a failure, and return whether to note it. Raises `HttpError` 429 if there were ten within a minute.

        A client with an IPv6 address usually has all addresses of its network of 64 bits, so these count together.
        """
        AUTH_FAILURES.labels("sign_in").inc()
        with self._lock:
            if any(self._is_over(name, MAX_FAILURES) for name in (_network(address), key_id) if name):
                message = "Too many failed sign-ins. Wait a minute."
                raise HttpError(429, "rate_limit_error", message, "rate_limited", retry_after=str(FAILURES_S))
            return not self._is_over("", MAX_NOTED)

    def _is_over(self, name: str, most: int) -> bool:
        return self._buckets.take(name, most, most / FAILURES_S) < 1


def _network(address: str) -> str:
    with suppress(ValueError):
        found = ipaddress.ip_address(address)
        return str(found if found.version == 4 else ipaddress.ip_network((found, 64), strict=False))
    return address
