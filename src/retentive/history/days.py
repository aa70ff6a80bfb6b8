"""Number of changes on each day, computed from the revisions at the start and the end of the day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise

from retentive.storage.contract import Snapshot
from retentive.values.records import to_us

_VERSION = "memver_"


def last_days(count: int, today: date) -> list[date]:
    """Return the last `count` days, oldest first, ending with `today`."""
    return [today - timedelta(days=ago) for ago in reversed(range(count))]


def changes_of_days(snapshot: Snapshot, days: Sequence[date]) -> list[int]:
    """Return the number of changes on each day in `days`.

    `days` are consecutive days in UTC, oldest first. The revision numbers of the changes are consecutive. Therefore
    only one version at the start and one at the end of each day are read. A change whose versions were all removed may
    be counted on a later day.
    """
    if not days:
        return []
    starts = [*days, days[-1] + timedelta(days=1)]
    found = {at: _revision(snapshot, starts[at]) for at in (0, len(days))}
    _fill(snapshot, starts, found, (0, len(days)))
    return [max(after - before, 0) for before, after in pairwise(found[at] for at in range(len(starts)))]


def _fill(snapshot: Snapshot, starts: Sequence[date], found: dict[int, int], between: tuple[int, int]) -> None:
    """By bisection, find the revisions of the days between two days whose revisions are known."""
    low, high = between
    if found[low] == found[high]:
        found |= dict.fromkeys(range(low, high), found[low])
    elif high - low > 1:
        middle = (low + high) // 2
        found[middle] = _revision(snapshot, starts[middle])
        _fill(snapshot, starts, found, (low, middle))
        _fill(snapshot, starts, found, (middle, high))


def _revision(snapshot: Snapshot, day: date) -> int:
    bound = f"{_VERSION}{max(to_us(datetime.combine(day, time(), UTC)), 0):014x}"
    newest = next(snapshot.versions(before=bound, limit=1), None)
    if newest is not None:
        return newest.revision
    oldest = next(snapshot.versions(limit=1, oldest_first=True), None)  # earlier versions may have been removed
    return 0 if oldest is None else oldest.revision - 1
