"""Bar charts of the changes on each day, with an axis and its numbers. A bar links to the state after its day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from retentive.console.figures import days_of
from retentive.store import MemoryStore

STRIP_DAYS = 60
WIDTH, HEIGHT = 10, 60
"""Width of a bar with its margin, and height of the highest bar, in units of the picture."""
_LABELS = 4


@dataclass(frozen=True, slots=True)
class Chart:
    """Number of changes on each of the last days (UTC), oldest first.

    On a page that shows an earlier state of the store, `then` is the horizontal position of the time of that state.
    """

    days: Sequence[tuple[date, int]]
    then: int | None = None

    @property
    def most(self) -> int:
        """Largest number of changes on a day, at least 1: the top of the axis."""
        return max([count for _, count in self.days] + [1])

    @property
    def width(self) -> int:
        """Width of the picture."""
        return WIDTH * len(self.days)

    @property
    def bars(self) -> list[tuple[str, int, int, int, str]]:
        """Bars: the name of the day, its number, the position, the height, and the end of the day (empty for today)."""
        ends = [f"{day + timedelta(days=1)}T00:00:00Z" for day, _ in self.days[:-1]] + [""]
        return [
            (f"{day.day} {day:%B}", count, WIDTH * at, max(HEIGHT * count // self.most, 2 if count else 0), end)
            for at, ((day, count), end) in enumerate(zip(self.days, ends, strict=True))
        ]

    @property
    def labels(self) -> list[str]:
        """Texts below the bars, at equal distances."""
        step = len(self.days) // _LABELS
        return [f"{day.day} {day:%b}" for day, _ in self.days[: step * _LABELS : step]] + ["today"]


def strip_of(store: MemoryStore, moment: datetime | None = None) -> Chart | None:
    """Return the chart of a store, with a mark at the time `moment`.

    Returns None for an API key that is limited to some paths, because the chart counts the changes at all paths.
    """
    days = days_of(store, STRIP_DAYS)
    if not days or moment is None:
        return Chart(days) if days else None
    start = datetime.combine(days[0][0], datetime.min.time(), UTC)
    then = int((moment.astimezone(UTC) - start) / timedelta(days=1) * WIDTH)
    return Chart(days, then if 0 <= then < WIDTH * STRIP_DAYS else None)
