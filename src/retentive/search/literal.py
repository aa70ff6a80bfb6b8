r"""Literal search: find memories that match a pattern, or that contain all words of a query as they are written.

A word matches anywhere, even inside other words and in any language: `log` matches `catalogue`. No dictionary is
needed, so `api_key`, `会议` and single characters work. Case and compatibility forms are ignored (NFKC and case
folding): `ｅ` equals `E`, and `ß` equals `SS`. Accents are not ignored, because in many languages a letter with an
accent is a different letter. A memory matches if each word occurs in its text or in its path below `/memories`.

Folding neither adds nor removes a `\n`, so line n of the folded text is line n of the original text. Positions of
matches within a line are converted back, so that snippets show the original text.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from retentive.errors import InvalidInput
from retentive.search.query import check_text
from retentive.search.results import SNIPPET_CHARS, SNIPPETS, Document, Hit, Results, Span, snippet, united
from retentive.values.extras import pip_install
from retentive.values.paths import ROOT
from retentive.values.patterns import check_path_pattern, covers
from retentive.values.text import lines_with

MAX_WORDS = 32
MAX_PROGRAM = 5_000  # RE2 instructions; a pattern of this size takes at most 7 ms per KB of text
PATTERN_SECONDS = 5.0  # for one search; words have no limit
_MAX_SPANS = 50  # maximum matches of a pattern that are marked in one line
_MAX_FOLDED = 18  # characters; the longest folded form of a single character, which is that of U+FDFA
_TERM = re.compile(r'(-?)(?:"([^"]*)("?)(\S*)|(\S+))')


@dataclass(frozen=True, slots=True)
class Literal:
    """Parsed query of a literal search: either words or a `pattern`.

    All of the folded `words` must occur in a memory, and the `excluded` words must not. If `within` has path patterns,
    the path of a memory must match one of them.
    """

    words: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    pattern: str | None = None
    within: tuple[str, ...] = ()


def fold(text: str) -> str:
    """Fold a text for comparison: NFKC and case folding. Folding a folded text changes nothing."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def parse_literal(text: str, *, regex: bool = False, within: Iterable[str] = ()) -> Literal:
    """Parse a query. If `regex` is True, the query is a pattern. Raises `InvalidInput`.

    Words are separated by white space, and all must occur. `"some words"` is a phrase, which must occur within one
    line. `-word` and `-"some words"` must not occur. A quotation mark inside a word is an ordinary character.

    A pattern uses the syntax of RE2 and needs the extra `guards`. It is matched against each line of the text and
    against the path, without folding. A pattern that starts with `(?i)` ignores case.
    """
    patterns = tuple(check_path_pattern(pattern) for pattern in within)
    check_text(text)
    if regex:
        _compiled(text)
        return Literal(pattern=text, within=patterns)
    words, excluded = dict[str, None](), dict[str, None]()
    for minus, phrase, closing, behind, word in _TERM.findall(text):
        if word == "-":
            raise InvalidInput(
                "a single '-' excludes nothing; write it directly before a word, or search for \"-\" in quotes"
            )
        if not word and (not closing or behind or not phrase.strip() or "\n" in phrase):
            raise InvalidInput('a quoted phrase needs a word, no line break, and a closing " with a space behind it')
        (excluded if minus else words)[fold(word or phrase)] = None
    if not words:
        raise InvalidInput("the query has only excluded words; enter at least one word to find")
    if len(words) + len(excluded) > MAX_WORDS:
        raise InvalidInput(f"the query has more than {MAX_WORDS} words; put phrases in quotes")
    return Literal(tuple(words), tuple(excluded), within=patterns)


def search_literal(query: Literal, documents: Iterable[Document], *, limit: int | None = None) -> Results:
    """Search memories. Return at most `limit` hits, and the number of all matching memories.

    Hits are ordered by the time of the newest change, newest first, then by path. Each hit shows up to three lines: the
    lines with the most matching words, in the order of the text. Raises `InvalidInput` if a pattern takes too long.
    """
    end = time.monotonic() + PATTERN_SECONDS
    matching: list[tuple[Document, Counter[int]]] = []
    for document in documents:
        if query.within and not covers(query.within, document.path):
            continue
        counts = (
            _lines_with_words(query, document) if query.pattern is None else _lines_like(query.pattern, document, end)
        )
        if counts is not None:
            matching.append((document, counts))
    matching.sort(key=lambda found: (found[0].path, found[0].memory_id, found[0].version_id))
    matching.sort(key=lambda found: found[0].updated_at, reverse=True)
    return Results(tuple(_hit(query, *found) for found in matching[:limit]), len(matching))


def _lines_with_words(query: Literal, document: Document) -> Counter[int] | None:
    """Return how many words each line has; line 0 is the path. None if the memory does not match."""
    folded = fold(f"{document.path.removeprefix(ROOT)}\n{document.text}")
    if not all(word in folded for word in query.words) or any(word in folded for word in query.excluded):
        return None
    return Counter(line - 1 for word in query.words for line in lines_with(folded, word))


def _lines_like(text: str, document: Document, end: float) -> Counter[int] | None:
    """Return the lines that match a pattern; line 0 is the path. None if there are none."""
    pattern = _compiled(text)
    counts = Counter[int]()
    for number, row in enumerate([document.path.removeprefix(ROOT), *document.text.split("\n")]):
        if time.monotonic() > end:
            raise InvalidInput("the pattern takes too long; simplify it or search fewer paths")
        if pattern.search(row) is not None:
            counts[number] = 1
    return counts or None


def _hit(query: Literal, document: Document, counts: Counter[int]) -> Hit:
    def spans_of(row: str) -> list[Span]:
        if query.pattern is None:
            return _word_spans(query.words, row)
        spans = (match.span() for match in islice(_compiled(query.pattern).finditer(row), _MAX_SPANS))
        return united(span for span in spans if span[0] < span[1])

    in_text = [line for line in counts if line]  # line 0 is the path, not text
    best = sorted(sorted(in_text, key=lambda line: (-counts[line], line))[:SNIPPETS])
    rows = document.text.split("\n") if best else []
    shown = (snippet(line, rows[line - 1], spans_of(rows[line - 1])) for line in best)
    return document.hit(len(in_text), shown, spans_of(document.path.removeprefix(ROOT)))


def _word_spans(words: Sequence[str], row: str) -> list[Span]:
    """Positions of the words in a line, in order.

    A match is left out if it is too far behind the first match to be in the snippet.
    """
    folded = fold(row)
    first = min((at for at in map(folded.find, words) if at != -1), default=None)
    if first is None:
        return []
    pattern = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))))
    found = [match.span() for match in pattern.finditer(folded, first, first + _MAX_FOLDED * SNIPPET_CHARS)]
    if not row.isascii():
        origins = _origins(row, folded)
        found = [(origins[start][0], origins[end - 1][1]) for start, end in found] if origins else []
    return united(found)


def _origins(row: str, folded: str) -> list[Span]:
    """Map each character of the folded line to its span in the original line.

    The result is empty if the mapping is ambiguous.
    """
    clusters = list(row)
    if "".join(map(fold, row)) != folded:  # parts that can be folded separately: characters with those combined
        clusters = [""]
        for char in row:
            if unicodedata.combining(char) or fold(clusters[-1] + char) != fold(clusters[-1]) + fold(char):
                clusters[-1] += char
            else:
                clusters.append(char)
    origins: list[Span] = []
    at = 0
    for cluster in clusters:
        origins += [(at, at + len(cluster))] * len(fold(cluster))
        at += len(cluster)
    return origins if len(origins) == len(folded) else []


@lru_cache(maxsize=16)
def _compiled(pattern: str) -> Any:
    """Compile a pattern with RE2, which runs in linear time. Python's `re` can take exponential time."""
    try:
        import re2  # type: ignore[import-untyped, import-not-found, unused-ignore] # noqa: PLC0415 - an optional dependency that takes 20 ms to import
    except ImportError:
        raise InvalidInput(f"patterns need google-re2: {pip_install('guards')}") from None
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = bytes(error.args[0]).decode("utf-8", "replace")
        raise InvalidInput(f"invalid RE2 pattern: {reason}") from None
    if compiled.programsize > MAX_PROGRAM:
        raise InvalidInput("the pattern is too large; use fewer repetitions or smaller character classes")
    if compiled.search(b"") is not None:
        raise InvalidInput("the pattern matches empty text, so it matches every memory; require at least one character")
    return compiled
