"""Exponential backoff with jitter and a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Literal

from retentive.errors import Unavailable

LOCK_TIMEOUT_S = 30.0  # maximum time that a command waits for other processes


def pauses(first_s: float, longest_s: float, *, deadline: float, factor: float = 2.0) -> Iterator[Literal[True]]:
    """Sleep before each item. The iteration ends before a pause that would exceed `deadline`, of `time.monotonic`.

    The first pause lasts at most `first_s`. After each pause, this limit is multiplied by `factor`, up to `longest_s`.
    Each pause is a random time between half the limit and the limit, so that callers that failed together do not retry
    together.
    """
    while time.monotonic() + (pause_s := random.uniform(first_s / 2, first_s)) <= deadline:  # noqa: S311 - no secret
        first_s = min(first_s * factor, longest_s)
        time.sleep(pause_s)
        yield True


def wait_until(attempt: Callable[[], bool], failure: str, *, deadline: float | None = None) -> None:
    """Call `attempt` repeatedly until it returns True. For locks that other processes hold only for milliseconds.

    Raises `Unavailable` with the message `failure` at `deadline`, a time of `time.monotonic`. The default is
    `LOCK_TIMEOUT_S` from now.
    """
    if attempt():
        return
    deadline = time.monotonic() + LOCK_TIMEOUT_S if deadline is None else deadline
    if not any(attempt() for _ in pauses(0.0002, 0.002, factor=1.5, deadline=deadline)):
        raise Unavailable(failure)
