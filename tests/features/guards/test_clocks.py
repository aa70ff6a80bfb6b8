"""A wrong clock of a host expires and prunes nothing. The tests pass clocks as arguments and never wait."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from retentive import MemoryStore, Retentive
from support.places import opened

A, B = "/memories/a", "/memories/b"
DAY = 86_400.0
YEARS = 730.0
RULES = {"expire_after_days": 30, "keep_versions_days": 30, "keep_versions": 1}


class Host:
    """A clock, `ahead` by some days of the right time."""

    def __init__(self) -> None:
        self.right = 1_800_000_000.0
        self.ahead = 0.0

    def __call__(self) -> float:
        return self.right + self.ahead * DAY


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def place(tmp_path: Path, host: Host) -> Iterator[Retentive]:
    with opened("sqlite", tmp_path, clock=host) as made:
        yield made


@pytest.fixture
def store(place: Retentive) -> MemoryStore:
    made = place.store()
    made.change_settings(RULES)
    write(made, A)
    return made


def write(store: MemoryStore, path: str) -> None:
    """Two versions of a memory."""
    assert not store.execute({"command": "create", "path": path, "file_text": "one\n"}).is_error
    edit = {"command": "str_replace", "path": path, "old_str": "one", "new_str": "two"}
    assert not store.execute(edit).is_error


def held(store: MemoryStore) -> bool:
    """True if a sweep waits; it then changes nothing."""
    before = [version.id for version in store.versions()]
    swept = store.sweep()
    assert (swept.clock_jump is None) or [version.id for version in store.versions()] == before
    return swept.clock_jump is not None


def test_a_clock_two_years_ahead_removes_nothing(store: MemoryStore, host: Host) -> None:
    """The result and its preview name the jump."""
    assert not held(store)
    host.ahead = YEARS
    for swept in (store.sweep(dry_run=True), store.sweep()):
        assert swept.clock_jump is not None
        assert round(swept.clock_jump.days) == YEARS
        assert (swept.expired, swept.versions_pruned) == ((), 0)
    assert len(list(store.versions())) == 2
    host.ahead = 0
    assert not held(store)


def test_a_store_that_was_never_swept_is_protected(store: MemoryStore, host: Host) -> None:
    """The host with the wrong clock may even write first. Its versions do not confirm its clock."""
    host.ahead = YEARS
    write(store, B)
    assert held(store)


def test_a_second_sighting_a_day_later_confirms_the_clock(store: MemoryStore, host: Host) -> None:
    """An earlier sighting does not, nor does a later one if a host with the former time swept in between."""
    assert not held(store)
    host.ahead = YEARS
    assert held(store)
    host.right += 0.9 * DAY
    assert held(store)
    host.ahead = 0
    assert not held(store)
    host.ahead = YEARS
    host.right += 0.2 * DAY
    assert held(store)
    host.right += 1.0 * DAY
    swept = store.sweep()
    assert [one.path for one in swept.expired] == [A]
    host.right += 6 * DAY
    assert not held(store)


def test_an_operator_accepts_the_clock(store: MemoryStore, host: Host) -> None:
    assert not held(store)
    host.right += 40 * DAY
    assert held(store)
    assert [one.path for one in store.sweep(dry_run=True, accept_clock=True).expired] == [A]
    assert held(store)
    assert [one.path for one in store.sweep(accept_clock=True).expired] == [A]
    assert not held(store)


def test_a_clock_that_goes_back_is_followed(store: MemoryStore, host: Host) -> None:
    """Nothing expires early. The next forward jump is measured from the earlier time."""
    host.ahead = YEARS
    store.sweep(accept_clock=True)
    host.ahead = 0
    assert not held(store)
    host.ahead = YEARS
    assert held(store)


def test_up_to_seven_days_are_no_jump(store: MemoryStore, host: Host) -> None:
    assert not held(store)
    host.right += 7 * DAY
    assert not held(store)
    host.right += 7 * DAY + 1
    assert held(store)


def test_opening_logs_that_it_waits(place: Retentive, host: Host, caplog: pytest.LogCaptureFixture) -> None:
    store = place.store()
    store.change_settings({"expire_after_days": 30})
    write(store, A)
    host.ahead = YEARS
    with caplog.at_level(logging.WARNING, "retentive"):
        assert place.store().read(A) == "two\n"
    (message,) = (record.getMessage() for record in caplog.records)
    assert "730 days" in message
    assert "--accept-clock" in message
