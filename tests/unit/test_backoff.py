"""Pauses between attempts grow, stay within their bounds, and end at the deadline."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from retentive.storage import backoff


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the clock by one that advances only by sleeping. Returns the pauses."""
    done: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(done), sleep=done.append)
    monkeypatch.setattr(backoff, "time", clock)
    return done


def test_pauses_grow_up_to_the_longest_and_end_at_the_deadline(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "uniform", lambda _, high: high)
    assert sum(backoff.pauses(1, 5, deadline=18)) == 5
    assert slept == [1, 2, 4, 5, 5]


def test_every_pause_is_between_half_and_all_of_its_bound(slept: list[float]) -> None:
    list(backoff.pauses(0.5, 8.0, factor=1.5, deadline=200.0))
    bounds = [min(0.5 * 1.5**number, 8.0) for number in range(len(slept))]
    assert len(slept) > 25
    assert all(bound / 2 <= pause <= bound for pause, bound in zip(slept, bounds, strict=True))
