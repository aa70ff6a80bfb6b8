"""Directory views: formatted sizes, two levels, byte order and hidden entries."""

from __future__ import annotations

import retentive


def test_few_and_short_listings_are_kept() -> None:
    store = retentive.open("sqlite://", list_rows=0).store()
    known = store._core.listings
    assert known == {}
    for number in range(40):
        store.create(f"/memories/{number}/a", "")
    for number in range(40):
        shown = store.view(f"/memories/{number}")
        assert store.view(f"/memories/{number}") == shown
        assert 1 <= len(known) < 20
    known.clear()
    for number in range(2_100):
        store.create(f"/memories/long/{number}", "")
    assert len(store.view("/memories/long").splitlines()) == 2_102
    assert known == {}
