"""Law of matching: a memory is found if and only if a word of the query, in normal form, is in its text or path."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

import pytest
import snowballstemmer
from hypothesis import given, settings
from hypothesis import strategies as st

import retentive
from retentive import MemoryStore
from support.profiles import sized

VOCABULARY = [
    *("refund", "Refunds", "refunded", "customer", "CUSTOMERS", "parseDate", "parse_date", "date", "buy", "bought"),
    *("children", "child", "café", "cafe\u0301", "ＦＵＬＬ", "full", "ﬁne", "fine", "7", "2023", "x1", "naïve"),
    *("会議", "予算会議", "予算", "東京", "ภาษาไทย", "ภาษา", "ខ្មែរ", "한국어를", "한국어", "книгами", "книга"),
]
IRREGULAR = [{"buy", "bought"}, {"child", "children"}]
lines = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=5).map(" ".join)
texts = st.lists(lines | lines.map(lambda line: f"## {line}"), min_size=1, max_size=4).map("\n".join)
names = st.sampled_from(["a", "refunds.md", "parseDate/b", "会議/c", "caf\u00e9.md"])
memories = st.dictionaries(names, texts, min_size=1, max_size=4)
queries = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=3).map(" ".join)
_ENGLISH, _RUSSIAN = snowballstemmer.stemmer("english"), snowballstemmer.stemmer("russian")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


def forms(word: str) -> set[str]:
    """Normal forms of a word: folded, its parts, stems, irregular forms, or pairs of characters."""
    word = unicodedata.normalize("NFKC", word)
    if word[0] in "会予東ภខ한":
        return {one + two for one, two in pairwise(word)}
    pieces = {word.replace("_", ""), *(_PART.findall(word) if "_" in word or not word.islower() else [])}
    folded = {piece.casefold() for piece in pieces if piece}
    for family in IRREGULAR:
        folded |= family if folded & family else set()
    return folded | {stemmer.stemWord(each) for each in folded for stemmer in (_ENGLISH, _RUSSIAN)}


def all_forms(text: str) -> set[str]:
    """Normal forms of all words of a text."""
    return set().union(*(forms(word) for word in re.split(r"[\s#/.]+", text) if word))


@pytest.fixture(scope="module")
def place() -> Iterator[retentive.Retentive]:
    with retentive.open("sqlite://", sensitive="off", search_languages=["english"]) as opened:
        yield opened


@settings(max_examples=sized(quick=15, long=300, full=2_000))
@given(memories, queries)
def test_a_memory_is_found_if_a_term_of_the_query_is_in_it(
    place: retentive.Retentive, texts: dict[str, str], query: str
) -> None:
    """In the index, in the versions, and at an earlier moment."""
    store = place.store()
    store.clear()
    before = {each.id for each in store.versions()}
    for name, text in texts.items():
        store.write(f"/memories/{name}", text)
    wanted = all_forms(query)
    expected = {f"/memories/{name}" for name, text in texts.items() if all_forms(f"{name} {text}") & wanted}
    assert paths(store, query) == expected
    assert paths(store, query, at=store.versions(limit=1)[0].id) == expected
    hits = store.search(query, limit=None, history=True).hits
    assert {hit.path for hit in hits if hit.version_id not in before} == expected


def paths(store: MemoryStore, query: str, **options: str) -> set[str]:
    """Paths of all results; each has a line or a part of the path with a mark."""
    hits = store.search(query, limit=None, **options).hits  # type: ignore[arg-type] # one value each
    assert all(hit.path_spans or any(snippet.spans for snippet in hit.snippets) for hit in hits)
    return {hit.path for hit in hits}


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
