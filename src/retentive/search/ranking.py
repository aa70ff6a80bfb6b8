"""Ranking of search results: BM25 over whole memories, and for the best of them the best line and the best window.

Facts stand in lines and below headings, and chats in many short lines, so both units are scored: the line with its
headings, and 30 words around it. The weights were chosen on `benchmarks/search` (judged questions and long chats).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from itertools import chain
from math import log
from typing import TypeAlias

from retentive.search.analysis import is_dense, normal, spans
from retentive.search.dates import dates
from retentive.search.index import Index, Rows
from retentive.search.query import Query, Term, function_words, terms_in
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
MAX_OCCURRENCES = 25_000  # of the words of a query, which take some 30 ms; if there are more, the rarer ones count
MAX_HEADING_CHARS = 100
_MAX_SPANS = 50
_DIGITS = 6  # decimal places to which scores are rounded before they are compared

Admit: TypeAlias = Callable[[Document], bool]
PlacesOfTerms: TypeAlias = Mapping[Term, Mapping[int, Sequence[int]]]
"""Positions of each term in each document that has it."""


def search_index(
    index: Index,
    query: Query,
    *,
    limit: int | None = None,
    counted: Admit | None = None,
    admit: Admit | None = None,
    sees: Admit | None = None,
) -> Results:
    """Return the best documents, and the number of all matching documents.

    `admit` decides which documents can be found, and `sees` which documents the actor may see; None accepts all. With
    `counted`, scores depend only on the documents for which it returns True. This is necessary if a caller may not see
    all documents: if hidden documents were counted, the order of the results would reveal their words. If no document
    contains all phrases of the query, the words of the phrases are searched instead.
    """
    every = terms_in(query.text, index.languages)
    left_out = function_words(every, index.languages)
    required, excluded, phrases, no_phrases = (
        [terms_in(text, index.languages) for text in texts]
        for texts in (query.required, query.excluded, query.phrases, query.excluded_phrases)
    )
    content = [term for term in every if term.text not in left_out] or every
    words = [term for term in every if term in {*content, *chain(*required)}]
    if counted is None:  # otherwise, hidden documents would count
        words = _frequent_left_out(index, words)
    in_phrases = [term for term in chain(*phrases, *no_phrases) if term.text not in left_out]
    places = {term: index.places(term) for term in {*words, *in_phrases, *chain(*required, *excluded)}}

    found = set[int]().union(*(places[term] for term in words))
    for group in required:
        found.intersection_update(*(places[term].keys() for term in group))
    for group in excluded:
        found -= set[int].intersection(*(set(places[term]) for term in group)) if group else set()
    matching = [number for number in found if admit is None or admit(index.documents[number])]
    for text, group in zip(query.excluded_phrases, no_phrases, strict=True):
        pattern = _phrase_pattern(text)
        matching = [number for number in matching if not _has_phrase(index, number, pattern, group, places)]
    having = matching
    for text, group in zip(query.phrases, phrases, strict=True):
        pattern = _phrase_pattern(text)
        having = [number for number in having if _has_phrase(index, number, pattern, group, places)]
    relaxed = not having and bool(query.phrases)
    having = matching if relaxed else having

    shown = {number for number, document in index.documents.items() if counted is None or counted(document)}
    rarity = {term: _rarity(len(shown), len(shown & places[term].keys())) for term in words}
    scores = _scores(index, having, places, rarity, shown)
    keep = len(scores) if limit is None else max(limit, RESCORED)
    least = min(nlargest(keep, scores.values()), default=0.0) - 10**-_DIGITS  # equal scores are ordered below
    best = sorted(
        (number for number in having if scores[number] >= least), key=lambda each: _order(index, scores, each)
    )
    lines = {}
    for number in best[:keep]:
        added, lines[number] = _scored_lines(
            index.rows[number], [places[term].get(number, ()) for term in words], [rarity[term] for term in words]
        )
        scores[number] += added
    best = sorted(lines, key=lambda number: _order(index, scores, number))[:limit]
    hits = tuple(_hit(index, number, scores[number], lines[number], words) for number in best)
    seen = {term: any(sees is None or sees(index.documents[each]) for each in places[term]) for term in words}
    known = {term.shown for term in words if seen[term]}
    unknown = tuple(dict.fromkeys(term.shown for term in words if term.shown not in known))
    return Results(hits, len(having), unknown=unknown, relaxed=relaxed)


def _frequent_left_out(index: Index, words: Sequence[Term]) -> list[Term]:
    """Return the terms without the most frequent ones, if a large store has too many occurrences of all together."""
    counts = {term: index.count(term) for term in words}
    kept, occurrences = set[Term](), 0
    for term in sorted(words, key=counts.__getitem__):
        if not occurrences or occurrences + counts[term] <= MAX_OCCURRENCES:
            kept.add(term)
            occurrences += counts[term]
    return [term for term in words if term in kept]


def _has_phrase(
    index: Index, number: int, pattern: re.Pattern[str], terms: Iterable[Term], places: PlacesOfTerms
) -> bool:
    """Return whether a document has a phrase. Only the lines with all its `terms` are folded and searched."""
    starts, rows = index.rows[number].starts, set(range(len(index.rows[number].starts) - 1))
    for term in terms:
        if term in places:  # function words are in most lines
            rows &= {bisect_right(starts, at) - 1 for at in places[term].get(number, ())}
    lines = index.documents[number].text.split("\n") if rows else []
    return any(pattern.search(normal(lines[row]).casefold()) for row in rows)


def _phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Return the pattern that finds a phrase in folded text. It matches whole words within one line."""
    folded = phrase.casefold().strip()
    first, *others = map(re.escape, folded.split())
    start = rf"(?<!\w{first})" if folded[0].isalnum() and not is_dense(folded) else ""  # behind a literal: it is faster
    end = r"(?!\w)" if folded[-1].isalnum() and not is_dense(folded[-1]) else ""
    return re.compile(r"[^\S\n]+".join([first + start, *others]) + end)


def _rarity(memories: int, having: int) -> float:
    """Return the inverse document frequency of a term."""
    return log(1 + (memories - having + 0.5) / (having + 0.5))


def _scores(
    index: Index, numbers: Iterable[int], places: PlacesOfTerms, rarity: Mapping[Term, float], shown: Collection[int]
) -> dict[int, float]:
    """Return the BM25 of documents. Words of the path and of headings count more than once."""
    size = index.size if len(shown) == len(index.documents) else sum(len(index.documents[each].data) for each in shown)
    slope = K1 * B * len(shown) / max(size, 1)
    norms = {number: K1 * (1 - B) + slope * len(index.documents[number].data) for number in numbers}
    scores = dict.fromkeys(norms, 0.0)
    for term, weight in rarity.items():
        for number, positions in places[term].items():
            if number in norms:
                scores[number] += weight * len(positions) / (len(positions) + norms[number])
    return scores


def _order(index: Index, scores: Mapping[int, float], number: int) -> tuple[float, float, str]:
    document = index.documents[number]
    return order(scores[number], document.updated_at, document.path)


def order(score: float, updated_at: datetime, path: str) -> tuple[float, float, str]:
    """Return the sort key of a result: the highest score first, then the newest change, then the path."""
    return -round(score, _DIGITS), -updated_at.timestamp(), path


def _scored_lines(
    rows: Rows, found: Sequence[Sequence[int]], weights: Sequence[float]
) -> tuple[float, dict[int, float]]:
    """Return what the best line and the best window add to the score of a document, and the score of each line.

    `found` has the positions of each term in the document, and `weights` the weight of each term.
    """
    starts = rows.starts
    by_row, windows = defaultdict[int, set[int]](set), defaultdict[int, Counter[int]](Counter)
    for term, positions in enumerate(found):
        for position in positions:
            if position < starts[-1]:  # what is behind the text is the path and the headings again
                by_row[bisect_right(starts, position) - 1].add(term)
                half = position * 2 // WINDOW_WORDS
                for window in (half - 1, half) if half else (0,):  # each begins in the middle of the one before
                    windows[window][term] += 1

    headings = list(rows.headings)
    above_in: dict[int, set[int]] = {}  # terms in the headings above, by the number of headings before a line

    def from_headings(row: int, here: Iterable[int]) -> float:
        section = bisect_left(headings, row)
        if section not in above_in:
            above_in[section] = set().union(*(by_row.get(at, ()) for at in _headings_above(rows, row)))
        return FROM_HEADING * sum(weights[term] for term in above_in[section].difference(here))

    lines = {
        row: (sum(weights[term] for term in here) + from_headings(row, here))
        / (1 + (starts[row + 1] - starts[row]) / LONG_LINE)
        for row, here in by_row.items()
    }
    best_window = 0.0
    for window, here in windows.items():
        middle = bisect_right(starts, (window + 1) * WINDOW_WORDS // 2) - 1
        score = sum(weights[term] * count / (count + K1) for term, count in here.items())
        best_window = max(best_window, score + from_headings(middle, here) / (1 + K1))
    return LINE * max(lines.values(), default=0.0) + WINDOW * best_window, lines


def _headings_above(rows: Rows, row: int) -> list[int]:
    """Return the headings above a line, outermost first."""
    found: list[int] = []
    level = 7
    for at in reversed([each for each in rows.headings if each < row]):
        if rows.headings[at] < level:
            found.append(at)
            level = rows.headings[at]
    return found[::-1]


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


def _hit(index: Index, number: int, score: float, lines: Mapping[int, float], terms: Sequence[Term]) -> Hit:
    document = index.documents[number]
    in_path = _marks(document.path.removeprefix(ROOT), terms, index)
    rows = document.text.split("\n") if lines else []
    snippets: list[Snippet] = []
    for row in sorted(sorted(lines, key=lambda row: (-lines[row], row))[:SNIPPETS]):
        above = _headings_above(index.rows[number], row)
        headings = tuple(rows[at].lstrip("#").strip(" \t#\r")[:MAX_HEADING_CHARS] for at in above)
        snippets.append(snippet(row + 1, rows[row], _marks(rows[row], terms, index), headings))
    return Hit(
        document.path, document.memory_id, document.version_id, document.updated_at, len(lines), tuple(snippets),
        tuple((start + len(ROOT), end + len(ROOT)) for start, end in in_path), score=round(score, 4),
        actor=document.actor,
    )  # fmt: skip
