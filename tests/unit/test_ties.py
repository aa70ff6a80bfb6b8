"""Many memories with the same score: the newest come first, as if all were sorted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from retentive.search.postings import Index, counted
from retentive.search.query import parse_query
from retentive.search.ranking import RESCORED, Ranking
from retentive.search.results import Document
from retentive.search.terms import terms_of

START = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ["same words", "same other words, and more of them", "same", "rare same words", "other"]


@given(
    kinds=st.lists(st.sampled_from([0, 0, 0, 1, 2, 3, 4]), min_size=1, max_size=40),
    days=st.integers(1, 700),
    limit=st.integers(1, 60),
    removed=st.sets(st.integers(0, 899), max_size=5),
)
@settings(max_examples=15)
def test_the_first_of_many_equal_memories(kinds: list[int], days: int, limit: int, removed: set[int]) -> None:
    """The first of 900 memories, of which most have equal scores and many equal times, are those of a full sort."""
    index = Index()
    for number in range(900):
        text = WORDS[kinds[number % len(kinds)]]
        at = START + timedelta(days=number * 7 % days)
        document = Document(f"/memories/{number * 31 % 900:03}", text.encode(), at, f"mem_{number}", f"memver_{number}")
        index.add(document, counted(document.path, text))
    for number in removed:
        index.remove(f"mem_{number}")
    assert best(index, limit) == best(index, None)[: max(limit, RESCORED)]


def best(index: Index, limit: int | None) -> list[tuple[float, int]]:
    """Scores and numbers of the first memories; without a limit, all of them are sorted."""
    query = parse_query("same rare", lambda _: START, within=())
    ranking = Ranking(index, terms_of(query, ()), query, statistics=None, admit=None, sees=None)
    return ranking._best(limit)
