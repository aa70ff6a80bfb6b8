"""Exponential backoff with jitter and a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from retentive.errors import Unavailable

LOCK_TIMEOUT_S = 30.0  # maximum time that a command waits for other processes


@dataclass(slots=True, eq=False)
class Backoff:
    """Exponential backoff with jitter.

    The first pause lasts at most `next_s`. After each pause, this limit is multiplied by `factor`, up to `longest_s`.
    Each pause is a random time between half the limit and the limit, so that callers that failed together do not retry
    together. No pause ends after `deadline`, a time of `clock`.
    """

    next_s: float
    longest_s: float
    _: KW_ONLY
    deadline: float
    factor: float = 2.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    spread: Callable[[float, float], float] = random.uniform

    def wait(self) -> bool:
        """Sleep before the next attempt. Returns False without sleeping if the sleep would exceed the deadline."""
        pause_s = self.spread(self.next_s / 2, self.next_s)
        if self.clock() + pause_s > self.deadline:
            return False
        self.next_s = min(self.next_s * self.factor, self.longest_s)
        self.sleep(pause_s)
        return True


def wait_until(attempt: Callable[[], bool], failure: str, *, deadline: float | None = None) -> None:
    """Call `attempt` repeatedly until it returns True. For locks that other processes hold only for milliseconds.

    Raises `Unavailable` with the message `failure` at `deadline`, a time of `time.monotonic`. The default is
    `LOCK_TIMEOUT_S` from now.
    """
    if attempt():
        return
    backoff = Backoff(
        0.0002, 0.002, factor=1.5, deadline=time.monotonic() + LOCK_TIMEOUT_S if deadline is None else deadline
    )
    while not attempt():
        if not backoff.wait():
            raise Unavailable(failure)
