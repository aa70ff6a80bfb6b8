"""Check of the clock on which expiry and retention depend.

A host whose clock is years ahead would delete every memory as idle and prune the history. Therefore, each sweep records
its time. A clock is not trusted if it is more than 7 days ahead of this time and of all later changes. It becomes
trusted if an operator accepts it, or if it is still ahead a day later and nobody has swept at an earlier time since.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from retentive.engine.core import StoreCore
from retentive.history.revisions import newest_at
from retentive.storage.contract import Snapshot, to_datetime
from retentive.values.records import to_us

CLOCK, SEEN = "clock", "seen"
"""Kind and key of the record of the last check."""
MAX_STEP_S = 7 * 86_400.0
CONFIRMED_AFTER_S = 86_400.0


@dataclass(frozen=True, slots=True)
class ClockJump:
    """Result of a check that found the clock too far ahead.

    `seen` is the last trusted time, and `now` is the time of the clock.
    """

    seen: datetime
    now: datetime

    @property
    def days(self) -> float:
        """Number of days that the clock is ahead."""
        return (self.now - self.seen).total_seconds() / 86_400

    def __str__(self) -> str:
        return (
            f"the clock is {self.days:.0f} days ahead of the last time that this memory store recorded"
            f" ({self.seen:%Y-%m-%d}); nothing expires and no version is removed. If the clock is right, run"
            " `retentive sweep --accept-clock`, or sweep again after a day in which no host swept at an earlier time"
        )


def parsed(text: str) -> tuple[float, float]:
    """Parse a record: the last trusted time, and the first time of a clock ahead of it, or 0. Raises `ValueError`."""
    seen, ahead = map(float, text.split())
    return seen, ahead


def check(context: StoreCore, *, accept: bool = False, is_recorded: bool = True) -> tuple[float, ClockJump | None]:
    """Read and check the clock for a sweep of a store, and record the result.

    Returns the time, and the jump if the clock is not trusted. With `accept`, the clock is always trusted.
    """
    now = context.clock()

    def last_known(found: Snapshot) -> tuple[float, float]:
        try:
            seen, ahead = parsed(found.get_record(CLOCK, SEEN) or "")
        except ValueError:  # missing or damaged
            seen, ahead = to_us(context.info.created_at) / 1e6, 0.0
        while (following := _newest_before(found, seen + MAX_STEP_S)) > seen:  # changes up to the first long gap
            seen = following
        return seen, ahead

    seen, ahead = context.read(last_known)
    is_trusted = accept or now - seen <= MAX_STEP_S or 0 < ahead <= now - CONFIRMED_AFTER_S
    if is_recorded:
        text = f"{now} 0" if is_trusted else f"{seen} {min(ahead or now, now)}"
        context.follow_up(lambda tx: tx.put_record(CLOCK, SEEN, text), may_use_reserve=True)
    jump = ClockJump(to_datetime(int(seen * 1e6)), to_datetime(int(now * 1e6)))
    return now, None if is_trusted else jump


def _newest_before(found: Snapshot, bound: float) -> float:
    newest = newest_at(found, to_datetime(int(bound * 1e6) - 1))
    return 0.0 if newest is None else to_us(newest.created_at) / 1e6
