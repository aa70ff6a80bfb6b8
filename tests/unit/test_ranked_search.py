"""Ranked search: operators, languages, dates, and laws that hold for any texts and queries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retentive
from retentive import InvalidInput, MemoryStore
from retentive.search import ranking
from retentive.search.index import Index, index_of
from retentive.search.query import parse_query
from retentive.search.ranking import search_index
from retentive.search.results import Document, Results

START = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = [
    "refund",
    "refunds",
    "Customer",
    "customers",
    "parseDate",
    "2023-05-07",
    "May 7",
    "会議",
    "予算の会議",
    "l'été",
    "\n",
]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
QUERIES = st.lists(st.sampled_from(WORDS[:-1]), min_size=1, max_size=4).map(" ".join)


def document(path: str, text: str, number: int = 0) -> Document:
    return Document(f"/memories/{path}", text.encode(), START + timedelta(days=number), f"mem_{path}", f"v{path}{text}")


def ranked(index: Index, query: str, limit: int | None = None) -> Results:
    return search_index(index, parse_query(query, datetime.fromisoformat), limit=limit)


def scanned(documents: list[Document], query: str, languages: tuple[str, ...] = ()) -> Results:
    return ranked(index_of(documents, languages), query)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with retentive.open("sqlite://", sensitive="off") as opened:
        store = opened.store()
        store.create(
            "/memories/refunds.md", "# Refunds\n\n## 7 May 2023\nRefunds within 30 days.\nNo refund of fees.\n"
        )
        store.create("/memories/team/rules.md", "Ask Ann before a REFUND over 500 euros.\n", actor="user:ann")
        store.create("/memories/code.md", "`parseInvoiceDate` fails; see src/app/main_loop.py\n")
        yield store


def found(store: MemoryStore, query: str, **options: object) -> list[str]:
    return [hit.path.removeprefix("/memories/") for hit in store.search(query, **options).hits]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("when is a refund possible", ["refunds.md", "team/rules.md"]),
        ("refund +euro", ["team/rules.md"]),
        ("refund -fees", ["team/rules.md"]),
        ('"refund over 500"', ["team/rules.md"]),
        ('refund -"over 500"', ["refunds.md"]),
        ('"REFUND  of fees"', ["refunds.md"]),
        ("refund path:team", ["team/rules.md"]),
        ("refund path:/memories/team/**", ["team/rules.md"]),
        ("refund by:user:ann", ["team/rules.md"]),
        ("refund by:ann", ["team/rules.md"]),
        ("refund since:2026-01-01", ["refunds.md", "team/rules.md"]),
        ("refund before:2020-01-01", []),
        ("refund is:proposed", []),
        ("parse_invoice_date", ["code.md"]),
        ("invoice", ["code.md"]),
        ("main loop", ["code.md"]),
        ("May 7", ["refunds.md"]),
        ("what happened on 2023-05-07?", ["refunds.md"]),
        ("nowhere", []),
        ('what says "', []),
    ],
)
def test_operators(store: MemoryStore, query: str, expected: list[str]) -> None:
    assert found(store, query) == expected


@pytest.mark.parametrize("query", ["", "-refund", "path:team", "refund is:odd", "refund since:someday", "a" * 1_001])
def test_invalid_queries_are_rejected(store: MemoryStore, query: str) -> None:
    with pytest.raises(InvalidInput):
        store.search(query)


def test_a_phrase_that_no_memory_has_is_searched_by_its_words(store: MemoryStore) -> None:
    results = store.search('"refund of euros"')
    assert results.relaxed
    assert len(results.hits) == 2


def test_unknown_words_are_named(store: MemoryStore) -> None:
    assert store.search("refnud refund xyzzy").unknown == ("refnud", "xyzzy")


def test_a_line_has_the_headings_above_it(store: MemoryStore) -> None:
    (hit,) = store.search("fees").hits
    assert hit.snippets[0].headings == ("Refunds", "7 May 2023")
    assert (hit.lines, hit.score > 0, hit.actor) == (1, True, None)


def test_times_are_those_of_the_newest_change() -> None:
    """`before:2d` and the moment `2d` count from the clock of the location."""
    now = START.timestamp()
    with retentive.open("sqlite://", clock=lambda: now) as opened:
        store = opened.store()
        for day, path in enumerate(("a", "b", "c")):
            now = (START + timedelta(days=day)).timestamp()
            store.create(f"/memories/{path}", "tea\n")
        assert found(store, "tea since:2026-01-02T00:00:00+00:00") == ["c", "b"]
        assert found(store, "tea before:2026-01-03T00:00:00+00:00") == ["b", "a"]
        assert found(store, "tea before:1d since:2d") == ["a"]
        assert found(store, "tea since:1d") == ["c", "b"]
        assert found(store, "tea", at=START + timedelta(days=1)) == ["b", "a"]
        assert found(store, "tea", at="1d") == ["b", "a"]


def test_of_too_many_occurrences_the_rarer_words_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frequent word is left out of a query only if a rarer one is in a memory."""
    monkeypatch.setattr(ranking, "MAX_OCCURRENCES", 5)
    index = index_of([*(document(f"{number}", "tea") for number in range(9)), document("s", "saffron tea")])
    assert [hit.path for hit in ranked(index, "tea saffron").hits] == ["/memories/s"]
    assert ranked(index, "tea +saffron").total == 1
    for query in ("tea", "tea xyzzy"):
        assert ranked(index, query).total == 10


def test_newer_memories_come_first_only_among_equals() -> None:
    old, new = document("a", "tea"), document("b", "tea", 1)
    better = document("c", "tea tea", -9)
    results = scanned([old, better, new], "tea")
    assert [hit.path for hit in results.hits] == ["/memories/c", "/memories/b", "/memories/a"]


@pytest.mark.parametrize(
    ("text", "query", "language"),
    [
        ("changes", "changed", "english"),
        ("We bought two tents.", "buy", "english"),
        ("The child runs", "who ran", "english"),
        ("Häuser", "Haus", "german"),
        ("livraisons", "livraison", "french"),
        ("contraseñas", "contraseña", "spanish"),
        ("книгами", "книга", "english"),
        ("ΒΙΒΛΊΑ", "βιβλία", "english"),
        ("café", "CAFE", "english"),
        ("El Niño", "nino", "english"),
        ("IŞIK ve İzmir", "ışık", "english"),
        ("IŞIK ve İzmir", "izmir", "english"),
        ("ΆΝΟΙΞΗ", "ανοιξη", "english"),
        ("ёлка", "ЕЛКА", "english"),
        ("Straße", "STRASSE", "english"),
        ("ｆｕｌｌ", "full", "english"),
        ("co\u00adoperate", "cooperate", "english"),
        ("party 🎉 tonight", "🎉", "english"),
        ("go → there", "→", "english"),
        *((f"x {text} y", text, "english") for text in ("ภาษาไทยง่าย", "ភាសាខ្មែរ", "日本語の文", "한국어를", "हिन्दी में")),
    ],
)
def test_forms_case_accents_width_symbols_and_scripts(text: str, query: str, language: str) -> None:
    (hit,) = scanned([document("a", text), document("b", "others")], query, (language,)).hits
    assert (hit.path, bool(hit.snippets[0].spans)) == ("/memories/a", True)


def test_a_word_of_one_han_character_is_found_beside_other_characters() -> None:
    """No pair of the query is in the text, only the character."""
    (hit,) = scanned([document("a", "琵琶湖に行った"), document("b", "山に登った")], "どの湖ですか").hits
    assert hit.path == "/memories/a"


@pytest.mark.parametrize(
    "text",
    [
        *("7 May 2023", "May 7, 2023", "2023-05-07", "07.05.2023", "7. Mai 2023", "le 7 mai 2023", "2023年5月7日"),
        "7º de maio de 2023",
    ],
)
def test_dates_have_one_form(text: str) -> None:
    """Each is found by the others, and not by another day or by its numbers alone."""
    documents = [document("a", f"am {text}, x"), document("b", "8. Mai 2023: 5 of 7")]
    assert [hit.path for hit in scanned(documents, "2023-05-07").hits] == ["/memories/a", "/memories/b"]
    (hit,) = scanned([documents[0], document("b", "5, 7")], "7.5.2023").hits
    ((start, end),) = hit.snippets[0].spans
    assert hit.snippets[0].text[start:end] in {text, text.removeprefix("le ")}


@given(st.lists(st.tuples(st.integers(0, 4), TEXTS | st.none()), max_size=12), QUERIES)
def test_an_index_equals_a_scan_after_any_edits(edits: list[tuple[int, str | None]], query: str) -> None:
    index, present = Index(["english"]), dict[int, Document]()
    for at, (number, text) in enumerate(edits):
        index.remove(f"mem_{number}")
        present.pop(number, None)
        if text is not None:
            present[number] = document(f"{number}", text, at)
            index.add(present[number])
    assert ranked(index, query) == scanned(list(present.values()), query, ("english",))
    for number in list(present):
        index.remove(f"mem_{number}")
    assert ranked(index, query).hits == ()
    assert index._database.execute("SELECT count(*) FROM places").fetchone() == (0,)


@given(st.text(max_size=60))
def test_any_text_can_be_indexed_and_searched(text: str) -> None:
    """Each word of a text finds it."""
    index = index_of([document("a", text.replace("\ud800", ""))])
    for word in text.split()[:3]:
        try:
            parse_query(f"{word} x", datetime.fromisoformat)
        except InvalidInput:
            continue
        ranked(index, f"{word} x")
    index.remove("mem_a")
    assert index._database.execute("SELECT count(*) FROM places").fetchone() == (0,)


@given(
    kinds=st.lists(st.sampled_from([0, 0, 0, 1, 2, 3, 4]), min_size=1, max_size=40),
    days=st.integers(1, 700),
    limit=st.integers(1, 60),
)
@settings(max_examples=10)
def test_the_first_of_many_equal_memories(kinds: list[int], days: int, limit: int) -> None:
    """Of many memories with equal scores, the newest come first, as if all were sorted."""
    texts = ["same words", "same other words, and more of them", "same", "rare same words", "other"]
    index = Index(["english"])
    for number in range(300):
        text = texts[kinds[number % len(kinds)]]
        index.add(document(f"{number * 31 % 300:03}", text, number * 7 % days))
    assert ranked(index, "same rare", limit).hits == ranked(index, "same rare").hits[:limit]


def test_each_of_many_contributors_finds_a_memory(store: MemoryStore) -> None:
    """Also those that the newest version does not name itself."""
    for number in range(20):
        store.append("/memories/code.md", f"line {number}\n", actor=f"user:u{number}")
    for number in (0, 10, 19):
        assert found(store, f"line by:user:u{number}") == ["code.md"]
    assert found(store, "line by:user:u20") == []


def test_versions_and_earlier_moments_are_searched(store: MemoryStore) -> None:
    """The history names the first version that has a text."""
    first = store.load("/memories/code.md")[0].version_id
    store.write("/memories/code.md", "`parseInvoiceDate` fails; see src/app/main_loop.py\nMore.\n")
    store.write("/memories/code.md", "Nothing.\n")
    assert found(store, "parseInvoiceDate") == []
    (hit,) = store.search("parseInvoiceDate", history=True).hits
    assert hit.version_id == first
    assert found(store, "parseInvoiceDate", at="HEAD~1") == ["code.md"]
