"""Queries, matches, snippets and patterns by examples; `tests/laws/test_search_laws.py` says what holds for all."""

from __future__ import annotations

import importlib.util
import sys
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from profiles import REQUIRED
from retentive.errors import InvalidInput
from retentive.search import query as search_module
from retentive.search.query import Document, Found, Query, Snippet, fold_document, matches, parse_query, search

START = datetime(2026, 1, 1, tzinfo=UTC)
PATH = "/memories/notes/plan.md"


# Where it must be there, in CI, its absence is a failure.
needs_re2 = pytest.mark.skipif(
    importlib.util.find_spec("re2") is None and not REQUIRED, reason="google-re2 is not installed"
)


def document(path: str, text: str, *, age: int = 0) -> Document:
    return Document(path, text, fold_document(path, text), START - timedelta(days=age), f"mem_{path}", f"memver_{path}")


def found(query: str, text: str, *, path: str = PATH, regex: bool = False) -> Found | None:
    return matches(parse_query(query, regex=regex), path, text)


def lines(query: str, text: str, *, regex: bool = False) -> list[tuple[int, list[str]]]:
    """The lines shown, each with its marked parts."""
    at = found(query, text, regex=regex)
    assert at is not None
    return [(shown.line, [shown.text[slice(*span)] for span in shown.spans]) for shown in at.snippets]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tea  TIME", Query(("tea", "time"))),
        ("tea tea Tea", Query(("tea",))),
        ('"green  tea" -black -"too hot"', Query(("green  tea",), ("black", "too hot"))),
        ("\u3000会議\u3000議事録\n", Query(("会議", "議事録"))),
        ('say"hi" "-x" it\'s', Query(('say"hi"', "-x", "it's"))),
        ("--force x", Query(("x",), ("-force",))),
        ("Ｓtraße ﬁ", Query(("strasse", "fi"))),
        ("a-b", Query(("a-b",))),
    ],
)
def test_a_query_is_words_phrases_and_what_to_leave_out(text: str, expected: Query) -> None:
    assert parse_query(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the query is empty: give at least one word"),
        (" \n\u3000", "the query is empty"),
        ("-a", "only says what to leave out: give at least one word"),
        ("a -", "a - alone leaves out nothing"),
        ('"a b', 'not closed: end it with "'),
        ('"a b"c', "leave a space between"),
        ('""', "a phrase is empty"),
        ('a -" "', "a phrase is empty"),
        ('"a\nb"', "put words of one line in quotes"),
        ("a" * 1_001, "longer than 1,000 characters"),
        ("a\udc80", "lone surrogate"),
        (" ".join(f"w{number}" for number in range(33)), "more than 32 words"),
    ],
)
def test_a_wrong_query_is_told_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_query(text)


def test_a_query_knows_the_paths_to_look_within() -> None:
    assert parse_query("a", within=["/memories/team/**"]) == Query(("a",), within=("/memories/team/**",))
    with pytest.raises(InvalidInput, match="must begin with /memories/"):
        parse_query("a", within=["team"])


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("log", "the catalogue"),
        ("API_key", "my api_KEY is"),
        ("会议", "明天的会议在下午"),
        ("議", "会議"),
        ("ガ", "ｶﾞｲﾄﾞ"),
        ("strasse", "Hauptstraße"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("1/2", "１/２"),
        ("e\u0301te\u0301", "ÉTÉ"),
        ("a", "A"),
    ],
)
def test_words_are_found_in_any_language_inside_words_and_in_any_case(query: str, text: str) -> None:
    assert found(query, text) is not None


@pytest.mark.parametrize(("query", "text"), [("resume", "résumé"), ("é", "e"), ("ya", "yä"), ("cafe", "café")])
def test_accents_matter(query: str, text: str) -> None:
    assert found(query, text) is None


def test_all_words_must_occur_in_the_text_or_the_path() -> None:
    assert found("tea plan", "green tea") is not None
    assert found("tea coffee", "green tea") is None
    assert found("tea -green", "green tea") is None
    assert found("tea -plan", "green tea") is None
    assert found("tea -coffee", "green tea") is not None


def test_the_root_is_no_part_of_the_path_that_words_are_found_in() -> None:
    """Or `memories` would find every memory."""
    assert found("memories", "x") is None
    assert found("/notes/", "x") == Found(0, (), ((9, 16),))


def test_words_in_the_path_are_marked_there() -> None:
    at = found("Plan notes", "the plan\n")
    assert at == Found(1, (Snippet(1, "the plan", ((4, 8),)),), ((10, 15), (16, 20)))


def test_a_phrase_stands_in_one_line_as_it_is_written() -> None:
    assert found('"green tea"', "Green Tea") is not None
    assert found('"green tea"', "green\ntea") is None
    assert found('"green tea"', "green  tea") is None


def test_snippets_show_the_lines_as_they_are_with_their_numbers() -> None:
    """A ligature or a sharp s is marked whole; folding moves nothing."""
    text = "ﬁrst ﬁeld\r\x0cx\nnone\nSTRAẞE İstanbul ﬁ\n"
    assert lines("fi", text) == [(1, ["ﬁ", "ﬁ"]), (3, ["ﬁ"])]
    assert lines("sse stanbul", text) == [(3, ["ẞE", "stanbul"])]
    at = found("first", text)
    assert at is not None
    assert at.snippets[0].text == "ﬁrst ﬁeld\r\x0cx"


@pytest.mark.parametrize(
    ("word", "text", "marked"),
    [
        ("é", "cafe\u0301 au", ["e\u0301"]),
        ("au", "cafe\u0301 au", ["au"]),
        ("가", "\u1100\u1161 x", ["\u1100\u1161"]),
        ("ド", "ｶﾞｲﾄﾞ", ["ﾄﾞ"]),
        ("キロ", "5 ㌔ x", ["㌔"]),
        ("aa", "aaaa b aa", ["aaaa", "aa"]),
    ],
)
def test_matches_are_marked_in_the_text_itself(word: str, text: str, marked: list[str]) -> None:
    assert lines(word, text) == [(1, marked)]


def test_the_lines_with_the_most_words_are_shown_in_their_order() -> None:
    text = "tea\ntea\ntea and milk\nmilk\ntea, milk\n"
    assert lines("tea milk", text) == [(1, ["tea"]), (3, ["tea", "milk"]), (5, ["tea", "milk"])]
    at = found("tea milk", text)
    assert at is not None
    assert at.lines == 5


def test_the_number_and_length_of_snippets_can_be_chosen() -> None:
    at = matches(parse_query("x"), PATH, "x 12345678\nx\n", snippets=1, snippet_chars=5)
    assert at == Found(2, (Snippet(1, "x 123…", ((0, 1),)),), ())
    assert matches(parse_query("x"), PATH, "x", snippets=0) == Found(1, (), ())


def test_a_long_line_is_cut_around_its_first_match() -> None:
    at = found("needle", "a" * 1_000 + "needle" + "b" * 1_000)
    assert at is not None
    assert at.snippets == (Snippet(1, "…" + "a" * 50 + "needle" + "b" * 144 + "…", ((51, 57),)),)
    at = found("needle", "é" * 1_000 + "Needle")
    assert at is not None
    assert at.snippets == (Snippet(1, "…" + "é" * 194 + "Needle", ((195, 201),)),)


def test_marks_reach_to_the_end_of_a_line_that_folds_to_more() -> None:
    """U+FDFA folds to 18 characters, and is one of those that a snippet may have."""
    assert lines("x", "x" + "\ufdfa" * 100 + "x") == [(1, ["x", "x"])]


def test_a_match_longer_than_a_snippet_is_cut_too() -> None:
    at = found("a" * 300, "b" * 100 + "a" * 300)
    assert at is not None
    assert at.snippets == (Snippet(1, "…" + "b" * 50 + "a" * 150 + "…", ((51, 201),)),)


def test_the_newest_change_comes_first_then_the_path() -> None:
    documents = [
        document("/memories/b", "x", age=1),
        document("/memories/é", "x", age=1),
        document("/memories/old", "x", age=9),
        document("/memories/Z", "x", age=1),
        document("/memories/none", "y"),
        document("/memories/new", "x"),
    ]
    results = search(parse_query("x"), documents)
    expected = ["/memories/new", "/memories/Z", "/memories/b", "/memories/é", "/memories/old"]
    assert ([hit.path for hit in results.hits], results.total) == (expected, 5)
    cut = search(parse_query("x"), documents, limit=2)
    assert (cut.hits, cut.total) == (results.hits[:2], 5)
    assert search(parse_query("x"), documents, limit=0).total == 5
    with pytest.raises(InvalidInput, match="whole number from 0"):
        search(parse_query("x"), documents, limit=-1)


def test_a_hit_names_the_memory_and_its_version() -> None:
    hit = search(parse_query("tea"), [document("/memories/tea", "a\nTea\n")]).hits[0]
    assert (hit.path, hit.memory_id, hit.version_id) == ("/memories/tea", "mem_/memories/tea", "memver_/memories/tea")
    assert (hit.updated_at, hit.lines, hit.path_spans) == (START, 1, ((10, 13),))
    assert hit.snippets == (Snippet(2, "Tea", ((0, 3),)),)


@pytest.mark.parametrize("regex", [False, pytest.param(True, marks=needs_re2)])
def test_only_memories_within_the_paths_are_found(regex: bool) -> None:
    documents = [document(f"/memories/{name}", "tea") for name in ("team/a.md", "team/b/c.md", "me/a.md")]
    results = search(parse_query("tea", regex=regex, within=["/memories/team", "/memories/x"]), documents)
    assert [hit.path for hit in results.hits] == ["/memories/team/a.md", "/memories/team/b/c.md"]


@needs_re2
def test_a_pattern_looks_at_each_line_for_itself() -> None:
    assert lines("^b.*d$", "abcd\nbcd\nb\nd\n", regex=True) == [(2, ["bcd"])]
    assert lines(r"[éü]\pL|x$", "naïve été\nx\r\nüx x\n", regex=True) == [(1, ["ét"]), (3, ["üx", "x"])]
    assert found(r"a\sb", "a\nb", regex=True) is None
    assert found("(?s)a.*b", "a\nb", regex=True) is None
    assert found(r"[abc\n]{4}", "abc\nabc", regex=True) is None


@needs_re2
def test_a_pattern_minds_case_unless_told_and_looks_at_the_path_too() -> None:
    assert found("TEA", "tea", regex=True) is None
    assert found("(?i)TEA", "tea", regex=True) is not None
    assert found(r"^/notes/\w+\.md$", "x", regex=True) == Found(0, (), ((9, 23),))
    assert found("memories", "x", regex=True) is None


@needs_re2
@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", r"not a pattern that RE2 knows: missing \): \($"),
        (r"(a)\1", "not a pattern that RE2 knows: invalid escape sequence"),
        ("(?=a)", "not a pattern that RE2 knows"),
        (r"\pL{200}", "too large"),
        ("a*", "matches the empty text"),
        ("^", "matches the empty text"),
        (" ", None),
    ],
)
def test_a_wrong_pattern_is_refused(pattern: str, message: str | None) -> None:
    with pytest.raises(InvalidInput, match=message or "the query is empty"):
        parse_query(pattern, regex=True)


def test_without_its_library_a_pattern_is_refused_naming_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """`re` is no stand-in: a pattern such as `(a+)+$` would never end."""
    monkeypatch.setitem(sys.modules, "re2", None)
    search_module._compiled.cache_clear()
    with pytest.raises(InvalidInput, match=r"pip install 'google-re2>=1.1'"):
        parse_query("not seen before", regex=True)
    assert parse_query("words need nothing").words


@needs_re2
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(?:a?){90}a{90}c", "(x+x+)+y|a{2}b"])
def test_a_hostile_pattern_ends(pattern: str) -> None:
    """On texts that keep a search with backtracking busy for ever."""
    text = "a" * 20_000 + "\n" + "ax" * 10_000
    assert (found(pattern, text, regex=True) is None) == (pattern != "(a+)+$")


@needs_re2
def test_a_slow_pattern_is_given_up() -> None:
    """Looked at before each piece of text, so that no search goes on for much longer than it may."""
    ticks = count()
    documents = [document(f"/memories/{number}", "a line\n" * 10) for number in range(10)]
    with pytest.raises(InvalidInput, match="takes too long"):
        search(parse_query("zz", regex=True), documents, pattern_seconds=7, clock=lambda: float(next(ticks)))
    ticks = count()
    with pytest.raises(InvalidInput, match="takes too long"):
        search(
            parse_query("zz", regex=True),
            [document("/memories/a", "a line\n" * 100_000)],
            pattern_seconds=5,
            clock=lambda: float(next(ticks)),
        )


@needs_re2
def test_lines_of_a_pattern_are_counted_over_pieces_of_a_large_text() -> None:
    text = ("é" * 99 + "\n") * 2_000 + "needle\n" + ("é" * 99 + "\n") * 2_000 + "a needle"
    assert lines("needle", text, regex=True) == [(2_001, ["needle"]), (4_002, ["needle"])]
    assert found("needle", "a" * 65_533 + "needle", regex=True) is not None
