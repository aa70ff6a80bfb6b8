"""Lines of a memory that contain words of the query: their scores, and snippets with the positions of the matches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from retentive.search.analysis import normal, spans, surfaces
from retentive.search.dates import dates
from retentive.search.results import SNIPPET_CHARS, SNIPPETS, Snippet, Span, snippet, united

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t#]*\r?\Z", re.DOTALL)
_MARK = re.compile(r"#(?<![^\n]#)")  # a `#` at the start of a line
FROM_HEADING = 0.8  # share of its weight that a term adds if it occurs only in a heading above the line
LONG_LINE = 400  # characters; a line of this length gets half the score of a very short line
_MAX_SPANS = 50
MAX_HEADING_CHARS = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """Search terms to find in the lines of a memory.

    Each term has a number. `by_surface` maps each word as written to the numbers of the matching terms. `weights` has
    the weight of each term by its number.
    """

    by_surface: Mapping[str, tuple[int, ...]]
    weights: Sequence[float]
    has_dates: bool
    needles: tuple[str, ...]
    """Short texts for a fast search: each surface, except dates, contains one of them."""

    @classmethod
    def of(cls, by_surface: Mapping[str, tuple[int, ...]], weights: Sequence[float]) -> Wanted:
        """Return a `Wanted` with these two fields, and compute the other fields from them."""
        needles: list[str] = []
        for word in sorted((each for each in by_surface if each[0] != "@"), key=len):
            if not any(map(word.__contains__, needles)):
                needles.append(word)
        return cls(by_surface, weights, any(each[0] == "@" for each in by_surface), tuple(needles))

    def rows(self, text: str) -> Iterable[tuple[int, str, bool]]:
        """Return the lines that may contain a term, and all headings.

        Each line is given as its number, its text, and True if it may contain a term.
        """
        if normal(text) is text:
            return self._rows_with_words(text)
        return ((number, row, True) for number, row in enumerate(text.split("\n"), 1))

    def _rows_with_words(self, text: str) -> Iterator[tuple[int, str, bool]]:
        number, counted = 1, 0
        starts = {start for needle in self.needles for start in _starts(text, needle)}
        if self.has_dates:
            starts.update(text.rfind("\n", 0, date.start) + 1 for date in dates(text) if self._has(date.surfaces))
        headings = {match.start() for match in _MARK.finditer(text)} if starts and "#" in text else set[int]()
        for start in sorted(starts | headings):
            number += text.count("\n", counted, start)
            counted = start
            end = text.find("\n", start)
            yield number, text[start:] if end < 0 else text[start:end], start in starts

    def _has(self, surfaces: Iterable[str]) -> bool:
        return not self.by_surface.keys().isdisjoint(surfaces)

    def in_row(self, row: str) -> set[int]:
        """Return the terms that occur in a line, each as its number in `by_surface`."""
        known = self.by_surface
        found = {number for surface in surfaces(row) if surface in known for number in known[surface]}
        if self.has_dates:
            found.update(number for date in dates(row) for each in date.surfaces for number in known.get(each, ()))
        return found

    def spans(self, row: str) -> list[Span]:
        """Return the positions of the terms in a line. Overlapping positions are merged."""
        known = self.by_surface
        found = [(start, end) for word, start, end in spans(row) if word in known or normal(word) in known]
        if self.has_dates:
            found += [(date.start, date.end) for date in dates(row) if self._has(date.surfaces)]
        return united(sorted(found)[:_MAX_SPANS])


def _starts(text: str, needle: str) -> Iterator[int]:
    """Yield the start position of each line that contains `needle`."""
    at = text.find(needle)
    while at >= 0:
        yield text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        at = text.find(needle, end + 1) if end >= 0 else -1


@dataclass(frozen=True, slots=True)
class Line:
    """A matching line: its number (counted from 1), its score, and the Markdown headings above it."""

    number: int
    score: float
    headings: tuple[str, ...]


def matching_lines(text: str, wanted: Wanted) -> list[Line]:
    """Return all lines that contain a term of the query, in the order of the text."""
    found: list[Line] = []
    headings: list[tuple[int, str, set[int]]] = []
    above: set[int] = set()
    weights = wanted.weights
    for number, row, may_match in wanted.rows(text):
        if not row:
            continue
        terms = wanted.in_row(row) if may_match else set()
        heading = _HEADING.match(row) if row[0] == "#" else None
        if terms:
            score = sum(map(weights.__getitem__, terms))
            if above:
                score += FROM_HEADING * sum(map(weights.__getitem__, above - terms))
            names = tuple(name for _, name, _ in headings)
            found.append(Line(number, score / (1 + len(row) / LONG_LINE), names))
        if heading:
            level = len(heading[1])
            headings = [each for each in headings if each[0] < level]
            headings.append((level, heading[2][:MAX_HEADING_CHARS], terms))
            above = set().union(*(each[2] for each in headings))
    return found


def best_score(lines: Sequence[Line]) -> float:
    """Return the score of the best line; 0 if there are no lines."""
    return max((line.score for line in lines), default=0.0)


def snippets_of(text: str, lines: Sequence[Line], wanted: Wanted) -> tuple[Snippet, ...]:
    """Return snippets of the best lines, in the order of the text."""
    best = sorted(nsmallest(SNIPPETS, lines, key=lambda line: (-line.score, line.number)), key=lambda line: line.number)
    rows = text.split("\n")
    return tuple(
        snippet(line.number, rows[line.number - 1], wanted.spans(rows[line.number - 1]), SNIPPET_CHARS, line.headings)
        for line in best
    )
