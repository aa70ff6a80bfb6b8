"""Ranking of search results: BM25 over whole memories. For the best of them, the score of the best line is added.

Memories are scored in the order of their upper bounds, highest first, until no other memory can be among the best. The
bounds only save time: the result is the same as if all memories were scored.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from heapq import nlargest
from math import log

from retentive.search.analysis import is_dense, normal
from retentive.search.bounds import Bounds
from retentive.search.lines import Line, Wanted, best_score, matching_lines, snippets_of
from retentive.search.near import near_words
from retentive.search.postings import Index, Occurrences
from retentive.search.query import Query
from retentive.search.results import Document, Hit, Results
from retentive.search.terms import Term, Terms
from retentive.values.paths import ROOT

LINE = 0.5  # weight of the score of the best line; the score of the whole memory has weight 1
RESCORED = 20  # minimum number of the best memories whose lines are scored
_DIGITS = 6  # decimal places to which scores are rounded before they are compared
TIE = 1e-6  # scores that differ by less than this count as equal
_MANY = 200  # up to this number of memories are sorted without a preselection
_FIRST_STEP = 200  # memories that are scored in the first step

Admit = Callable[[Document], bool]


@dataclass(frozen=True, slots=True)
class Doubts:
    """Rule for documents that may be hidden from an actor.

    `is_doubted` selects the documents that need a decision. For each of these documents, `shows` decides whether it is
    shown. The result of `is_doubted` depends only on `key` and the document, so an index can cache this result.
    """

    key: Hashable
    is_doubted: Admit
    shows: Admit


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics on which scores depend: number of memories, bytes of text, and the number of memories with each term.

    They may cover several stores. `counts` is keyed by the text of the term.
    """

    memories: int = 0
    size: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Statistics) -> Statistics:
        """Return the statistics of both collections together."""
        texts = self.counts.keys() | other.counts.keys()
        counts = {text: self.counts.get(text, 0) + other.counts.get(text, 0) for text in texts}
        return Statistics(self.memories + other.memories, self.size + other.size, counts)

    def rarity(self, term: Term) -> float:
        """Return the inverse document frequency of a term."""
        count = self.counts.get(term.text, 0)
        return log(1 + (max(self.memories - count, 0) + 0.5) / (count + 0.5))


def statistics_of(index: Index, terms: Terms, counts_too: Admit | None = None) -> Statistics:
    """Return the statistics of an index for the terms of a query.

    With `counts_too`, only the documents for which it returns True are counted. This is necessary if a caller may
    not see all documents. If hidden documents were counted, the order of the results would reveal their words.
    """
    if counts_too is None:
        counts = {term.text: index.occurrences(term).memories for term in terms.words}
        return Statistics(index.memories, index.size, counts)
    numbers = {number for number, each in enumerate(index.documents) if each is not None and counts_too(each)}
    counts = {term.text: sum(map(numbers.__contains__, index.occurrences(term).numbers)) for term in terms.words}
    return Statistics(len(numbers), sum(index.sizes[number] for number in numbers), counts)


class Ranking:
    """One ranked search in one index.

    `admit` decides which documents can be found, and `sees` which documents the actor may see; None accepts all.
    `hidden` has the numbers of more documents to leave out; for a few documents, this is faster than `admit`.

    `near` is given if the index contains only the words of the query. It is a function that takes words, and returns
    an index of similar words.
    """

    def __init__(
        self,
        index: Index,
        terms: Terms,
        query: Query,
        *,
        statistics: Statistics | None,
        admit: Admit | None,
        sees: Admit | None,
        near: Callable[[Iterable[str]], Index] | None = None,
        hidden: Iterable[int] = (),
    ) -> None:
        self._index, self._terms, self._query = index, terms, query
        self._statistics = statistics or statistics_of(index, terms)
        self._found = {term: index.occurrences(term) for term in terms.all}
        self._admit, self._visible, self._near = admit, sees, near
        self._allowed: set[int] | None = None  # None if all memories are allowed
        flat, slope = index.norms(self._statistics.memories, self._statistics.size)
        self._weighted = [(self._found[term], self._statistics.rarity(term)) for term in terms.words]
        self._weighted.sort(key=lambda each: each[1], reverse=True)  # rarest first

        def most(found: Occurrences, rarity: float) -> Callable[[int], float]:
            return lambda count: rarity * found.most(count, flat, slope)

        self._bounds = Bounds([(found, most(found, rarity)) for found, rarity in self._weighted], len(index.sizes))
        for number in hidden:
            self._bounds.levels[number] = 0

    def results(self, limit: int | None) -> Results:
        """Return the best memories and the number of all matching memories.

        If no memory contains all phrases of the query, the words of the phrases are searched instead.
        """
        total = self._select(self._query.phrases)
        relaxed = not total and bool(self._query.phrases)
        if relaxed:
            total = self._select(())
        wanted = self._wanted()
        best = self._rescored(self._best(limit), wanted, limit)
        hits = tuple(self._hit(score, document, lines, wanted) for score, document, lines in best)
        return Results(hits, total, unknown=self._unknown(), relaxed=relaxed)

    # -- conditions ---------------------------------------------------------------------------------------------------

    def _select(self, phrases: tuple[str, ...]) -> int:
        """Apply the conditions of the query. Return the number of matching memories."""
        allowed = self._conditions(phrases)
        if allowed is None and self._admit is None:
            self._allowed = None
            return self._bounds.matching
        found = self._any() if allowed is None else allowed & self._any()
        self._allowed = found if self._admit is None else set(filter(self._admits, found))
        return len(self._allowed)

    def _conditions(self, phrases: tuple[str, ...]) -> set[int] | None:
        """Numbers of the memories that meet the conditions on required and excluded words; None if all memories do."""
        allowed: set[int] | None = None
        groups = [*self._terms.required, *(self._terms.phrase_words if phrases else ())]
        for having in map(self._with_all, groups):
            allowed = having if allowed is None else allowed & having
        if phrases and allowed:
            allowed = self._verified(allowed, self._query.phrases)
        excluded = set[int]().union(*map(self._with_all, self._terms.excluded))
        for group, phrase in zip(self._terms.excluded_phrase_words, self._query.excluded_phrases, strict=True):
            excluded |= self._verified(self._with_all(group), (phrase,))
        if not excluded:
            return allowed
        return (self._any() if allowed is None else allowed) - excluded

    def _with_all(self, group: Iterable[Term]) -> set[int]:
        having: set[int] | None = None
        for found in sorted((self._found[term] for term in group), key=lambda found: found.memories):
            having = set(found.numbers) if having is None else set(filter(found.count_of, having))
        return having or set()

    def _any(self) -> set[int]:
        """Numbers of the memories that contain any word of the query."""
        return set(self._bounds.between(1, 256))

    def _verified(self, numbers: Iterable[int], phrases: Iterable[str]) -> set[int]:
        patterns = [phrase_pattern(phrase) for phrase in phrases]
        found = set[int]()
        for number in numbers:
            document = self._index.documents[number]
            if document is not None:
                text = normal(f"{document.path.removeprefix(ROOT)}\n{document.text}").casefold()
                if all(pattern.search(text) is not None for pattern in patterns):
                    found.add(number)
        return found

    def _admits(self, number: int) -> bool:
        document = self._index.documents[number]
        return document is not None and (self._admit is None or self._admit(document))

    # -- scores -------------------------------------------------------------------------------------------------------

    def _best(self, limit: int | None) -> list[tuple[float, int]]:
        """Return the best memories by BM25, as pairs of score and number.

        If enough memories match, at least `RESCORED` of them are returned, because the scores of their lines can still
        change the order.
        """
        keep = RESCORED if limit is None else max(limit, RESCORED)
        scores: dict[int, float] = {}
        if limit is None:
            self._score(scores, self._any() if self._allowed is None else self._allowed, 0.0)
        elif self._allowed is None:
            top = self._bounds.least(keep)
            self._score_best(scores, list(self._bounds.between(top, 256)), keep)
            if len(scores) >= keep and top > 1:
                low = int((nlargest(keep, scores.values())[-1] - TIE) / self._bounds.unit)
                self._score_best(scores, list(self._bounds.between(max(low, 1), top)), keep)
        else:
            by_level = sorted(self._allowed, key=self._bounds.levels.__getitem__, reverse=True)
            self._score_best(scores, by_level, keep)
        chosen = scores.keys() if limit is None else self._newest(scores, _leaders(scores, keep), keep)
        ordered = sorted((self._order(scores[number], number), number) for number in chosen)
        return [(scores[number], number) for _, number in (ordered if limit is None else ordered[:keep])]

    def _newest(self, scores: Mapping[int, float], numbers: list[int], keep: int) -> list[int]:
        """Return the memories that can be among the first `keep`. If scores are equal, newer memories come first."""
        if len(numbers) <= _MANY:
            return numbers
        by_score: dict[float, list[int]] = defaultdict(list)
        for number in numbers:
            by_score[scores[number]].append(number)
        equal: dict[float, list[int]] = defaultdict(list)
        for score, group in by_score.items():
            equal[round(score, _DIGITS)] += group
        found, updated = list[int](), self._index.updated
        for score in sorted(equal, reverse=True):
            group, left = equal[score], keep - len(found)
            if left <= 0:
                break
            if len(group) > left:
                oldest = nlargest(left, map(updated.__getitem__, group))[-1]
                group = [number for number in group if updated[number] >= oldest]
            found += group
        return found

    def _score_best(self, scores: dict[int, float], numbers: Sequence[int], keep: int) -> None:
        """Score memories in steps. After the first step, memories that cannot be among the best `keep` are skipped."""
        start, step = 0, max(_FIRST_STEP, keep)
        while start < len(numbers):
            floor = nlargest(keep, scores.values())[-1] - TIE if len(scores) >= keep else 0.0
            self._score(scores, numbers[start : start + step], floor)
            start, step = start + step, step * 2

    def _score(self, scores: dict[int, float], numbers: Iterable[int], floor: float) -> None:
        """Score memories, except memories whose bound is below `floor`."""
        flat, slope = self._index.norms(self._statistics.memories, self._statistics.size)
        sizes, levels, unit = self._index.sizes, self._bounds.levels, self._bounds.unit
        terms = [(found.count_of, rarity) for found, rarity in self._weighted]
        for number in numbers:
            if levels[number] * unit < floor:
                continue
            norm, score = flat + slope * sizes[number], 0.0
            for count_of, rarity in terms:
                if count := count_of(number):
                    score += rarity * count / (count + norm)
            scores[number] = score

    def _order(self, score: float, number: int) -> tuple[float, float, str]:
        document = self._index.documents[number]
        assert document is not None
        return order(score, document.updated_at, document.path)

    def _wanted(self) -> Wanted:
        by_surface: dict[str, tuple[int, ...]] = {}
        for number, term in enumerate(self._terms.words):
            for surface in self._found[term].surfaces:
                by_surface[surface] = (*by_surface.get(surface, ()), number)
        weights = [self._statistics.rarity(term) for term in self._terms.words]
        return Wanted.of(by_surface, weights)

    def _rescored(
        self, best: list[tuple[float, int]], wanted: Wanted, limit: int | None
    ) -> list[tuple[float, Document, list[Line]]]:
        """Increase the score of each memory by the score of its best line. Return the memories in the new order."""
        found: list[tuple[float, Document, list[Line]]] = []
        for score, number in best:
            document = self._index.documents[number]
            assert document is not None
            lines = matching_lines(document.text, wanted)
            found.append((score + LINE * best_score(lines), document, lines))
        found.sort(key=lambda each: order(each[0], each[1].updated_at, each[1].path))
        return found[:limit]

    def _hit(self, score: float, document: Document, lines: list[Line], wanted: Wanted) -> Hit:
        in_path = wanted.spans(document.path.removeprefix(ROOT))
        path_spans = tuple((start + len(ROOT), end + len(ROOT)) for start, end in in_path)
        memory = (document.path, document.memory_id, document.version_id, document.updated_at)
        snippets = snippets_of(document.text, lines, wanted) if lines else ()
        return Hit(*memory, len(lines), snippets, path_spans, score=round(score, 4), actor=document.actor)

    # -- unknown words ------------------------------------------------------------------------------------------------

    def _unknown(self) -> dict[str, tuple[str, ...]]:
        """Return the words of the query that occur in no visible memory, each with similar words that do occur."""
        groups: dict[str, list[Term]] = {}
        for term in self._terms.words:
            groups.setdefault(term.shown, []).append(term)
        unknown = [shown for shown, terms in groups.items() if not any(map(self._is_visible, terms))]
        words = {shown: groups[shown][0].text for shown in unknown if shown[0] != "@" and not is_dense(shown)}
        index = self._near(words.values()) if self._near and words else self._index
        similar = {shown: near_words(word, index, partial(self._sees, index)) for shown, word in words.items()}
        return {shown: similar.get(shown, ()) for shown in unknown if shown[0] != "@"}

    def _is_visible(self, term: Term) -> bool:
        return any(map(partial(self._sees, self._index), self._found[term].numbers))

    def _sees(self, index: Index, number: int) -> bool:
        document = index.documents[number]
        return document is not None and (self._visible is None or self._visible(document))


def order(score: float, updated_at: datetime, path: str) -> tuple[float, float, str]:
    """Return the sort key of a result: the highest score first, then the newest change, then the path."""
    return -round(score, _DIGITS), -updated_at.timestamp(), path


def phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Return the pattern that finds a phrase in folded text. It matches whole words within one line."""
    words = phrase.casefold().split()
    start = r"(?<!\w)" if words[0][0].isalnum() and not is_dense(words[0]) else ""
    end = r"(?!\w)" if words[-1][-1].isalnum() and not is_dense(words[-1][-1]) else ""
    return re.compile(start + r"[^\S\n]+".join(map(re.escape, words)) + end)


def _leaders(scores: dict[int, float], keep: int) -> list[int]:
    """Numbers of the best `keep` memories, and of the memories with the same score as the last of them."""
    if len(scores) <= keep:
        return list(scores)
    least = nlargest(keep, scores.values())[-1] - TIE
    return [number for number, score in scores.items() if score >= least]
