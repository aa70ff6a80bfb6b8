"""Ranking of search results: BM25 over whole memories, and for the best of them the best line and the best window.

Facts stand in lines and below headings, and chats in many short lines, so both units are scored: the line with its
headings, and 30 words around it. The weights were chosen on `benchmarks/search` (judged questions and long chats).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from itertools import chain
from math import log, log2
from operator import itemgetter
from typing import NamedTuple, TypeAlias, TypedDict, Unpack

from retentive.search.analysis import is_dense, normal, spans
from retentive.search.index import Index, Rows
from retentive.search.languages import dates
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
MAX_OCCURRENCES = 15_000  # of the words of a query, which take some 15 ms; if there are more, the rarer ones count
MAX_HEADING_CHARS = 100
_MAX_SPANS = 50
_DIGITS = 6  # decimal places to which scores are rounded before they are compared

Admit: TypeAlias = Callable[[Document], bool]


class Which(TypedDict, total=False):
    """The documents that a search may find, those that count for the scores, and those that the actor may see."""

    admit: Admit | None
    counted: Admit | None
    sees: Admit | None


class Scored(NamedTuple):
    """Scores of the best documents by their numbers, and of their lines by the positions of the lines.

    `order` has the numbers of these documents, best first, and `words` the terms that were searched. `total` counts all
    matching documents.
    """

    scores: Mapping[int, float]
    lines: Mapping[int, Mapping[int, float]]
    order: Sequence[int]
    words: Sequence[Term]
    total: int
    unknown: tuple[str, ...]
    relaxed: bool


def search_index(index: Index, query: Query, *, limit: int | None = None, **which: Unpack[Which]) -> Results:
    """Return the best documents, and the number of all matching documents."""
    found = scored(index, query, limit=limit, **which)
    hits = [_hit(index, each, found.scores[each], found.lines[each], found.words) for each in found.order[:limit]]
    return Results(tuple(hits), found.total, unknown=found.unknown, relaxed=found.relaxed)


def scored(
    index: Index,
    query: Query,
    *,
    limit: int | None = None,
    is_coarse: bool = False,
    **which: Unpack[Which],
) -> Scored:
    """Score the best documents, at least `limit` of them, and their lines.

    `admit` decides which documents can be found, and `sees` which documents the actor may see; None accepts all. With
    `counted`, scores depend only on the documents for which it returns True. This is necessary if a caller may not see
    all documents: if hidden documents were counted, the order of the results would reveal their words. If no document
    contains all phrases of the query, the words of the phrases are searched instead.

    With `is_coarse`, sizes and numbers of documents count as powers of four, so that a change elsewhere in the store
    hardly ever changes a score.
    """
    admit, counted, sees = which.get("admit"), which.get("counted"), which.get("sees")
    sized = _power_of_four if is_coarse else float
    # The terms to find, and their places.
    every = terms_in(query.text, index.languages)
    left_out = function_words(every, index.languages)
    required, excluded = (
        [terms_in(text, index.languages) for text in texts] for texts in (query.required, query.excluded)
    )
    content = {*(term for term in every if term.text not in left_out)} or {*every}
    words = [term for term in every if term in content.union(*required)]
    if counted is None:  # otherwise, hidden documents would count
        words = _frequent_left_out(index, words)
    places = {term: index.places(term) for term in {*words, *chain(*required, *excluded)}}
    counts = {term: Counter(map(itemgetter(0), found)) for term, found in places.items()}

    # The documents that match.
    found = set[int]().union(*(counts[term] for term in words))
    for group in required:
        found.intersection_update(*(counts[term] for term in group))
    for group in excluded:
        found -= set.intersection(*(set(counts[term]) for term in group)) if group else set()
    matching = [number for number in found if admit is None or admit(index.documents[number])]
    having, relaxed = matching, False
    if query.phrases or query.excluded_phrases:
        phrases, no_phrases = (
            [_phrase_pattern(text) for text in texts] for texts in (query.phrases, query.excluded_phrases)
        )
        texts = {number: normal(index.documents[number].text).casefold() for number in matching}
        matching = [each for each in matching if not any(pattern.search(texts[each]) for pattern in no_phrases)]
        having = [each for each in matching if all(pattern.search(texts[each]) for pattern in phrases)]
        relaxed = not having and bool(phrases)
        having = matching if relaxed else having

    # The best of them by the score of the whole document, and then with the best line and window of each.
    shown = index.documents if counted is None else {n: each for n, each in index.documents.items() if counted(each)}
    memories = max(sized(len(shown)), 1)
    rarity = {term: _rarity(memories, min(len(shown.keys() & counts[term].keys()), memories)) for term in words}
    size = index.size if shown is index.documents else sum(len(each.data) for each in shown.values())
    slope = K1 * B / max(sized(size / max(len(shown), 1)), 1)
    norms = {number: K1 * (1 - B) + slope * sized(len(index.documents[number].data)) for number in having}
    scores = _scores(norms, [(counts[term], rarity[term]) for term in words])

    def rank(number: int) -> tuple[float, float, str]:
        document = index.documents[number]
        return order(scores[number], document.updated_at, document.path)

    keep = len(scores) if limit is None else max(limit, RESCORED)
    least = min(nlargest(keep, scores.values()), default=0.0) - 10**-_DIGITS  # equal scores are ordered below
    best = sorted((each for each in having if scores[each] >= least), key=rank)
    places_in: dict[int, list[tuple[int, int]]] = {number: [] for number in best[:keep]}
    for at, term in enumerate(words):
        for number, position in places[term]:
            if number in places_in:
                places_in[number].append((position, at))
    lines = {}
    for number, occurrences in places_in.items():
        added, lines[number] = _scored_lines(index.rows[number], occurrences, [*rarity.values()])
        scores[number] += added
    known = {term.shown for term in words if any(sees is None or sees(index.documents[each]) for each in counts[term])}
    unknown = tuple(dict.fromkeys(term.shown for term in words if term.shown not in known))
    ranked = sorted(lines, key=rank)
    return Scored(scores, lines, ranked, words, len(having), unknown, relaxed)


def _frequent_left_out(index: Index, words: Sequence[Term]) -> list[Term]:
    """Return the terms without the most frequent ones, if a large store has too many occurrences of all together."""
    counts = {term: index.count(term) for term in words}
    kept, occurrences = set[Term](), 0
    for term in sorted(words, key=counts.__getitem__):
        if not occurrences or occurrences + counts[term] <= MAX_OCCURRENCES:
            kept.add(term)
            occurrences += counts[term]
    return [term for term in words if term in kept]


def _phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Return the pattern that finds a phrase in folded text. It matches whole words within one line."""
    folded = phrase.casefold().strip()
    first, *others = map(re.escape, folded.split())
    start = rf"(?<!\w{first})" if folded[0].isalnum() and not is_dense(folded) else ""  # behind a literal: it is faster
    end = r"(?!\w)" if folded[-1].isalnum() and not is_dense(folded[-1]) else ""
    return re.compile(r"[^\S\n]+".join([first + start, *others]) + end)


def _power_of_four(size: float) -> float:
    return 4.0 ** round(log2(size) / 2) if size else 0.0


def _rarity(memories: float, having: float) -> float:
    """Return the inverse document frequency of a term."""
    return log(1 + (memories - having + 0.5) / (having + 0.5))


def _scores(norms: Mapping[int, float], terms: Iterable[tuple[Counter[int], float]]) -> dict[int, float]:
    """Return the BM25 of documents. Words of the path and of headings count more than once."""
    scores = dict.fromkeys(norms, 0.0)
    for counts, weight in terms:
        for number, count in counts.items():
            if number in norms:
                scores[number] += weight * count / (count + norms[number])
    return scores


def order(score: float, updated_at: datetime, path: str) -> tuple[float, float, str]:
    """Return the sort key of a result: the highest score first, then the newest change, then the path."""
    return -round(score, _DIGITS), -updated_at.timestamp(), path


def _scored_lines(
    rows: Rows, places: Iterable[tuple[int, int]], weights: Sequence[float]
) -> tuple[float, dict[int, float]]:
    """Return what the best line and the best window add to the score of a document, and the score of each line.

    `places` has the positions of the terms, each with the number of its term; `weights` has the weight of each term.
    """
    starts, headings = rows.starts, list(rows.headings)
    by_row, windows = defaultdict[int, set[int]](set), defaultdict[int, Counter[int]](Counter)
    for position, term in places:
        if position < starts[-1]:  # what is behind the text is the path and the headings again
            by_row[bisect_right(starts, position) - 1].add(term)
            half = position * 2 // WINDOW_WORDS
            for window in (half - 1, half) if half else (0,):  # each begins in the middle of the one before
                windows[window][term] += 1
    above_in: dict[int, set[int]] = {}  # terms in the headings above, by the number of headings before a line

    def from_headings(row: int, here: Iterable[int]) -> float:
        section = bisect_left(headings, row)
        if section not in above_in:
            above_in[section] = set().union(*(by_row.get(at, ()) for at in headings_above(rows, row)))
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


def headings_above(rows: Rows, row: int) -> list[int]:
    """Return the headings above a line, outermost first."""
    found: list[int] = []
    level = 7
    for at in reversed([each for each in rows.headings if each < row]):
        if rows.headings[at] < level:
            found.append(at)
            level = rows.headings[at]
    return found[::-1]


def heading(row: str) -> str:
    """Return the text of the line of a heading, cut after some characters."""
    return row.lstrip("#").strip(" \t#\r")[:MAX_HEADING_CHARS]


def _marks(row: str, terms: Iterable[Term], index: Index) -> list[Span]:
    """Return the positions of the terms of a query in a line."""
    wanted = {token for term in terms for token in term.tokens}
    characters = tuple(term.text for term in terms if term.is_character)
    words = [(normal(word), start, end) for word, start, end in spans(row)]
    found = [
        (start, end)
        for word, start, end in words
        if (characters and word.startswith(characters)) or not wanted.isdisjoint(index.tokens(word))
    ]
    for first, last, tokens in dates([word for word, _, _ in words]):
        found += [] if wanted.isdisjoint(tokens) else [(words[first][1], words[last][2])]
    return united(sorted(found)[:_MAX_SPANS])


def _hit(index: Index, number: int, score: float, lines: Mapping[int, float], terms: Sequence[Term]) -> Hit:
    document = index.documents[number]
    in_path = _marks(document.path.removeprefix(ROOT), terms, index)
    rows = document.text.split("\n") if lines else []
    snippets: list[Snippet] = []
    for row in sorted(sorted(lines, key=lambda row: (-lines[row], row))[:SNIPPETS]):
        above = headings_above(index.rows[number], row)
        headings = tuple(heading(rows[at]) for at in above)
        snippets.append(snippet(row + 1, rows[row], _marks(rows[row], terms, index), headings))
    return document.hit(len(lines), snippets, in_path, round(score, 4))
