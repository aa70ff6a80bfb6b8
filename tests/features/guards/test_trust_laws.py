"""Laws of trust in many memories: lists and searches agree with a look at each memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive import MemoryStore, Retentive
from retentive.engine.visibility import LEVELS, TRUSTED, Assessment
from retentive.review.trust import DoubtedMemory
from retentive.store import core_of
from support.places import opened
from support.profiles import LONG

ACTORS = ("session:s1", "session:Süd", "user:ann", "user:b", "api_key:k.1")
SOURCES = (None, "web:https://x.example/a", 'say "no"', "back\\slash", "日本")
TRUST = (
    "session:*",
    "session:s1",
    "session:S*",
    "sess*",
    "*",
    "user:ann",
    "source:web:*",
    'source:say "*',
    "source:日*",
)
TRUST_MORE = ("source:back\\*", "*1", "user:*n")
texts = st.sampled_from(["red apple", "green apple", "pear"])
change = st.tuples(st.integers(0, 9), texts, st.sampled_from(ACTORS), st.sampled_from(SOURCES))
_numbers = count()


@pytest.fixture(params=["sqlite", *(["sealed directory"] if LONG else [])], scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retentive]:
    with closing(opened(request.param, tmp_path_factory.mktemp("trust"))) as found:
        yield found


@st.composite
def stores(draw: st.DrawFn) -> tuple[list[tuple[int, str, str, str | None]], dict[str, object], set[int]]:
    """Changes, settings, and the memories of which the texts are confirmed."""
    hidden = draw(st.sets(st.sampled_from(["session:s1", "source:web:*", "user:*"]), max_size=1))
    trust = draw(st.dictionaries(st.sampled_from([*TRUST, *TRUST_MORE]), st.sampled_from(LEVELS), max_size=3))
    chosen: dict[str, object] = {"trust": trust, "quarantine": sorted(hidden), "hide_unconfirmed": ["user:b"]}
    return draw(st.lists(change, max_size=12)), chosen, draw(st.sets(st.integers(0, 9), max_size=2))


@given(given=stores(), limit=st.integers(1, 4))
def test_doubted_memories_are_those_of_a_look_at_each(
    place: Retentive, given: tuple[list[tuple[int, str, str, str | None]], dict[str, object], set[int]], limit: int
) -> None:
    """By whatever patterns, in whatever characters, after confirmations, as a list or page by page."""
    changes, chosen, confirmed = given
    store = place.store(f"s{next(_numbers)}")
    for number, text, actor, source in changes:
        store.write(f"/memories/{number}.md", f"{text} {number}\n", actor=actor, source=source)
    store.change_settings(chosen)
    for number in confirmed & {each[0] for each in changes}:
        store.trust.confirm(f"/memories/{number}.md")
    expected = core_of(store).read(lambda found: _looked_at(store, Assessment(found, store.settings(), None)))
    assert [(each.path, each.level) for each in store.trust.doubted()] == expected
    page = store.trust.page(limit=limit)
    pages: list[DoubtedMemory] = list(page.items)
    while page.next is not None:
        page = store.trust.page(after=page.next, limit=limit)
        assert len(page.items) <= limit
        pages += page.items
    assert pages == store.trust.doubted()


def _looked_at(store: MemoryStore, assessed: Assessment) -> list[tuple[str, str]]:
    memories = core_of(store).read(lambda found: [memory for memory, _ in found.list("/memories")])
    return [(each.path, assessed.level(each)) for each in memories if assessed.level(each) != TRUSTED]
