"""The results of a search are a sequence of hits."""

from __future__ import annotations

import pytest

import retentive


def test_results_are_iterated_counted_and_indexed() -> None:
    with retentive.open("sqlite://") as opened:
        store = opened.store()
        assert (len(store.search("tea")), list(store.search("tea"))) == (0, [])
        for n in range(5):
            store.create(f"/memories/{n}.md", "tea " * (n + 1))
        found = store.search("tea", limit=3)
    assert [hit.path for hit in found] == [hit.path for hit in found.hits]
    assert (len(found), found.total) == (3, 5)
    assert (found[0], found[-1], found[1:]) == (found.hits[0], found.hits[2], found.hits[1:])
    assert found[0] in found
    with pytest.raises(IndexError):
        found[3]
