"""Random edits on several directories and a store, with crashes of the synchronisation: both are equal at the end."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import retentive
from support.profiles import sized

from .world import FILES, World, act_and_note, after_calls, interrupted_after, killed_after

SEEDS = sized(quick=8, long=200, full=2_500)
BLOCK = 10


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retentive.sync.folder.SETTLE_S", 0.0)


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_directories_and_store_become_equal_and_no_text_is_lost(first: int, tmp_path: Path) -> None:
    """Every text that was saved is in the history, unless a later save replaced it before it was synchronised."""
    for seed in range(first, first + BLOCK):
        history(seed, tmp_path / str(seed))


def history(seed: int, place: Path) -> None:
    chosen = random.Random(seed)
    directories = [place / f"d{number}" for number in range(chosen.choice([2, 2, 3]))]
    for each in directories:
        each.mkdir(parents=True)
    clocks = [chosen.choice([0.0, -3_600.0, -86_400.0, 3_600.0, 86_400.0]) for _ in directories]
    location = f"sqlite:///{place}/memory.db"
    with retentive.open(location) as opened:
        world = World(opened.store(), directories, place / "states", clocks, location)
        for _ in range(chosen.randrange(5, 30)):
            number = chosen.randrange(len(directories))
            if chosen.random() < 0.65:
                act_and_note(world, chosen, number)
            else:
                synchronise(world, chosen, number)
        world.converge()
        lost = world.written - world.history()
        assert not lost, (seed, lost)


def synchronise(world: World, chosen: random.Random, number: int) -> None:
    """A synchronisation that ends, is interrupted, is killed, or meets another act at one of its calls."""
    confirmed, calls = chosen.random() < 0.7, chosen.randrange(1, 120)
    match chosen.choice(["ends", "ends", "is interrupted", "is killed", "meets an act", "meets an act"]):
        case "ends":
            world.sync(number, confirmed=confirmed)
        case "is interrupted":
            with interrupted_after(calls):
                world.sync(number, confirmed=confirmed)
        case "is killed":
            killed_after(calls, world, number, confirmed=confirmed)
        case _:
            with after_calls(calls, lambda: act_and_note(world, chosen, number), FILES):
                world.sync(number, confirmed=confirmed)
