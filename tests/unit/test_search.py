"""Queries, matches, snippets and patterns by examples; `tests/unit/test_search_laws.py` tests their properties."""

from __future__ import annotations

import importlib.util
import sys
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from retentive.errors import InvalidInput
from retentive.search import literal as search_module
from retentive.search.literal import Literal, parse_literal, search_literal
from retentive.search.results import Document, Hit, Snippet
from support.profiles import REQUIRED

START = datetime(2026, 1, 1, tzinfo=UTC)
PATH = "/memories/notes/plan.md"


# In CI the library must be installed; its absence is a failure.
needs_re2 = pytest.mark.skipif(
    importlib.util.find_spec("re2") is None and not REQUIRED, reason="google-re2 is not installed"
)


def document(path: str, text: str, *, age: int = 0) -> Document:
    return Document(path, text.encode(), START - timedelta(days=age), f"mem_{path}", f"memver_{path}")


def found(query: str, text: str, *, path: str = PATH, regex: bool = False) -> Hit | None:
    return next(iter(search_literal(parse_literal(query, regex=regex), [document(path, text)]).hits), None)


def matching(lines: int, snippets: tuple[Snippet, ...], path_spans: tuple[tuple[int, int], ...]) -> Hit:
    """Return the hit for the memory that `found` searches."""
    return Hit(PATH, f"mem_{PATH}", f"memver_{PATH}", START, lines, snippets, path_spans)


def lines(query: str, text: str, *, regex: bool = False) -> list[tuple[int, list[str]]]:
    """Return the snippets, each with its marked parts."""
    at = found(query, text, regex=regex)
    assert at is not None
    return [(shown.line, [shown.text[slice(*span)] for span in shown.spans]) for shown in at.snippets]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tea  TIME", Literal(("tea", "time"))),
        ("tea tea Tea", Literal(("tea",))),
        ('"green  tea" -black -"too hot"', Literal(("green  tea",), ("black", "too hot"))),
        ("\u3000会議\u3000議事録\n", Literal(("会議", "議事録"))),
        ('say"hi" "-x" it\'s', Literal(('say"hi"', "-x", "it's"))),
        ("--force x", Literal(("x",), ("-force",))),
        ("Ｓtraße ﬁ", Literal(("strasse", "fi"))),
        ("a-b", Literal(("a-b",))),
    ],
)
def test_a_query_has_words_phrases_and_exclusions(text: str, expected: Literal) -> None:
    assert parse_literal(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the query is empty; enter at least one word"),
        (" \n\u3000", "the query is empty"),
        ("-a", "has only excluded words; enter at least one word"),
        ("a -", "a single '-' excludes nothing"),
        ('"a b', 'no closing quotation mark; end it with "'),
        ('"a b"c', "put a space after the"),
        ('""', "at least one word"),
        ('a -" "', "at least one word"),
        ('"a\nb"', "at least one word and no line break"),
        ("a" * 1_001, "longer than 1,000 characters"),
        ("a\udc80", "lone surrogate"),
        (" ".join(f"w{number}" for number in range(33)), "more than 32 words"),
    ],
)
def test_an_invalid_query_is_refused_with_the_remedy(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_literal(text)


def test_a_query_has_path_patterns() -> None:
    assert parse_literal("a", within=["/memories/team/**"]) == Literal(("a",), within=("/memories/team/**",))
    with pytest.raises(InvalidInput, match="must start with /memories/"):
        parse_literal("a", within=["team"])


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
def test_words_match_in_any_language_inside_words_and_in_any_case(query: str, text: str) -> None:
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


def test_words_do_not_match_the_root() -> None:
    """Otherwise, the word `memories` would match every memory."""
    assert found("memories", "x") is None
    assert found("/notes/", "x") == matching(0, (), ((9, 16),))


def test_words_in_the_path_are_marked_there() -> None:
    at = found("Plan notes", "the plan\n")
    assert at == matching(1, (Snippet(1, "the plan", ((4, 8),)),), ((10, 15), (16, 20)))


def test_a_phrase_matches_within_one_line() -> None:
    assert found('"green tea"', "Green Tea") is not None
    assert found('"green tea"', "green\ntea") is None
    assert found('"green tea"', "green  tea") is None


def test_snippets_show_the_original_lines_with_their_numbers() -> None:
    """A ligature or a sharp s is marked as a whole. Case folding shifts no position."""
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
    (at,) = search_literal(parse_literal("x"), [document(PATH, "x 12345678\nx\n")], snippets=1, snippet_chars=5).hits
    assert at == matching(2, (Snippet(1, "x 123…", ((0, 1),)),), ())
    (at,) = search_literal(parse_literal("x"), [document(PATH, "x")], snippets=0).hits
    assert at == matching(1, (), ())


def test_a_long_line_is_cut_around_its_first_match() -> None:
    at = found("needle", "a" * 1_000 + "needle" + "b" * 1_000)
    assert at is not None
    assert at.snippets == (Snippet(1, "…" + "a" * 50 + "needle" + "b" * 144 + "…", ((51, 57),)),)
    at = found("needle", "é" * 1_000 + "Needle")
    assert at is not None
    assert at.snippets == (Snippet(1, "…" + "é" * 194 + "Needle", ((195, 201),)),)


def test_marks_reach_to_the_end_of_a_line_that_folds_to_more() -> None:
    """U+FDFA folds to 18 characters, but it counts as one character in a snippet."""
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
    results = search_literal(parse_literal("x"), documents)
    expected = ["/memories/new", "/memories/Z", "/memories/b", "/memories/é", "/memories/old"]
    assert ([hit.path for hit in results.hits], results.total) == (expected, 5)
    cut = search_literal(parse_literal("x"), documents, limit=2)
    assert (cut.hits, cut.total) == (results.hits[:2], 5)
    assert search_literal(parse_literal("x"), documents, limit=0).total == 5
    with pytest.raises(InvalidInput, match="integer of at least 0"):
        search_literal(parse_literal("x"), documents, limit=-1)


def test_a_hit_names_the_memory_and_its_version() -> None:
    hit = search_literal(parse_literal("tea"), [document("/memories/tea", "a\nTea\n")]).hits[0]
    assert (hit.path, hit.memory_id, hit.version_id) == ("/memories/tea", "mem_/memories/tea", "memver_/memories/tea")
    assert (hit.updated_at, hit.lines, hit.path_spans) == (START, 1, ((10, 13),))
    assert hit.snippets == (Snippet(2, "Tea", ((0, 3),)),)


@pytest.mark.parametrize("regex", [False, pytest.param(True, marks=needs_re2)])
def test_only_memories_within_the_paths_are_found(regex: bool) -> None:
    documents = [document(f"/memories/{name}", "tea") for name in ("team/a.md", "team/b/c.md", "me/a.md")]
    results = search_literal(parse_literal("tea", regex=regex, within=["/memories/team", "/memories/x"]), documents)
    assert [hit.path for hit in results.hits] == ["/memories/team/a.md", "/memories/team/b/c.md"]


@needs_re2
def test_a_pattern_matches_each_line_separately() -> None:
    assert lines("^b.*d$", "abcd\nbcd\nb\nd\n", regex=True) == [(2, ["bcd"])]
    assert lines(r"[éü]\pL|x$", "naïve été\nx\r\nüx x\n", regex=True) == [(1, ["ét"]), (3, ["üx", "x"])]
    assert found(r"a\sb", "a\nb", regex=True) is None
    assert found("(?s)a.*b", "a\nb", regex=True) is None
    assert found(r"[abc\n]{4}", "abc\nabc", regex=True) is None


@needs_re2
def test_a_pattern_is_case_sensitive_by_default_and_matches_the_path_too() -> None:
    assert found("TEA", "tea", regex=True) is None
    assert found("(?i)TEA", "tea", regex=True) is not None
    assert found(r"^/notes/\w+\.md$", "x", regex=True) == matching(0, (), ((9, 23),))
    assert found("memories", "x", regex=True) is None


@needs_re2
@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", r"invalid RE2 pattern: missing \): \($"),
        (r"(a)\1", "invalid RE2 pattern: invalid escape sequence"),
        ("(?=a)", "invalid RE2 pattern"),
        (r"\pL{200}", "too large"),
        ("a*", "matches empty text"),
        ("^", "matches empty text"),
        (" ", None),
    ],
)
def test_a_wrong_pattern_is_refused(pattern: str, message: str | None) -> None:
    with pytest.raises(InvalidInput, match=message or "the query is empty"):
        parse_literal(pattern, regex=True)


def test_without_its_library_a_pattern_is_refused_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """`re` cannot replace the library: a pattern such as `(a+)+$` would run forever."""
    monkeypatch.setitem(sys.modules, "re2", None)
    search_module._compiled.cache_clear()
    with pytest.raises(InvalidInput, match=r"pip install 'google-re2>=1.1'"):
        parse_literal("not seen before", regex=True)
    assert parse_literal("words need nothing").words


@needs_re2
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(?:a?){90}a{90}c", "(x+x+)+y|a{2}b"])
def test_a_hostile_pattern_ends(pattern: str) -> None:
    """The search ends even on texts that make a backtracking search run forever."""
    text = "a" * 20_000 + "\n" + "ax" * 10_000
    assert (found(pattern, text, regex=True) is None) == (pattern != "(a+)+$")


@needs_re2
def test_a_slow_pattern_is_aborted() -> None:
    """The search checks the deadline before each piece of text."""
    ticks = count()
    documents = [document(f"/memories/{number}", "a line\n" * 10) for number in range(10)]
    with pytest.raises(InvalidInput, match="takes too long"):
        search_literal(parse_literal("zz", regex=True), documents, pattern_seconds=7, clock=lambda: float(next(ticks)))
    ticks = count()
    with pytest.raises(InvalidInput, match="takes too long"):
        search_literal(
            parse_literal("zz", regex=True),
            [document("/memories/a", "a line\n" * 100_000)],
            pattern_seconds=5,
            clock=lambda: float(next(ticks)),
        )


@needs_re2
def test_lines_of_a_pattern_are_counted_over_pieces_of_a_large_text() -> None:
    text = ("é" * 99 + "\n") * 2_000 + "needle\n" + ("é" * 99 + "\n") * 2_000 + "a needle"
    assert lines("needle", text, regex=True) == [(2_001, ["needle"]), (4_002, ["needle"])]
    assert found("needle", "a" * 65_533 + "needle", regex=True) is not None
