"""Strip of the changes of the last days. Each bar leads to the store as it was at the end of its day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from retentive.engine.operation import Read
from retentive.history.days import changes_of_days, last_days
from retentive.store import MemoryStore, core_of

DAYS = 60
WIDTH, HEIGHT = 10, 44
"""Size of a bar in the units of the picture, with its margin."""
_LABELS = 4


@dataclass(frozen=True, slots=True)
class DayBar:
    """Number of changes of a day in UTC, and the height of its bar. `at` is the end of the day; empty for today."""

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
    """The bars, oldest first. `then` is the position of the moment of a page of the past, if it is among the days."""

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


def strip_of(store: MemoryStore, moment: datetime | None = None) -> Strip | None:
    """Return the strip of a store. None for a key that is limited to some paths, since it counts all changes."""
    core = core_of(store)
    if core.reach:
        return None
    days = last_days(DAYS, datetime.now(UTC).date())
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
