"""Numbers of changes on each day, and the strip: a bar chart of them. A bar links to the state after its day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from retentive.engine.operation import Read
from retentive.storage.contract import Snapshot, Version
from retentive.store import MemoryStore, core_of
from retentive.values.records import to_us

DAYS = 60
WIDTH, HEIGHT = 10, 44
"""Width of a bar with its margin, and height of the highest bar, in units of the picture."""
_LABELS = 4


@dataclass(frozen=True, slots=True)
class DayBar:
    """Bar for the number of changes on one day (UTC).

    The bar links to the state of the store at the time `at`, the end of the day. For today, `at` is empty.
    """

    day: date
    count: int
    x: int
    height: int
    at: str

    @property
    def name(self) -> str:
        """Name of the day, such as `22 September`."""
        return f"{self.day.day} {self.day:%B}"


@dataclass(frozen=True, slots=True)
class Strip:
    """Bars of the last days, oldest first.

    On a page that shows an earlier state of the store, `then` is the horizontal position of the time of that state.
    On other pages, and if the time is outside the chart, `then` is None.
    """

    bars: Sequence[DayBar]
    then: int | None = None

    @property
    def width(self) -> int:
        """Width of the picture."""
        return WIDTH * len(self.bars)

    @property
    def labels(self) -> list[str]:
        """Texts below the bars, at equal distances."""
        step = len(self.bars) // _LABELS
        return [f"{each.day.day} {each.day:%b}" for each in self.bars[: step * _LABELS : step]] + ["today"]


def last_days(count: int, today: date) -> list[date]:
    """Return the last `count` days, oldest first, ending with `today`."""
    return [today - timedelta(days=ago) for ago in reversed(range(count))]


def changes_of_days(snapshot: Snapshot, days: Sequence[date]) -> list[int]:
    """Return the number of changes on each day in `days`, which are consecutive days in UTC, oldest first.

    Revisions are numbered without gaps, so only the newest version before each day with changes is read. If all
    versions of a change were removed, the change may be counted on a later day.
    """
    counts = dict.fromkeys(days, 0)
    newest = _newest_before(snapshot, days[-1] + timedelta(days=1))
    for day in reversed(days):
        if newest is not None and newest.created_at.astimezone(UTC).date() >= day:
            earlier = _newest_before(snapshot, day)
            counts[day] = max(newest.revision - _revision(snapshot, earlier), 0)
            newest = earlier
    return list(counts.values())


def _newest_before(snapshot: Snapshot, day: date) -> Version | None:
    bound = f"memver_{max(to_us(datetime.combine(day, time(), UTC)), 0):014x}"
    return next(snapshot.versions(before=bound, limit=1), None)


def _revision(snapshot: Snapshot, version: Version | None) -> int:
    """Return the revision of a version. For None, return the one before the history, whose start may be removed."""
    if version is not None:
        return version.revision
    return next(snapshot.versions(limit=1, oldest_first=True)).revision - 1


def strip_of(store: MemoryStore, moment: datetime | None = None) -> Strip | None:
    """Return the strip of a store, with a mark at the time `moment`.

    Returns None for an API key that is limited to some paths, because the strip counts the changes at all paths.
    """
    core = core_of(store)
    if core.scope:
        return None
    days = last_days(DAYS, datetime.fromtimestamp(core.clock(), UTC).date())
    counts = core.peek(Read("list", lambda snapshot: changes_of_days(snapshot, days)))
    most = max([*counts, 1])
    bars = [
        DayBar(day, count, WIDTH * place, max(HEIGHT * count // most, 2 if count else 0), _end(day, days[-1]))
        for place, (day, count) in enumerate(zip(days, counts, strict=True))
    ]
    return Strip(bars, None if moment is None else _position(moment.astimezone(UTC), days[0]))


def _end(day: date, today: date) -> str:
    return "" if day == today else f"{day + timedelta(days=1)}T00:00:00Z"


def _position(moment: datetime, first: date) -> int | None:
    start = datetime(first.year, first.month, first.day, tzinfo=UTC)
    found = int((moment - start) / timedelta(days=1) * WIDTH)
    return found if 0 <= found < WIDTH * DAYS else None
