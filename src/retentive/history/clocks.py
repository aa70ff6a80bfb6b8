"""Checks the clock on which expiry and retention depend.

A host whose clock is years ahead would delete every memory as idle and prune the history. On a database server, the
clock of the server is used. Elsewhere, the store records the time of the last sweep. If the clock is more than 7 days
ahead of that time and of the changes since, it is not trusted until an operator accepts it, or until a sweep a day
later still sees it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from retentive.engine.context import StoreContext
from retentive.storage import capabilities
from retentive.storage.contract import Snapshot, to_datetime
from retentive.storage.paging import all_versions
from retentive.values.records import to_us

CLOCK, SEEN = "clock", "seen"
"""Kind and key of the record with the last sighting."""
MAX_STEP_S = 7 * 86_400.0
CONFIRMED_AFTER_S = 86_400.0


@dataclass(frozen=True, slots=True)
class ClockJump:
    """A clock that is too far ahead of the last time seen."""

    seen: datetime
    now: datetime

    @property
    def days(self) -> float:
        """Length of the jump."""
        return (self.now - self.seen).total_seconds() / 86_400

    def __str__(self) -> str:
        return (
            f"the clock is {self.days:.0f} days ahead of the time this memory store last saw ({self.seen:%Y-%m-%d});"
            " nothing expires and no version is removed. If the clock is right, run `retentive sweep --accept-clock`,"
            " or sweep again in a day"
        )


@dataclass(frozen=True, slots=True)
class Sighting:
    """The last trusted time, and the time of a clock when it was first seen too far ahead; in seconds since 1970."""

    seen: float
    ahead: float | None = None

    @classmethod
    def parse(cls, text: str) -> Sighting:
        """Parse a record. Raises `ValueError`, `KeyError` or `TypeError`."""
        found = json.loads(text)
        ahead = found.get("ahead")
        return cls(float(found["seen"]), None if ahead is None else float(ahead))

    def to_text(self) -> str:
        """The text of the record."""
        return json.dumps({"seen": self.seen} | ({} if self.ahead is None else {"ahead": self.ahead}))


@dataclass(frozen=True, slots=True)
class CheckedClock:
    """The time to use in a sweep, the clock jump that makes the sweep wait, if any, and the record to write, if any."""

    now: float
    jump: ClockJump | None = None
    record: str | None = None


def check(context: StoreContext, *, accept: bool = False) -> CheckedClock:
    """Read and check the clock to use for a store. With `accept`, the clock is trusted in any case."""
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
    """Return the sighting to record next. If its `ahead` is set, the clock is not trusted."""
    if accept or now - last.seen <= MAX_STEP_S:
        return Sighting(now)
    if last.ahead is not None and now - last.ahead >= CONFIRMED_AFTER_S:
        return Sighting(now)
    return Sighting(last.seen, now if last.ahead is None else min(last.ahead, now))


def _last(found: Snapshot, created_at: datetime) -> Sighting:
    """Return the recorded sighting, advanced to the last change that steps of at most 7 days reach from it."""
    text = found.get_record(CLOCK, SEEN)
    try:
        last = Sighting(to_us(created_at) / 1e6) if text is None else Sighting.parse(text)
    except (ValueError, KeyError, TypeError):  # damaged: as for a store that was never swept
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
