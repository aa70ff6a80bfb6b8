r"""Full-text search over memories: the same results on every backend, since it is done here and not by a database.

A word is found anywhere, also inside other words, in any language: `log` finds `catalogue`, `api_key` and `会议` need
no dictionary, and one character is enough. Case and compatibility forms do not matter (NFKC and case folding: `ｅ` is
`E`, `ß` is `SS`), accents do, since in many languages they make another letter. A memory is found if all words occur
in its text or in its path below `/memories`.

No fold makes or removes a `\n`, so line n of a folded text is line n of the text; places within a line are
translated back, and shown is always the text itself.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from heapq import nlargest
from itertools import islice
from operator import attrgetter
from typing import Protocol, TypeAlias, cast

from retentive.errors import InvalidInput
from retentive.extras import pip_install
from retentive.values.paths import ROOT
from retentive.values.patterns import check_path_pattern, covers

Span: TypeAlias = tuple[int, int]
Clock: TypeAlias = Callable[[], float]
_Check: TypeAlias = Callable[[], None]

MAX_QUERY_CHARS = 1_000
MAX_WORDS = 32
SNIPPETS = 3
SNIPPET_CHARS = 200
MAX_PROGRAM = 5_000  # instructions of RE2; at its slowest it takes some 7 ms for each KB of text with so many
PATTERN_SECONDS = 5.0
_MAX_SPANS = 50  # of a pattern in one line
_MAX_FOLDED = 18  # characters that one can fold to: U+FDFA
_PIECE = 1 << 16
_TERM = re.compile(r'(-?)(?:"([^"]*)("?)(\S*)|(\S+))')


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for: folded `words` that all must occur and `excluded` ones that must not, or a `pattern`.

    `within` are path patterns, of which one must cover the path if there are any.
    """

    words: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    pattern: str | None = None
    within: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A memory to search. `folded` is `fold_document(path, text)`: keep it as long as `version_id` is the same."""

    path: str
    text: str
    folded: str
    updated_at: datetime
    memory_id: str = ""
    version_id: str = ""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A line that matches: its number from 1, its text cut around the first match with `…`, the matches in `text`."""

    line: int
    text: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Where a memory matches: how many lines do, the best of them, and the matches in the path."""

    lines: int
    snippets: tuple[Snippet, ...]
    path_spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that was found. `lines` is the number of its lines that match: 0 if only the path does."""

    path: str
    memory_id: str
    version_id: str
    updated_at: datetime
    lines: int
    snippets: tuple[Snippet, ...]
    path_spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Results:
    """The first hits, newest change first, and how many memories match in all."""

    hits: tuple[Hit, ...]
    total: int


def fold(text: str) -> str:
    """The form in which texts and words are compared. Folding it again changes nothing."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def fold_document(path: str, text: str) -> str:
    """What words are looked for in: the folded path below `/memories`, and the folded text from the second line on."""
    return fold(f"{path.removeprefix(ROOT)}\n{text}")


def parse_query(text: str, *, regex: bool = False, within: Iterable[str] = ()) -> Query:
    """The query meant by a text, or with `regex` the pattern that it is. Raises `InvalidInput`.

    Words are separated by white space and must all occur; `"some words"` is a phrase, as it stands in one line;
    `-word` and `-"some words"` must not occur. A quotation mark inside a word is an ordinary character.

    A pattern is one of RE2, needs the extra `guards`, looks at each line of the text, and at the path, for itself and
    as they are: `(?i)` at its beginning ignores case.
    """
    patterns = tuple(check_path_pattern(pattern) for pattern in within)
    if not text.strip():
        raise InvalidInput("the query is empty: give at least one word to look for")
    if len(text) > MAX_QUERY_CHARS:
        raise InvalidInput(f"the query is longer than {MAX_QUERY_CHARS:,} characters")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidInput("the query is not text: it has a lone surrogate in it")
    if regex:
        _compiled(text)
        return Query(pattern=text, within=patterns)
    terms: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for is_excluded, term in _terms(text):
        terms[is_excluded][fold(term)] = None
    if not terms[False]:
        raise InvalidInput("the query only says what to leave out: give at least one word to look for")
    if len(terms[False]) + len(terms[True]) > MAX_WORDS:
        raise InvalidInput(f"the query has more than {MAX_WORDS} words; put words that belong together in quotes")
    return Query(tuple(terms[False]), tuple(terms[True]), within=patterns)


def _terms(text: str) -> Iterator[tuple[bool, str]]:
    for minus, phrase, closing, behind, word in _TERM.findall(text):
        if word == "-":
            raise InvalidInput("a - alone leaves out nothing: put it right before a word, or in quotes to look for it")
        if not word and not closing:
            raise InvalidInput('a phrase is not closed: end it with "')
        if behind:
            raise InvalidInput('a phrase goes on behind its closing ": leave a space between')
        if not word and (not phrase.strip() or "\n" in phrase):
            raise InvalidInput("a phrase is empty or goes over a line's end: put words of one line in quotes")
        yield bool(minus), word or phrase


def matches(
    query: Query, path: str, text: str, *, snippets: int = SNIPPETS, snippet_chars: int = SNIPPET_CHARS
) -> Found | None:
    """Where one memory matches, or None. Raises `InvalidInput` for a pattern that takes too long."""
    document = Document(path, text, fold_document(path, text), datetime.min)
    check = _until(PATTERN_SECONDS, time.monotonic)
    return _found(query, document, snippets, snippet_chars, check) if _matching(query, [document], check) else None


def search(
    query: Query,
    documents: Iterable[Document],
    *,
    limit: int | None = None,
    snippets: int = SNIPPETS,
    snippet_chars: int = SNIPPET_CHARS,
    pattern_seconds: float = PATTERN_SECONDS,
    clock: Clock = time.monotonic,
) -> Results:
    """The memories that match, newest change first, then by path: the first `limit` with at most `snippets` lines each.

    The lines shown are those with the most of the words, in the order of the text, each of about `snippet_chars`
    characters. Raises `InvalidInput` for a pattern that takes longer than `pattern_seconds` (words always are fast).
    """
    if limit is not None and limit < 0:
        raise InvalidInput("the limit must be a whole number from 0")
    check = _until(pattern_seconds, clock)
    found = _matching(query, documents, check)
    hits = []
    for doc in _newest(found, len(found) if limit is None else limit):
        at = _found(query, doc, snippets, snippet_chars, check)
        hits.append(Hit(doc.path, doc.memory_id, doc.version_id, doc.updated_at, at.lines, at.snippets, at.path_spans))
    return Results(tuple(hits), len(found))


def _newest(documents: list[Document], limit: int) -> list[Document]:
    """The first `limit` in the order of results; those that are too old are not even sorted."""
    if 0 < limit < len(documents):
        oldest = nlargest(limit, [document.updated_at for document in documents])[-1]
        documents = [document for document in documents if document.updated_at >= oldest]
    ordered = sorted(documents, key=lambda document: (document.path, document.memory_id, document.version_id))
    return sorted(ordered, key=attrgetter("updated_at"), reverse=True)[:limit]


def _matching(query: Query, documents: Iterable[Document], check: _Check) -> list[Document]:
    if query.pattern is None:
        found = list(documents)
        for word in sorted(query.words, key=len, reverse=True):  # the longest is likely to be the rarest
            found = [document for document in found if word in document.folded]
        for word in query.excluded:
            found = [document for document in found if word not in document.folded]
    else:
        pattern = _compiled(query.pattern)
        found = [document for document in documents if _has_match(pattern, document, check)]
    return [document for document in found if covers(query.within, document.path)] if query.within else found


def _found(query: Query, document: Document, count: int, chars: int, check: _Check) -> Found:
    spans_of: Callable[[str], list[Span]]
    if query.pattern is None:
        held = _lines_with(document.folded, query.words)
        spans_of = partial(_word_spans, query.words, chars)
    else:
        pattern = _compiled(query.pattern)
        held = dict.fromkeys(_matching_lines(pattern, _data(document.text), check), 1)
        spans_of = partial(_pattern_spans, pattern, check)
    in_text = [line for line in held if line]
    best = sorted(sorted(in_text, key=lambda line: (-held[line], line))[: max(count, 0)])
    rows = document.text.split("\n") if best else []
    shown = tuple(_snippet(line, rows[line - 1], spans_of(rows[line - 1]), chars) for line in best)
    in_path = spans_of(document.path.removeprefix(ROOT))
    return Found(len(in_text), shown, tuple((start + len(ROOT), end + len(ROOT)) for start, end in in_path))


def _lines_with(folded: str, words: Iterable[str]) -> dict[int, int]:
    """The lines that hold some of the words, each with how many of them; line 0 is the path."""
    held: dict[int, int] = {}
    for word in words:
        line, counted, at = 0, 0, folded.find(word)
        while at != -1:
            line += folded.count("\n", counted, at)
            counted = at
            held[line] = held.get(line, 0) + 1
            newline = folded.find("\n", at)
            at = -1 if newline == -1 else folded.find(word, newline + 1)
    return held


def _snippet(line: int, row: str, spans: Sequence[Span], chars: int) -> Snippet:
    """The row with a quarter of what is shown before the first match."""
    first = spans[0][0] if spans else 0
    start = max(min(first - chars // 4, len(row) - chars), 0)
    end = min(start + chars, len(row))
    before, after = "…" if start else "", "…" if end < len(row) else ""
    shift = len(before) - start
    shown = ((max(left, start) + shift, min(right, end) + shift) for left, right in spans if left < end)
    return Snippet(line, before + row[start:end] + after, tuple(shown))


def _word_spans(words: Sequence[str], chars: int, row: str) -> list[Span]:
    """What of a line matches, from the first match as far as a snippet can reach."""
    folded = fold(row)
    places = [at for at in map(folded.find, words) if at != -1]
    if not places:
        return []
    reach = min(places) + _MAX_FOLDED * chars
    finds = sorted(span for word in words for span in _finds(folded, word, min(places), reach))
    if not row.isascii():
        origins = _origins(row, folded)
        finds = [(origins[start][0], origins[end - 1][1]) for start, end in finds] if origins else []
    return _united(finds)


def _finds(folded: str, word: str, start: int, end: int) -> Iterator[Span]:
    at = folded.find(word, start)
    while -1 < at < end:
        yield at, at + len(word)
        at = folded.find(word, at + len(word))


def _united(spans: Iterable[Span]) -> list[Span]:
    """Sorted spans, those that overlap or touch made one."""
    united: list[Span] = []
    for start, end in spans:
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united


def _origins(row: str, folded: str) -> list[Span]:
    """For each character of the folded row the span of the row that it comes from; none if that cannot be told."""
    clusters = row if "".join(map(_folded_char, row)) == folded else _clusters(row)
    origins: list[Span] = []
    at = 0
    for cluster in clusters:
        origins += [(at, at + len(cluster))] * len(_folded_char(cluster))
        at += len(cluster)
    return origins if len(origins) == len(folded) else []


@lru_cache(maxsize=4_096)
def _folded_char(char: str) -> str:
    return fold(char)


def _clusters(row: str) -> list[str]:
    """The row in parts that fold for themselves: a character and what combines with it."""
    clusters: list[str] = []
    for char in row:
        if clusters and (unicodedata.combining(char) or fold(clusters[-1] + char) != fold(clusters[-1]) + fold(char)):
            clusters[-1] += char
        else:
            clusters.append(char)
    return clusters


class _Match(Protocol):
    def start(self) -> int: ...
    def span(self) -> Span: ...


class _Pattern(Protocol):
    programsize: int

    def search(self, text: bytes, pos: int = 0, endpos: int = ...) -> _Match | None: ...
    def finditer(self, text: str) -> Iterator[_Match]: ...


@lru_cache(maxsize=16)
def _compiled(pattern: str) -> _Pattern:
    """The pattern for RE2, whose time grows with the text and no faster: that of `re` has no bound."""
    try:
        import re2  # type: ignore[import-untyped, import-not-found, unused-ignore] # noqa: PLC0415 - an optional driver, and 20 ms
    except ImportError:
        raise InvalidInput(f"looking for a pattern needs its library: {pip_install('guards')}") from None
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.never_nl = True  # so that a match is within one line
    try:
        compiled = cast("_Pattern", re2.compile("(?m)" + pattern, options))
    except re2.error as error:
        reason = bytes(error.args[0]).decode("utf-8", "replace").replace("(?m)", "", 1)
        raise InvalidInput(f"not a pattern that RE2 knows: {reason}") from None
    if compiled.programsize > MAX_PROGRAM:
        raise InvalidInput("the pattern is too large: repeat less, or smaller classes of characters")
    if compiled.search(b"") is not None:
        raise InvalidInput("the pattern matches the empty text, so it would find everything: ask for one character")
    return compiled


def _until(seconds: float, clock: Clock) -> _Check:
    """A function that raises `InvalidInput` once the time is over."""
    end = clock() + seconds

    def check() -> None:
        if clock() > end:
            raise InvalidInput("the pattern takes too long: make it simpler, or look within fewer paths")

    return check


def _has_match(pattern: _Pattern, document: Document, check: _Check) -> bool:
    texts = (document.path.removeprefix(ROOT), document.text)
    return any(True for text in texts for _ in _matching_lines(pattern, _data(text), check))


def _data(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _matching_lines(pattern: _Pattern, data: bytes, check: _Check) -> Iterator[int]:
    """The numbers of the lines with a match, one after the other; `check` is called for each piece of the text."""
    line, counted, at = 1, 0, 0
    while at < len(data):
        check()
        end = data.find(b"\n", at + _PIECE) + 1 or len(data)
        found = pattern.search(data, at, end)
        if found is None:
            at = end
            continue
        line += data.count(b"\n", counted, found.start())
        counted = found.start()
        yield line
        at = data.find(b"\n", counted) + 1 or len(data)


def _pattern_spans(pattern: _Pattern, check: _Check, row: str) -> list[Span]:
    """The first matches in a line, empty ones left out."""
    spans: list[Span] = []
    for found in islice(pattern.finditer(_data(row).decode()), _MAX_SPANS):
        check()
        spans.append(found.span())
    return _united(span for span in spans if span[0] < span[1])
