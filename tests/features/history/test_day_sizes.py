"""Size of a store at the end of each day, as the first write of each day recorded it, and damaged records of times."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from retentive import MemoryStore
from retentive.engine.day_sizes import SIZE, StartOfDay, sizes_of_days
from retentive.engine.operation import Read
from retentive.history.clocks import CLOCK, SEEN
from retentive.history.days import last_days
from retentive.storage.contract import Change, Transaction, Usage
from retentive.store import core_of
from support.places import opened
from support.profiles import LONG

BACKENDS = ["sqlite", "hidden sqlite", "s3", "memory"]
if LONG:
    BACKENDS += ["directory", "sealed directory", "postgresql", "mariadb"]
START = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Days:
    """A clock for tests."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now.timestamp()

    def sizes(self, store: MemoryStore, days: int) -> list[Usage | None]:
        """Sizes of the last days, oldest first."""
        wanted, core = last_days(days, self.now.date()), core_of(store)
        return core.peek(Read("usage", lambda found: sizes_of_days(found, wanted, core.info.created_at)))


@pytest.fixture
def days() -> Days:
    return Days()


def used(store: MemoryStore) -> Usage:
    sizes = [each.size_bytes for each in store.memories()]
    return Usage(len(sizes), sum(sizes))


def change(store: MemoryStore, chosen: random.Random, number: int) -> None:
    """One random change, which may be refused or change nothing."""
    paths = [each.path for each in store.memories()]
    path = chosen.choice(paths) if paths else ""
    match chosen.randrange(6):
        case 0 | 1:
            store.create(f"/memories/{number}.md", "x" * chosen.randrange(50))
        case 2 if path:
            store.write(path, "y" * chosen.randrange(50))
        case 3 if path:
            store.delete(path)
        case 4:
            store.execute({"command": "delete", "path": "/memories/unknown.md"})
        case _:
            store.change_settings({"max_memories": 1_000 + number})


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(3))
def test_each_day_has_the_size_at_its_end(tmp_path: Path, days: Days, backend: str, seed: int) -> None:
    """For random changes with quiet days. The store is opened again now and then."""
    chosen, expected = random.Random(seed), dict[date, Usage]()
    with opened(backend, tmp_path, clock=days) as place:
        store = place.store("s")
        for number in range(60):
            days.now += timedelta(hours=chosen.choice((0, 1, 5, 20, 70)))
            change(store if number % 3 else place.store("s"), chosen, number)
            expected[days.now.date()] = used(store)
        found = days.sizes(store, 90)
    last = Usage(0, 0)
    for day, size in zip(last_days(90, days.now.date()), found, strict=True):
        last = expected.get(day, last)
        assert size == last, day


def test_a_day_has_one_record_and_quiet_days_have_none(tmp_path: Path, days: Days) -> None:
    with opened("sqlite", tmp_path, clock=days) as place:
        for number, hours in enumerate((0, 1, 30, 1, 72, 0)):
            days.now += timedelta(hours=hours)
            place.store("s").create(f"/memories/{number}.md", "12345")
        records = core_of(place.store("s")).read(lambda found: list(found.records(SIZE)))
    assert {key: StartOfDay.parse(value) for key, value in records} == {
        "2026-11-02": StartOfDay(date(2026, 11, 1), 2, 10),
        "2026-11-05": StartOfDay(date(2026, 11, 2), 4, 20),
    }


def test_a_write_that_is_refused_records_no_day(tmp_path: Path, days: Days) -> None:
    """Nor may the next write of this process then take the day for recorded."""
    with opened("sqlite", tmp_path, clock=days) as place:
        store = place.store("s")
        store.create("/memories/a.md", "12345")
        days.now += timedelta(days=1)
        assert store.execute({"command": "delete", "path": "/memories/unknown.md"}).is_error
        assert core_of(store).read(lambda found: list(found.records(SIZE))) == []
        store.create("/memories/b.md", "12345")
        assert days.sizes(store, 3) == [Usage(0, 0), Usage(1, 5), Usage(2, 10)]


def test_days_that_were_not_recorded_have_no_size(tmp_path: Path, days: Days) -> None:
    """A write past the pipeline on the day of a first write, and a broken record."""
    with opened("sqlite", tmp_path, clock=days) as place:
        store = place.store("s")
        store.create("/memories/a.md", "12345")
        days.now += timedelta(days=1)
        core_of(store).backend.write(store.id, lambda tx: tx.record([Change(None, "/memories/b.md", b"12")], None))
        store.create("/memories/c.md", "123")
        assert days.sizes(store, 3) == [Usage(0, 0), None, Usage(3, 10)]
        days.now += timedelta(days=1)
        store.create("/memories/d.md", "1")
        assert days.sizes(store, 3) == [None, Usage(3, 10), Usage(4, 11)]
        for broken in ("[]", "[" * 100_000):
            core_of(store).backend.write(store.id, partial(put_size, value=broken))
            assert days.sizes(store, 3) == [None, None, Usage(4, 11)]


def put_size(tx: Transaction, *, value: str) -> None:
    """Replace the recorded size of one day."""
    tx.put_record(SIZE, "2026-11-03", value)


@pytest.mark.parametrize("record", ["[]", "5", "null", "{}", '{"seen": []}', "[" * 100_000, "x"])
def test_a_damaged_record_of_the_clock_stops_no_sweep(tmp_path: Path, record: str) -> None:
    with opened("sqlite", tmp_path) as place:
        store = place.store("s")
        core_of(store).backend.write(store.id, lambda tx: tx.put_record(CLOCK, SEEN, record))
        assert store.sweep().clock_jump is None


def test_a_day_before_the_store_had_nothing(tmp_path: Path, days: Days) -> None:
    """The days between the creation of the store and its first memory, too."""
    with opened("sqlite", tmp_path, clock=days) as place:
        store = place.store("s")
        assert days.sizes(store, 2) == [Usage(0, 0), Usage(0, 0)]
        days.now += timedelta(days=3)
        store.create("/memories/a.md", "12345")
        days.now += timedelta(days=1)
        assert days.sizes(store, 6) == [*[Usage(0, 0)] * 4, Usage(1, 5), Usage(1, 5)]
        assert core_of(store).peek(Read("usage", lambda found: sizes_of_days(found, [], START))) == []
