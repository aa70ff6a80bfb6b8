"""Each target of the fuzzer holds for its corpus, and in the long profile for a second of changes of it."""

from __future__ import annotations

import random

import pytest

from support.profiles import LONG

from . import run
from .targets import TARGETS, corpus


@pytest.mark.parametrize("name", TARGETS)
def test_a_target(name: str) -> None:
    rounds, failed = run.fuzz(name, 1.0 if LONG else 0.0)
    assert failed == []
    assert rounds >= len(corpus(name)) >= 3


def test_a_broken_reader_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that the target does not expect is a failure with its input."""

    def target(data: bytes) -> None:
        assert b"view" not in data

    monkeypatch.setitem(TARGETS, "commands", target)
    _, failed = run.fuzz("commands", 0.0)
    assert failed
    assert all(b"view" in data for data in failed)


@pytest.mark.parametrize("name", TARGETS)
def test_equal_seeds_give_equal_inputs(name: str) -> None:
    seeds = corpus(name)
    chances = (random.Random(7), random.Random(7))
    first, second = ([run.changed(seeds[0], seeds, chance) for _ in range(20)] for chance in chances)
    assert first == second
    assert len(set(first)) > 5
