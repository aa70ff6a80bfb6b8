"""Exponential backoff with jitter and a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

LOCK_TIMEOUT_S = 30.0  # longest wait of a command for other processes


class Backoff:
    """Exponential backoff: the first pause is up to `first_s`, each later one `factor` times more, at most `longest_s`.

    A pause is a random half to all of that, so that callers who failed together do not retry together. `deadline` is a
    time of `clock`.
    """

    def __init__(
        self,
        first_s: float,
        longest_s: float,
        *,
        deadline: float,
        factor: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._next_s = first_s
        self._longest_s = longest_s
        self._deadline = deadline
        self._factor = factor
        self._clock = clock
        self._sleep = sleep
        self._spread = spread

    def wait(self) -> bool:
        """Sleep before the next attempt. Returns False without sleeping if the sleep would exceed the deadline."""
        pause_s = self._spread(self._next_s / 2, self._next_s)
        if self._clock() + pause_s > self._deadline:
            return False
        self._next_s = min(self._next_s * self._factor, self._longest_s)
        self._sleep(pause_s)
        return True


def lock_backoff(*, timeout_s: float = LOCK_TIMEOUT_S) -> Backoff:
    """Backoff for a lock that other processes of this machine hold for milliseconds at most."""
    return Backoff(0.0002, 0.002, factor=1.5, deadline=time.monotonic() + timeout_s)
