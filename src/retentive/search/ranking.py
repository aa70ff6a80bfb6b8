"""Ranking: BM25 over whole memories, and the score of the best line for the first of them.

Terms are processed rarest first. Once enough memories have a score that the other terms cannot reach on their own,
these terms only add to memories that are already counted (MaxScore). The result is exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from heapq import nlargest
from math import log
from operator import or_

from retentive.search.analysis import is_dense, normal
from retentive.search.lines import Line, Wanted, best_score, matching_lines, snippets_of
from retentive.search.near import near_words
from retentive.search.postings import Index, Occurrences
from retentive.search.query import Query
from retentive.search.results import Document, Hit, Results
from retentive.search.terms import Term, Terms
from retentive.values.paths import ROOT

LINE = 0.5  # weight of the best line against the whole memory
RESCORED = 20  # memories whose lines are scored

Admit = Callable[[Document], bool]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of one or several collections: memories, bytes, and by the text of a term the memories with it."""

    memories: int = 0
    size: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Statistics) -> Statistics:
        """Statistics of both collections together."""
        texts = self.counts.keys() | other.counts.keys()
        counts = {text: self.counts.get(text, 0) + other.counts.get(text, 0) for text in texts}
        return Statistics(self.memories + other.memories, self.size + other.size, counts)

    def rarity(self, term: Term) -> float:
        """Inverse document frequency of a term."""
        count = self.counts.get(term.text, 0)
        return log(1 + (self.memories - count + 0.5) / (count + 0.5))


def statistics_of(index: Index, terms: Terms) -> Statistics:
    """Statistics of an index for the terms of a query."""
    counts = {term.text: len(index.occurrences(term).shares) for term in terms.words}
    return Statistics(index.memories, index.size, counts)


class Ranking:
    """One ranked search in one index.

    `admit` decides which documents are found, `sees` which the actor may see; None admits all.
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
    ) -> None:
        self._index, self._terms, self._query = index, terms, query
        self._statistics = statistics or statistics_of(index, terms)
        self._found = {term: self._occurrences(term, statistics) for term in terms.all}
        self._admit, self._visible = admit, sees
        self._admitted: dict[int, bool] = {}
        self._allowed: int | None = None

    def results(self, limit: int | None) -> Results:
        """The best memories and the number of all matches. Raises `InvalidInput`."""
        self._allowed = self._conditions(self._query.phrases)
        total = self._total()
        relaxed = not total and bool(self._query.phrases)
        if relaxed:
            self._allowed = self._conditions(())
            total = self._total()
        wanted = self._wanted()
        best = self._rescored(self._best(limit), wanted, limit)
        hits = tuple(self._hit(score, document, lines, wanted) for score, document, lines in best)
        return Results(hits, total, unknown=self._unknown(), relaxed=relaxed)

    def _occurrences(self, term: Term, statistics: Statistics | None) -> Occurrences:
        """Occurrences of a term. If several collections are ranked together, the norm is that of all of them."""
        found, index = self._index.occurrences(term), self._index
        if statistics is None:
            return found
        flat, slope = index.norms(index.memories, index.size)
        new_flat, new_slope = index.norms(statistics.memories, statistics.size)
        shares: dict[int, float] = {}
        for number, share in found.shares.items():
            size = index.sizes[number]
            count = share * (flat + slope * size) / (1 - share)
            shares[number] = count / (count + new_flat + new_slope * size)
        return found._replace(shares=shares, most=max(shares.values(), default=0.0))

    # -- conditions ---------------------------------------------------------------------------------------------------

    def _conditions(self, phrases: tuple[str, ...]) -> int | None:
        """Bit mask of the memories that the required and excluded words allow; None if all are allowed."""
        allowed: int | None = None
        groups = [*self._terms.required, *(self._terms.phrase_words if phrases else ())]
        for mask in map(self._with_all, groups):
            allowed = mask if allowed is None else allowed & mask
        if phrases and allowed:
            allowed = self._verified(allowed, self._query.phrases)
        excluded = reduce(or_, map(self._with_all, self._terms.excluded), 0)
        for group, phrase in zip(self._terms.excluded_phrase_words, self._query.excluded_phrases, strict=True):
            excluded |= self._verified(self._with_all(group), (phrase,))
        if not excluded:
            return allowed
        return (self._any() if allowed is None else allowed) & ~excluded

    def _with_all(self, group: Iterable[Term]) -> int:
        masks = [self._found[term].mask for term in group]
        return reduce(lambda one, other: one & other, masks) if masks else 0

    def _any(self) -> int:
        return reduce(or_, (self._found[term].mask for term in self._terms.words), 0)

    def _verified(self, mask: int, phrases: Iterable[str]) -> int:
        patterns = [phrase_pattern(phrase) for phrase in phrases]
        found = 0
        for number in _numbers(mask):
            document = self._index.documents[number]
            if document is not None:
                text = normal(f"{document.path.removeprefix(ROOT)}\n{document.text}").casefold()
                if all(pattern.search(text) is not None for pattern in patterns):
                    found |= 1 << number
        return found

    def _admits(self, number: int) -> bool:
        if self._allowed is not None and not self._allowed >> number & 1:
            return False
        if self._admit is None:
            return True
        known = self._admitted.get(number)
        if known is None:
            document = self._index.documents[number]
            known = self._admitted[number] = document is not None and self._admit(document)
        return known

    def _total(self) -> int:
        mask = self._any() if self._allowed is None else self._any() & self._allowed
        return mask.bit_count() if self._admit is None else sum(map(self._admits, _numbers(mask)))

    # -- scores -------------------------------------------------------------------------------------------------------

    def _best(self, limit: int | None) -> list[tuple[float, int]]:
        """The best memories by BM25: more than `limit`, since their lines are scored later."""
        keep = RESCORED if limit is None else max(limit, RESCORED)
        rarity = {term: self._statistics.rarity(term) for term in self._terms.words}
        terms = sorted(self._terms.words, key=lambda term: (-rarity[term], term.text))
        reach = sum(rarity[term] * self._found[term].most for term in terms)
        scores: dict[int, float] = {}
        is_complete = False
        for term in terms:
            if limit is not None and not is_complete and len(scores) >= keep:
                is_complete = nlargest(keep, scores.values())[-1] > reach
            self._score(scores, self._found[term], rarity[term], is_complete=is_complete)
            reach -= rarity[term] * self._found[term].most
        chosen = scores.keys() if limit is None else _leaders(scores, keep)
        ordered = sorted((self._order(scores[number], number), number) for number in chosen)
        return [(scores[number], number) for _, number in (ordered if limit is None else ordered[:keep])]

    def _score(self, scores: dict[int, float], found: Occurrences, rarity: float, *, is_complete: bool) -> None:
        shares = found.shares
        if is_complete:
            for number in scores.keys() & shares.keys():
                scores[number] += rarity * shares[number]
            return
        is_open, get = self._allowed is None and self._admit is None, scores.get
        for number, share in shares.items():
            if is_open or self._admits(number):
                scores[number] = get(number, 0.0) + rarity * share

    def _order(self, score: float, number: int) -> tuple[float, float, str]:
        """Sort key: the score, then the newest change, then the path."""
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
        """The best memories, in order, with the score of the best line added."""
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
        """Words of the query that no visible memory has, each with similar words."""
        groups: dict[str, list[Term]] = {}
        for term in self._terms.words:
            groups.setdefault(term.shown, []).append(term)
        unknown = [shown for shown, terms in groups.items() if not any(map(self._is_visible, terms))]
        return {
            shown: () if is_dense(shown) else near_words(groups[shown][0].text, self._index, self._sees)
            for shown in unknown
            if shown[0] != "@"
        }

    def _is_visible(self, term: Term) -> bool:
        return any(map(self._sees, self._found[term].shares))

    def _sees(self, number: int) -> bool:
        document = self._index.documents[number]
        return document is not None and (self._visible is None or self._visible(document))


def order(score: float, updated_at: datetime, path: str) -> tuple[float, float, str]:
    """Sort key of results: the score, then the newest change, then the path."""
    return -round(score, 6), -updated_at.timestamp(), path


def phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Pattern of a phrase in folded text: whole words, in one line."""
    words = phrase.casefold().split()
    start = r"(?<!\w)" if words[0][0].isalnum() and not is_dense(words[0]) else ""
    end = r"(?!\w)" if words[-1][-1].isalnum() and not is_dense(words[-1][-1]) else ""
    return re.compile(start + r"[^\S\n]+".join(map(re.escape, words)) + end)


def _leaders(scores: dict[int, float], keep: int) -> list[int]:
    """Numbers of the best memories, and of all that tie with the last of them."""
    if len(scores) <= keep:
        return list(scores)
    least = nlargest(keep, scores.values())[-1] - 1e-6
    return [number for number, score in scores.items() if score >= least]


def _numbers(mask: int) -> Iterable[int]:
    """Numbers of the bits that are set."""
    for at, byte in enumerate(mask.to_bytes((mask.bit_length() + 7) // 8, "little")):
        if byte:
            yield from (at * 8 + bit for bit in range(8) if byte >> bit & 1)
