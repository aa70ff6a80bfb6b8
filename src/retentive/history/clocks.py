"""Checks of the clock on which expiry and retention depend.

A host whose clock is years ahead would delete every memory as idle and prune the history. If the storage is a
database server, the clock of this server is used. In other storage, the store records the time of the last sweep. A
clock is not trusted if it is more than 7 days ahead of this time and of all later changes. It becomes trusted if an
operator accepts it, or if a sweep at least one day later finds that the clock is still ahead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from itertools import takewhile

from retentive.engine.context import StoreContext
from retentive.frozen import dataclass
from retentive.storage import capabilities
from retentive.storage.contract import Snapshot, to_datetime
from retentive.storage.paging import all_versions
from retentive.values.records import to_us

CLOCK, SEEN = "clock", "seen"
"""Kind and key of the record with the last `Sighting`."""
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
            " `retentive sweep --accept-clock`, or sweep again in a day"
        )


@dataclass(frozen=True, slots=True)
class Sighting:
    """Stored result of a clock check, in seconds since 1970.

    `seen` is the last trusted time. If the clock was too far ahead at the last check, `ahead` is the time that the
    clock showed when this was first found.
    """

    seen: float
    ahead: float | None = None

    @classmethod
    def parse(cls, text: str) -> Sighting:
        """Parse a record. If it is damaged, this raises one of the exceptions that `_last` catches."""
        found = json.loads(text)
        ahead = found.get("ahead")
        return cls(float(found["seen"]), None if ahead is None else float(ahead))

    def to_text(self) -> str:
        """Return the text of the record."""
        return json.dumps({"seen": self.seen} | ({} if self.ahead is None else {"ahead": self.ahead}))


@dataclass(frozen=True, slots=True)
class CheckedClock:
    """Result of a clock check for a sweep. `now` is the time to use.

    If `jump` is set, the clock is not trusted and the sweep must wait. `record` is the text of the record to write.
    """

    now: float
    jump: ClockJump | None = None
    record: str | None = None


def check(context: StoreContext, *, accept: bool = False) -> CheckedClock:
    """Read and check the clock for a store. With `accept`, the clock is always trusted."""
    on_server = capabilities.server_time(context.backend)
    if on_server is not None:
        return CheckedClock(on_server)
    now = context.clock()
    last = context.read(lambda found: _last(found, context.info.created_at))
    next_sighting = judged(last, now, accept=accept)
    jump = None
    if next_sighting.ahead is not None:
        jump = ClockJump(to_datetime(int(last.seen * 1e6)), to_datetime(int(now * 1e6)))
    return CheckedClock(now, jump, next_sighting.to_text())


def judged(last: Sighting, now: float, *, accept: bool = False) -> Sighting:
    """Check the clock time `now` against the sighting `last`. Return the sighting to record next.

    If `ahead` is set in the returned sighting, the clock is not trusted.
    """
    if accept or now - last.seen <= MAX_STEP_S:
        return Sighting(now)
    if last.ahead is not None and now - last.ahead >= CONFIRMED_AFTER_S:
        return Sighting(now)
    return Sighting(last.seen, now if last.ahead is None else min(last.ahead, now))


def _last(found: Snapshot, created_at: datetime) -> Sighting:
    """Return the recorded sighting, with `seen` advanced to later changes of the store.

    The changes are followed in time order up to the first gap of more than 7 days.
    """
    text = found.get_record(CLOCK, SEEN)
    try:
        last = Sighting(to_us(created_at) / 1e6) if text is None else Sighting.parse(text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # damaged: as if never swept
        last = Sighting(to_us(created_at) / 1e6)
    seen = last.seen
    for at in reversed(list(_changes_since(found, seen))):
        if at - seen > MAX_STEP_S:
            break
        seen = at
    return Sighting(seen, last.ahead)


def _changes_since(found: Snapshot, seen: float) -> Iterator[float]:
    times = (to_us(version.created_at) / 1e6 for version in all_versions(found))
    return takewhile(lambda at: at > seen, times)
