"""Checks of the clock on which expiry and retention depend.

A host whose clock is years ahead would delete every memory as idle and prune the history. If the storage is a
database server, the clock of this server is used. In other storage, the store records the time of the last sweep. A
clock is not trusted if it is more than 7 days ahead of this time and of all later changes. It becomes trusted if an
operator accepts it, or if a sweep at least one day later finds that the clock is still ahead and that nobody has
recorded an earlier time since. A change, a view or a sweep at an earlier time proves that another clock runs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from retentive.engine.core import StoreCore
from retentive.engine.write import BEHIND, CLOCK, MAX_STEP_S
from retentive.history.revisions import newest_at
from retentive.storage import capabilities
from retentive.storage.contract import Snapshot, to_datetime
from retentive.values.records import to_us

SEEN = "seen"
"""Key of the record of the last check. The record `BEHIND` has the last time of a host far behind the history."""
CONFIRMED_AFTER_S = 86_400.0
_ERRORS = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


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
            " `retentive sweep --accept-clock`, or sweep again after a day in which no host recorded an earlier time"
        )


def parsed(text: str) -> tuple[float, float | None, float]:
    """Parse a record of times, in seconds since 1970. Raises an error of `_ERRORS` if it is damaged.

    The times are the last trusted one; that of a clock that was too far ahead when this was first found, or None; and
    the latest earlier one that was recorded until then.
    """
    found = json.loads(text)
    ahead = found.get("ahead")
    return float(found["seen"]), None if ahead is None else float(ahead), float(found.get("others", 0))


def check(context: StoreCore, *, accept: bool = False, is_recorded: bool = True) -> tuple[float, ClockJump | None]:
    """Read and check the clock for a sweep of a store, and record the result.

    Returns the time, and the jump if the clock is not trusted. With `accept`, the clock is always trusted.
    """
    on_server = capabilities.server_time(context.backend)
    if on_server is not None:
        return on_server, None
    now, viewed = context.clock(), context.accesses.recorded_times(context.id)

    def judged(found: Snapshot) -> tuple[float, float, float | None, float]:
        seen, ahead, others = _record(found, SEEN, to_us(context.info.created_at) / 1e6)
        while (following := _newest_before(found, seen + MAX_STEP_S)) > seen:  # changes up to the first long gap
            seen = following
        if accept or now - seen <= MAX_STEP_S:
            return seen, now, None, 0.0
        times = 0.0, *viewed, _record(found, BEHIND, 0.0)[0]

        def latest(bound: float) -> float:  # that any host recorded: of a version, a view or a clock that is behind
            return max(at for at in (*times, _newest_before(found, bound)) if at < bound)

        if ahead is None or latest(ahead - MAX_STEP_S) > others:
            return seen, seen, now, latest(now - MAX_STEP_S)
        if now - ahead < CONFIRMED_AFTER_S:
            return seen, seen, min(ahead, now), others
        return seen, now, None, 0.0

    last, seen, ahead, others = context.read(judged)
    if is_recorded:
        doubt = {} if ahead is None else {"ahead": ahead, "others": others}
        text = json.dumps({"seen": seen} | doubt)
        context.follow_up(lambda tx: tx.put_record(CLOCK, SEEN, text), may_use_reserve=True)
    return now, None if ahead is None else ClockJump(to_datetime(int(last * 1e6)), to_datetime(int(now * 1e6)))


def _record(found: Snapshot, key: str, missing: float) -> tuple[float, float | None, float]:
    """Parse a record. If it is missing or damaged, its time is `missing`."""
    text = found.get_record(CLOCK, key)
    try:
        return (missing, None, 0.0) if text is None else parsed(text)
    except _ERRORS:
        return missing, None, 0.0


def _newest_before(found: Snapshot, bound: float) -> float:
    newest = newest_at(found, to_datetime(int(bound * 1e6) - 1))
    return 0.0 if newest is None else to_us(newest.created_at) / 1e6
