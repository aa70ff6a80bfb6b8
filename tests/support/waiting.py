"""Waiting for another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE_S = 120.0  # a hang fails the test; on a busy machine, a process may need half a minute to start


def until(is_done: Callable[[], object], *, pause_s: float = 0.01) -> None:
    """Return when `is_done` returns a true value."""
    end = time.monotonic() + DEADLINE_S
    while not is_done():
        assert time.monotonic() < end, f"not after {DEADLINE_S:.0f} s"
        time.sleep(pause_s)
