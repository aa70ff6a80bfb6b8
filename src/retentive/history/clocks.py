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
from functools import partial

from retentive.engine.core import StoreCore
from retentive.engine.write import BEHIND, CLOCK, MAX_STEP_S
from retentive.history.revisions import newest_at
from retentive.storage import capabilities
from retentive.storage.contract import Snapshot, to_datetime
from retentive.values.records import to_us

SEEN = "seen"
"""Key of the record of the last `Sighting`. The record `BEHIND` has the last time of a host far behind the history."""
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
            " `retentive sweep --accept-clock`, or sweep again after a day in which no host recorded an earlier time"
        )


@dataclass(frozen=True, slots=True)
class Sighting:
    """Stored result of a clock check, in seconds since 1970.

    `seen` is the last trusted time. If the clock was too far ahead at the last check, `ahead` is the time that the
    clock showed when this was first found, and `others` is the latest earlier time that was recorded until then.
    """

    seen: float
    ahead: float | None = None
    others: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Sighting:
        """Parse a record. If it is damaged, this raises one of the exceptions that `_parsed` catches."""
        found = json.loads(text)
        ahead = found.get("ahead")
        return cls(float(found["seen"]), None if ahead is None else float(ahead), float(found.get("others", 0)))

    def to_text(self) -> str:
        """Return the text of the record."""
        doubt = {} if self.ahead is None else {"ahead": self.ahead, "others": self.others}
        return json.dumps({"seen": self.seen} | doubt)


def check(context: StoreCore, *, accept: bool = False, is_recorded: bool = True) -> tuple[float, ClockJump | None]:
    """Read and check the clock for a sweep of a store, and record the result.

    Returns the time, and the jump if the clock is not trusted. With `accept`, the clock is always trusted.
    """
    on_server = capabilities.server_time(context.backend)
    if on_server is not None:
        return on_server, None
    now = context.clock()
    last = context.read(partial(_last, created_at=context.info.created_at))
    sighting = Sighting(now)
    if not accept and now - last.seen > MAX_STEP_S:
        if last.ahead is None or _latest_before(last.ahead - MAX_STEP_S, context) > last.others:
            sighting = Sighting(last.seen, now, _latest_before(now - MAX_STEP_S, context))
        elif now - last.ahead < CONFIRMED_AFTER_S:
            sighting = Sighting(last.seen, min(last.ahead, now), last.others)
    if is_recorded:
        text = sighting.to_text()
        context.follow_up(lambda tx: tx.put_record(CLOCK, SEEN, text), may_use_reserve=True)
    if sighting.ahead is None:
        return now, None
    return now, ClockJump(to_datetime(int(last.seen * 1e6)), to_datetime(int(now * 1e6)))


def _latest_before(bound: float, context: StoreCore) -> float:
    """Return the latest time before `bound` that any host recorded: of a version, a view or a clock that is behind."""
    viewed = context.accesses.recorded_times(context.id)

    def recorded(found: Snapshot) -> tuple[float, float]:
        return _newest_version(found, bound), _parsed(found.get_record(CLOCK, BEHIND), 0.0).seen

    return max(at for at in (0.0, *context.read(recorded), *viewed) if at < bound)


def _newest_version(found: Snapshot, bound: float) -> float:
    """Return the time of the newest version before `bound`; 0 if there is none."""
    newest = newest_at(found, to_datetime(int(bound * 1e6) - 1))
    return 0.0 if newest is None else to_us(newest.created_at) / 1e6


def _parsed(text: str | None, missing: float) -> Sighting:
    """Parse a record. If it is missing or damaged, return a sighting at the time `missing`."""
    try:
        return Sighting(missing) if text is None else Sighting.parse(text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Sighting(missing)


def _last(found: Snapshot, created_at: datetime) -> Sighting:
    """Return the recorded sighting, with `seen` advanced to later changes of the store.

    The changes are followed in time order up to the first gap of more than 7 days.
    """
    last = _parsed(found.get_record(CLOCK, SEEN), to_us(created_at) / 1e6)
    seen = last.seen
    while (following := _newest_version(found, seen + MAX_STEP_S)) > seen:
        seen = following
    return Sighting(seen, last.ahead, last.others)
