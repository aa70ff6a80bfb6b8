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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the query is empty; enter at least one word"),
        (" \n\u3000", "the query is empty"),
        ("-a", "has only excluded words; enter at least one word"),
        ("a -", "a single '-' excludes nothing"),
        *(
            (query, "a quoted phrase needs a word, no line break")
            for query in ('"a b', '"a b"c', '""', 'a -" "', '"a\nb"')
        ),
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


def test_a_long_line_is_cut_around_its_first_match() -> None:
    at = found("needle", "a" * 1_000 + "needle" + "b" * 1_000)
    assert at is not None
    assert at.snippets == (Snippet(1, "…" + "a" * 50 + "needle" + "b" * 144 + "…", ((51, 57),)),)
    at = found("needle", "é" * 1_000 + "Needle")
    assert at is not None
    assert at.snippets == (Snippet(1, "…" + "é" * 194 + "Needle", ((195, 201),)),)


@pytest.mark.parametrize("regex", [False, pytest.param(True, marks=needs_re2)])
def test_only_memories_within_the_paths_are_found(regex: bool) -> None:
    documents = [document(f"/memories/{name}", "tea") for name in ("team/a.md", "team/b/c.md", "me/a.md")]
    results = search_literal(parse_literal("tea", regex=regex, within=["/memories/team", "/memories/x"]), documents)
    assert [hit.path for hit in results.hits] == ["/memories/team/a.md", "/memories/team/b/c.md"]


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
@pytest.mark.parametrize(("memories", "lines"), [(10, 10), (1, 100_000)])
def test_a_slow_pattern_is_aborted(memories: int, lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search checks the deadline before each piece of text."""
    monkeypatch.setattr("time.monotonic", count().__next__)
    documents = [document(f"/memories/{number}", "a line\n" * lines) for number in range(memories)]
    with pytest.raises(InvalidInput, match="takes too long"):
        search_literal(parse_literal("zz", regex=True), documents)
