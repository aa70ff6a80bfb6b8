"""A process that is killed at random moments of a busy loop loses no acknowledged change."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from support.places import SERVERS
from support.profiles import LONG, sized
from support.targets import BACKENDS, url_of

from .rounds import judge, look, work_until, writers_for

ROUNDS = sized(quick=3, long=30, full=300)
ROUNDS_ON_SERVERS = sized(quick=2, long=8, full=80)  # fewer rounds, because each takes longer on a server
ROUNDS_PER_STORE = 10  # then a new location is used, so that histories stay short


@pytest.mark.parametrize("backend", [*BACKENDS, *(SERVERS if LONG else [])])
def test_kill_9_loses_no_acknowledged_change(backend: str, tmp_path: Path) -> None:
    """Acknowledged changes are present, all other changes are complete or absent, and opening repairs the store."""
    rng = random.Random(backend)
    acknowledged = 0
    rounds = ROUNDS_ON_SERVERS if backend in SERVERS else ROUNDS
    for number in range(rounds):
        directory = tmp_path / str(number // ROUNDS_PER_STORE)
        directory.mkdir(exist_ok=True)
        start, _ = look(backend, directory)
        writers = writers_for(number)
        stories = work_until(url_of(backend, directory), writers, rng)
        found, faults = look(backend, directory)
        assert [story.error for story in stories if story.error] == []
        assert (number, judge(start, writers, stories, found) + faults) == (number, [])
        acknowledged += sum(story.acknowledged for story in stories)
    assert acknowledged > rounds  # the worker was busy when it was killed
