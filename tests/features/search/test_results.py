"""The results of a search are a sequence of hits, through each door of the library."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import retentive
from retentive import Mounts, Retentive
from retentive.search.results import Results
from support.http_api import serving


def through_a_server(opened: Retentive) -> Results:
    with serving(opened) as api, retentive.open(api.url, api_key=api.key) as remote:
        return remote.store().search("tea", limit=3)


async def _async(opened: Retentive) -> Results:
    return await retentive.AsyncMemoryStore(opened.store()).search("tea", limit=3)


DOORS: dict[str, Callable[[Retentive], Results]] = {
    "store": lambda opened: opened.store().search("tea", limit=3),
    "async": lambda opened: asyncio.run(_async(opened)),
    "mounts": lambda opened: Mounts({"/memories": opened.store()}).search("tea", limit=3),
    "literal": lambda opened: opened.store().search("tea", mode="all", limit=3),
    "server": through_a_server,
}


@pytest.mark.parametrize("door", DOORS)
def test_results_are_iterated_counted_and_indexed(door: str) -> None:
    with retentive.open("sqlite://") as opened:
        assert (len(DOORS[door](opened)), list(DOORS[door](opened))) == (0, [])
        for n in range(5):
            opened.store().create(f"/memories/{n}.md", "tea " * (n + 1))
        found = DOORS[door](opened)
    assert [hit.path for hit in found] == [hit.path for hit in found.hits]
    assert (len(found), found.total) == (3, 5)
    assert (found[0], found[-1], found[1:]) == (found.hits[0], found.hits[2], found.hits[1:])
    assert found[0] in found
    with pytest.raises(IndexError):
        found[3]
