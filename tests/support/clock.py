"""A clock that a test advances."""

from __future__ import annotations

DAY = 86_400.0


class Clock:
    """Clock that stands still until the test changes `now`."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += days * DAY
