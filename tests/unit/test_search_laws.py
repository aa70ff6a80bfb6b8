"""Laws of search: a search finds exactly the memories with all words, and it shows lines unchanged."""

from __future__ import annotations

import importlib.util
import re
import sys
import unicodedata
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retentive.errors import InvalidInput
from retentive.search import literal, results
from retentive.search.literal import Literal, fold, parse_literal, search_literal
from retentive.search.results import Document, Hit, Snippet
from support import model
from support.profiles import REQUIRED
from support.strategies import any_texts

# Characters that change length when folded, combine with the previous character, or depend on the next one.
ODD = (
    "aAbB  \n\n\nßẞﬁéE\u0301\u0323\u0334İıΣσς가\u1100\u1161\u11a8ｶﾞ会㌔１\u0345ͅ\u0f71\u0f80\u09c7\u09be\ufdfa½-\r\u2028"
)
odd_texts = st.text(alphabet=ODD, max_size=40)
some_texts = odd_texts | st.text(alphabet="ab \n", max_size=20) | any_texts
words = st.text(alphabet=[char for char in ODD if not char.isspace()], min_size=1, max_size=3)
names = st.sampled_from(["a", "B", "é", "ab", "x/a", "ｶ/b"])
START = datetime(2026, 1, 1, tzinfo=UTC)
PATH = "/memories/notes/plan.md"
# In CI the library must be installed; its absence is a failure.
needs_re2 = pytest.mark.skipif(
    importlib.util.find_spec("re2") is None and not REQUIRED, reason="google-re2 is not installed"
)


def naive_fold(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


@st.composite
def documents(draw: st.DrawFn) -> list[Document]:
    paths = draw(st.lists(names, unique=True, max_size=6))
    found: list[Document] = []
    for path in (f"/memories/{name}" for name in paths):
        text, age = draw(odd_texts), timedelta(days=draw(st.integers(0, 2)))
        found.append(Document(path, text.encode(), START - age, f"mem_{draw(st.integers(0, 99))}", "v"))
    return found


@st.composite
def queries(draw: st.DrawFn) -> Literal:
    """Queries of words and exclusions from a few characters, so that many memories match."""
    some = st.lists(st.sampled_from(["a", "b", "é", "ss", "fi", "ab", "カ", "i"]) | words.map(fold), max_size=3)
    return Literal(tuple(draw(some.filter(bool))), tuple(draw(some.map(lambda excluded: excluded[:1]))))


@given(some_texts)
def test_folding_equals_unicode_case_folding(text: str) -> None:
    assert fold(text) == naive_fold(text)
    assert fold(fold(text)) == fold(text)
    assert fold(text.upper().lower()) == fold(fold(text.upper().lower()))


@given(some_texts, some_texts)
def test_folding_keeps_the_lines(path: str, text: str) -> None:
    """Line n of the folded text is the folded line n of the text."""
    rows = fold(f"/{path}\n{text}").split("\n")
    assert rows == [naive_fold(row) for row in [*f"/{path}".split("\n"), *text.split("\n")]]


def holds(query: Literal, path: str, text: str) -> bool:
    parts = [naive_fold(path.removeprefix("/memories")), *(naive_fold(line) for line in text.split("\n"))]
    return all(any(word in part for part in parts) for word in query.words) and not any(
        word in part for word in query.excluded for part in parts
    )


@given(documents(), queries(), st.randoms(use_true_random=False))
def test_matches_are_exact_and_ordered(found_in: list[Document], query: Literal, random: object) -> None:
    """Matches are sorted from newest to oldest and then by the bytes of the path, independent of the input order."""
    found = search_literal(query, found_in)
    expected = [doc for doc in found_in if holds(query, doc.path, doc.text)]
    expected.sort(key=lambda doc: doc.path.encode())
    expected.sort(key=lambda doc: doc.updated_at, reverse=True)
    assert [(hit.path, hit.updated_at, hit.memory_id) for hit in found.hits] == [
        (doc.path, doc.updated_at, doc.memory_id) for doc in expected
    ]
    assert found.total == len(expected)
    shuffled = list(found_in)
    random.shuffle(shuffled)  # type: ignore[attr-defined] # hypothesis calls it Any
    assert search_literal(query, iter(shuffled)) == found


@given(documents(), queries(), st.integers(0, 6))
def test_a_limit_only_truncates_the_results(found_in: list[Document], query: Literal, limit: int) -> None:
    whole, cut = search_literal(query, found_in), search_literal(query, found_in, limit=limit)
    assert (cut.hits, cut.total) == (whole.hits[:limit], whole.total)


def matched(query: Literal, document: Document, *, snippets: int = 3, snippet_chars: int = 200) -> Hit | None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(literal, "SNIPPETS", snippets)
        patch.setattr(literal, "SNIPPET_CHARS", snippet_chars)
        patch.setattr(results, "SNIPPET_CHARS", snippet_chars)
        return next(iter(search_literal(query, [document]).hits), None)


def one_document(text: str) -> Document:
    path = "/memories/-"
    return Document(path, text.encode(), datetime(2026, 1, 1, tzinfo=UTC))


@given(documents(), queries())
def test_a_match_is_independent_of_other_memories(found_in: list[Document], query: Literal) -> None:
    hits = {hit.path: hit for hit in search_literal(query, found_in).hits}
    for doc in found_in:
        assert matched(query, doc) == hits.get(doc.path)


@given(some_texts, st.lists(words.map(fold), min_size=1, max_size=3), st.integers(1, 40))
@example("a\u0334\u0301 x", ["x"], 40)
@example("e\u0301\u0323 ẹ́", ["ẹ́"], 40)
def test_a_snippet_is_its_line_with_marked_matches(text: str, wanted: list[str], chars: int) -> None:
    """Snippets are the lines with the most words of the query. Marks cover whole words unless the line is truncated."""
    query = Literal(tuple(dict.fromkeys(wanted)))
    found = matched(query, one_document(text), snippet_chars=chars)
    if found is None:
        return
    lines = [line.removesuffix("\n") for line in model.kept_lines(text)]
    held = {at: sum(word in naive_fold(line) for word in query.words) for at, line in enumerate(lines, 1)}
    held = {at: count for at, count in held.items() if count}
    assert found.lines == len(held)
    best = sorted(held, key=lambda at: (-held[at], at))[:3]
    assert [shown.line for shown in found.snippets] == sorted(best)
    for shown in found.snippets:
        line = lines[shown.line - 1]
        assert shown.text in truncations(line, chars)
        ends = [0, *(at for span in shown.spans for at in span), len(shown.text)]
        assert ends == sorted(ends)
        assert shown.spans
        if len(line) <= chars:
            assert all(any(w in naive_fold(shown.text[slice(*span)]) for w in query.words) for span in shown.spans)


def truncations(line: str, chars: int) -> list[str]:
    """Return all truncations of a line to this many characters."""
    last = max(len(line) - chars, 0)
    return [("…" if at else "") + line[at : at + chars] + ("…" if at < last else "") for at in range(last + 1)]


plain_words = st.text(alphabet='aB"é-会', min_size=1, max_size=4)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), plain_words), min_size=1, max_size=5))
def test_a_query_is_split_into_its_words(terms: list[tuple[bool, bool, str]]) -> None:
    """A query is split into single words, and into quoted words, which may contain a space."""
    terms = [(False, False, "first"), *((out, quoted, word) for out, quoted, word in terms if word[0] not in '-"')]
    shown = [
        ("-" if out else "") + (f'"{word.replace(chr(34), "")} x"' if quoted else word) for out, quoted, word in terms
    ]
    query = parse_literal("\u3000 ".join(shown))
    meant = [(out, fold(f"{word.replace(chr(34), '')} x" if quoted else word)) for out, quoted, word in terms]
    assert query.words == tuple(dict.fromkeys(word for out, word in meant if not out))
    assert query.excluded == tuple(dict.fromkeys(word for out, word in meant if out))


# Patterns that mean the same in RE2 and `re` and are fast in both.
PATTERNS = ("a", "ab", "a.b", "^a", "b$", "^b+$", "[^a]b", "a|é", "é", "会.?", ".{3}", "[ab]{2}", "A", "(?i)A", "x|^ ")


@needs_re2
@given(st.text(alphabet="abéx会 \n", max_size=30), st.sampled_from(PATTERNS))
def test_a_pattern_matches_like_re(text: str, pattern: str) -> None:
    """The pattern matches the same lines as `re`, with the same marks."""
    found = matched(parse_literal(pattern, regex=True), one_document(text), snippets=50)
    spans = {
        at: [match.span() for match in re.finditer(pattern, line.removesuffix("\n"))]
        for at, line in enumerate(model.kept_lines(text), 1)
    }
    marked = {at: united(places) for at, places in spans.items() if places}
    in_path = [match.span() for match in re.finditer(pattern, "/-")]
    assert (found is not None) == bool(marked or in_path)
    if found is not None:
        assert {shown.line: shown.spans for shown in found.snippets} == marked
        assert found.lines == len(marked)


def united(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    marked = {at for start, end in spans for at in range(start, end)}
    starts = sorted(at for at in marked if at - 1 not in marked)
    ends = sorted(at + 1 for at in marked if at + 1 not in marked)
    return tuple(zip(starts, ends, strict=True))


def document(path: str, text: str) -> Document:
    return Document(path, text.encode(), START, f"mem_{path}", f"memver_{path}")


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
    literal._compiled.cache_clear()
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
