"""Pauses between attempts grow, stay within their bounds, and end at the deadline."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from retentive.storage import backoff


@pytest.mark.parametrize(("first_s", "longest_s", "factor"), [(1.0, 5.0, 2.0), (0.5, 8.0, 1.5)])
def test_pauses_grow_up_to_the_longest_and_end_at_the_deadline(
    first_s: float, longest_s: float, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pause is between half and all of its bound. Here, time passes only by sleeping."""
    slept: list[float] = []
    monkeypatch.setattr(backoff, "time", SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append))
    count = sum(backoff.pauses(first_s, longest_s, deadline=100.0, factor=factor))
    bounds = [min(first_s * factor**number, longest_s) for number in range(count)]
    assert count == len(slept) > 12
    assert all(bound / 2 <= pause <= bound for pause, bound in zip(slept, bounds, strict=True))
    assert 100.0 - longest_s <= sum(slept) <= 100.0
