"""Changes of each day, without reading the versions between."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from retentive.engine.operation import Read
from retentive.history.days import changes_of_days, last_days
from retentive.store import MemoryStore, core_of
from support.places import opened

TODAY = date(2026, 11, 20)


def clock(now: list[datetime]) -> Callable[[], float]:
    def read() -> float:
        return now[0].timestamp()

    return read


def counted(store: MemoryStore, days: int) -> list[int]:
    return core_of(store).peek(Read("list", lambda found: changes_of_days(found, last_days(days, TODAY))))


@pytest.mark.parametrize("seed", range(8))
def test_the_days_are_those_of_the_log(tmp_path: Path, seed: int) -> None:
    """For a random history with quiet days, in which a change has one version or several."""
    chosen, now = random.Random(seed), [datetime(2026, 11, 1, tzinfo=UTC)]
    with opened("sqlite", tmp_path, clock=clock(now)) as place:
        store = place.store("s")
        for number in range(40):
            now[0] += timedelta(hours=chosen.choice((0, 1, 5, 30, 70)))
            if now[0].date() > TODAY:
                break
            if number % 7 == 6:
                store.rename("/memories/d", f"/memories/d{number}")
            store.create(f"/memories/d/{number}.md", "x")
        by_day = {each.revision: each.created_at.date() for each in store.history.log()}
        expected = Counter(by_day.values())
        for days in (1, 2, 14, 60):
            assert counted(store, days) == [expected[day] for day in last_days(days, TODAY)]


def test_a_store_without_changes_has_none(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path) as place:
        assert counted(place.store("s"), 3) == [0, 0, 0]
        assert core_of(place.store("s")).peek(Read("list", lambda found: changes_of_days(found, []))) == []


def test_changes_before_the_oldest_version_count_to_no_day(tmp_path: Path) -> None:
    """The versions of the first ten changes were removed, and the oldest one that is left is of today."""
    now = [datetime(2026, 11, 1, tzinfo=UTC)]
    with opened("sqlite", tmp_path, clock=clock(now), keep_versions=1, keep_versions_days=1) as place:
        store = place.store("s")
        for number in range(10):
            store.write("/memories/a.md", f"{number}")
        now[0] = datetime(2026, 11, 20, 12, tzinfo=UTC)
        store.write("/memories/a.md", "last")
        now[0] += timedelta(minutes=1)
        assert store.sweep(accept_clock=True).versions_pruned == 9
        assert counted(store, 2) == [0, 1]
