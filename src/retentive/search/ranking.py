"""Ranking of search results: BM25 over whole memories, and for the best of them the best line and the best window.

Facts stand in lines and below headings, and chats in many short lines, so both units are scored: the line with its
headings, and 30 words around it. The weights were chosen on `benchmarks/search` (judged questions and long chats).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest
from math import log

from retentive.search.analysis import is_dense, normal, spans
from retentive.search.dates import dates
from retentive.search.index import Index, Rows
from retentive.search.query import Query, Term, Terms, terms_of
from retentive.search.results import SNIPPETS, Document, Hit, Results, Snippet, Span, snippet, united
from retentive.values.paths import ROOT

K1 = 1.2  # parameters of BM25
B = 0.75
LINE = 0.4  # weight of the best line; the score of the whole memory has weight 1
WINDOW = 0.4  # weight of the best window
WINDOW_WORDS = 30
FROM_HEADING = 0.8  # share of its weight that a term adds if it occurs only in a heading above
LONG_LINE = 60  # words; a line of this length gets half the score of a very short line
RESCORED = 100  # minimum number of the best memories whose lines and windows are scored
MAX_HEADING_CHARS = 100
_MAX_SPANS = 50
_DIGITS = 6  # decimal places to which scores are rounded before they are compared

Admit = Callable[[Document], bool]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics on which scores depend: number of memories, bytes of text, and the number of memories with each term.

    `counts` is keyed by the text of the term.
    """

    memories: int = 0
    size: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)

    def rarity(self, term: Term) -> float:
        """Return the inverse document frequency of a term."""
        count = self.counts.get(term.text, 0)
        return log(1 + (max(self.memories - count, 0) + 0.5) / (count + 0.5))


def statistics_of(index: Index, query: Query, counted: Admit | None = None) -> Statistics:
    """Return the statistics of an index for the terms of a query.

    With `counted`, only the documents for which it returns True are counted. This is necessary if a caller may not see
    all documents. If hidden documents were counted, the order of the results would reveal their words.
    """
    found = {term.text: index.counts(term).keys() for term in terms_of(query, index.languages).words}
    if counted is None:
        return Statistics(len(index.documents), index.size, {text: len(numbers) for text, numbers in found.items()})
    shown = {number for number, document in index.documents.items() if counted(document)}
    size = sum(len(index.documents[number].data) for number in shown)
    return Statistics(len(shown), size, {text: len(shown & numbers) for text, numbers in found.items()})


def search_index(
    index: Index,
    query: Query,
    *,
    limit: int | None = None,
    statistics: Statistics | None = None,
    admit: Admit | None = None,
    sees: Admit | None = None,
) -> Results:
    """Return the best documents, and the number of all matching documents.

    `admit` decides which documents can be found, and `sees` which documents the actor may see; None accepts all. If no
    document contains all phrases of the query, the words of the phrases are searched instead.
    """
    terms = terms_of(query, index.languages)
    counts = {term: index.counts(term) for term in terms.all}
    statistics = statistics or statistics_of(index, query)
    matching = _matching(index, query, terms, counts, admit)
    relaxed = not matching and bool(query.phrases)
    if relaxed:
        matching = _matching(index, query, terms, counts, admit, without_phrases=True)
    scores = _scores(index, terms, counts, statistics, matching)
    weights = [statistics.rarity(term) for term in terms.words]
    keep = len(scores) if limit is None else max(limit, RESCORED)
    best = nsmallest(keep, scores, key=lambda number: _order_of(index, scores, number))
    found = {number: _Lines(index.rows[number], weights) for number in best}
    for at, term in enumerate(terms.words):
        for number, position in index.places(term, list(found)):
            found[number].put(at, position)
    for number, lines in found.items():
        scores[number] += lines.score()
    best = sorted(found, key=lambda number: _order_of(index, scores, number))[:limit]
    hits = tuple(_hit(index, number, scores[number], found[number], terms.words) for number in best)
    return Results(hits, len(matching), unknown=_unknown(index, terms, counts, sees), relaxed=relaxed)


def _matching(
    index: Index,
    query: Query,
    terms: Terms,
    counts: Mapping[Term, Mapping[int, int]],
    admit: Admit | None,
    *,
    without_phrases: bool = False,
) -> set[int]:
    """Return the numbers of the documents that meet the conditions of the query."""

    found = set[int]().union(*(counts[term] for term in terms.words))
    for group in terms.required:
        found.intersection_update(*(counts[term] for term in group))
    for group in terms.excluded:
        found -= set[int].intersection(*(set(counts[term]) for term in group)) if group else set()
    wanted = [] if without_phrases else [_phrase_pattern(phrase) for phrase in query.phrases]
    unwanted = [_phrase_pattern(phrase) for phrase in query.excluded_phrases]
    if wanted or unwanted:
        texts = ((number, normal(index.documents[number].text).casefold()) for number in found)
        found = {
            number
            for number, text in texts
            if all(each.search(text) for each in wanted) and not any(each.search(text) for each in unwanted)
        }
    return found if admit is None else {number for number in found if admit(index.documents[number])}


def _phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Return the pattern that finds a phrase in folded text. It matches whole words within one line."""
    words = phrase.casefold().split()
    start = r"(?<!\w)" if words[0][0].isalnum() and not is_dense(words[0]) else ""
    end = r"(?!\w)" if words[-1][-1].isalnum() and not is_dense(words[-1][-1]) else ""
    return re.compile(start + r"[^\S\n]+".join(map(re.escape, words)) + end)


def _scores(
    index: Index,
    terms: Terms,
    counts: Mapping[Term, Mapping[int, int]],
    statistics: Statistics,
    matching: set[int],
) -> dict[int, float]:
    """Return the BM25 of each matching document."""
    slope = K1 * B * statistics.memories / max(statistics.size, 1)
    norms = {number: K1 * (1 - B) + slope * len(index.documents[number].data) for number in matching}
    scores = dict.fromkeys(matching, 0.0)
    for term in terms.words:
        rarity = statistics.rarity(term)
        for number, count in counts[term].items():
            if number in norms:
                scores[number] += rarity * count / (count + norms[number])
    return scores


def _order_of(index: Index, scores: Mapping[int, float], number: int) -> tuple[float, float, str]:
    document = index.documents[number]
    return order(scores[number], document.updated_at, document.path)


def order(score: float, updated_at: datetime, path: str) -> tuple[float, float, str]:
    """Return the sort key of a result: the highest score first, then the newest change, then the path."""
    return -round(score, _DIGITS), -updated_at.timestamp(), path


class _Lines:
    """The lines of one document with terms of the query, from the positions of the terms.

    A term is its number in the query, by which `weights` has its weight.
    """

    def __init__(self, rows: Rows, weights: Sequence[float]) -> None:
        self._rows, self._weights = rows, weights
        self.terms: dict[int, set[int]] = defaultdict(set)
        self._windows: dict[int, Counter[int]] = defaultdict(Counter)

    def put(self, term: int, position: int) -> None:
        starts = self._rows.starts
        if position < starts[-1]:  # what is behind the text is the path and the headings again
            self.terms[bisect_right(starts, position) - 1].add(term)
            half = position * 2 // WINDOW_WORDS
            for window in (half - 1, half) if half else (0,):  # each window begins in the middle of the one before
                self._windows[window][term] += 1

    def above(self, row: int) -> list[int]:
        """Return the headings above a line, outermost first."""
        found: list[int] = []
        level = 7
        for at in reversed([each for each in self._rows.headings if each < row]):
            if self._rows.headings[at] < level:
                found.append(at)
                level = self._rows.headings[at]
        return found[::-1]

    def line_score(self, row: int) -> float:
        starts, here = self._rows.starts, self.terms[row]
        score = sum(map(self._weights.__getitem__, here)) + self._from_headings(row, here)
        return score / (1 + (starts[row + 1] - starts[row]) / LONG_LINE)

    def _from_headings(self, row: int, here: Iterable[int]) -> float:
        if not self._rows.headings:
            return 0.0
        headings = set[int]().union(*(self.terms.get(at, ()) for at in self.above(row)))
        return FROM_HEADING * sum(map(self._weights.__getitem__, headings.difference(here)))

    def score(self) -> float:
        """Return what the best line and the best window add to the score of the document."""
        best_line = max(map(self.line_score, list(self.terms)), default=0.0)
        return LINE * best_line + WINDOW * max(map(self._window_score, self._windows), default=0.0)

    def _window_score(self, window: int) -> float:
        here = self._windows[window]
        middle = bisect_right(self._rows.starts, (window + 1) * WINDOW_WORDS // 2) - 1
        score = sum(self._weights[term] * count / (count + K1) for term, count in here.items())
        return score + self._from_headings(middle, here) / (1 + K1)


def _marks(row: str, terms: Iterable[Term], index: Index) -> list[Span]:
    """Return the positions of the terms of a query in a line."""
    wanted = {token for term in terms for token in term.tokens}
    characters = tuple(term.text for term in terms if term.is_character)
    found = [(date.start, date.end) for date in dates(row) if not wanted.isdisjoint(date.tokens)]
    for word, start, end in spans(row):
        text = normal(word)
        if (characters and text.startswith(characters)) or not wanted.isdisjoint(index.tokens(text)):
            found.append((start, end))
    return united(sorted(found)[:_MAX_SPANS])


def _hit(index: Index, number: int, score: float, lines: _Lines, terms: Sequence[Term]) -> Hit:
    document = index.documents[number]
    in_path = _marks(document.path.removeprefix(ROOT), terms, index)
    best = sorted(lines.terms, key=lambda row: (-lines.line_score(row), row))[:SNIPPETS]
    rows = document.text.split("\n") if best else []
    snippets: list[Snippet] = []
    for row in sorted(best):
        headings = tuple(rows[at].lstrip("#").strip(" \t#\r")[:MAX_HEADING_CHARS] for at in lines.above(row))
        snippets.append(snippet(row + 1, rows[row], _marks(rows[row], terms, index), headings))
    return Hit(
        document.path, document.memory_id, document.version_id, document.updated_at, len(lines.terms), tuple(snippets),
        tuple((start + len(ROOT), end + len(ROOT)) for start, end in in_path), score=round(score, 4),
        actor=document.actor,
    )  # fmt: skip


def _unknown(
    index: Index, terms: Terms, counts: Mapping[Term, Mapping[int, int]], sees: Admit | None
) -> tuple[str, ...]:
    """Return the words of the query that occur in no document that the actor may see."""
    groups: dict[str, list[Term]] = {}
    for term in terms.words:
        groups.setdefault(term.shown, []).append(term)
    return tuple(
        shown
        for shown, group in groups.items()
        if not any(sees is None or sees(index.documents[number]) for term in group for number in counts[term])
    )
