"""Searches without an index.

These are the first search of a process, searches in versions and proposals, and searches in very large stores.

Each text is read once. Only lines that may contain a word of the query are split into words, so a scan takes
only a fraction of the time that building an index takes. The results are the same as with an index.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Generic, TypeVar

from retentive.search.analysis import detected, is_dense, key, normal, parts, surfaces
from retentive.search.dates import dates
from retentive.search.near import Similar
from retentive.search.postings import IN_HEADING, IN_PATH, Index, in_sample, word_set
from retentive.search.query import Query
from retentive.search.ranking import Admit, Ranking, Statistics, statistics_of
from retentive.search.results import Document, Results
from retentive.search.terms import Term, terms_of
from retentive.values.paths import ROOT

Key = TypeVar("Key")
Value = TypeVar("Value")
_HEADING = re.compile(r"#{1,6}[ \t]")
_ASCII = bytes(range(128))
_MOST_REPLACED = 20  # a text with more different letters to replace is converted as a whole


class _Cache(dict[Key, Value], Generic[Key, Value]):
    """Results of a function, computed at first use."""

    def __init__(self, function: Callable[[Key], Value]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, given: Key) -> Value:
        found = self[given] = self._function(given)
        return found


class Scan:
    """One search that reads the documents and uses no stored index."""

    def __init__(self, documents: Sequence[Document], query: Query, languages: tuple[str, ...]) -> None:
        self._documents, self._query = documents, query
        sample = (each for each in documents if in_sample(each.memory_id, len(documents)))
        self._terms = terms_of(query, languages or detected(map(word_set, sample)))
        self._index = restricted(documents, self._terms.all)

    def statistics(self) -> Statistics:
        """Return the statistics of the documents for the terms of the query."""
        return statistics_of(self._index, self._terms)

    def results(
        self,
        limit: int | None,
        *,
        statistics: Statistics | None = None,
        admit: Admit | None = None,
        sees: Admit | None = None,
    ) -> Results:
        """Return the best documents. `admit` and `sees` have the same meaning as in `Ranking`."""
        ranking = Ranking(
            self._index, self._terms, self._query, statistics=statistics, admit=admit, sees=sees, near=self._near
        )
        return ranking.results(limit)

    def _near(self, words: Iterable[str]) -> Index:
        """Index the documents. The index has only the words that are similar to one of the given words."""
        near = [Similar(word) for word in words]
        chunks = set[bytes]()
        for document in self._documents:
            chunks.update(document.data.split())
            chunks.add(document.path.removeprefix(ROOT).encode())
        written = set(chain.from_iterable(surfaces(chunk.decode()) for chunk in chunks))
        similar = [
            surface
            for surface in written
            if not is_dense(surface) and any(each.distance(key(part)) for part in parts(surface) for each in near)
        ]
        return restricted(self._documents, [Term(surface, surface) for surface in similar])


def restricted(documents: Iterable[Document], terms: Sequence[Term]) -> Index:
    """Build an index that contains only the words that match one of the terms."""
    index, finder = Index(), _Finder(terms)
    for document in documents:
        found = finder.found(document)
        if found:
            index.add(document, found)
        else:
            index.count(len(document.data))
    return index


class _Finder:
    """Finds the words that match search terms in documents.

    To save time, it first searches each text for *needles*. These are short texts in plain letters, and each matching
    word contains at least one of them. Only lines with a needle are split into words.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        numbers = {_number(term.text) for term in terms if term.text[0] == "@"}
        self._number = re.compile(rf"(?<![1-9])(?:{'|'.join(sorted(numbers))})(?![0-9])") if numbers else None
        needles = {each.removeprefix("0?") for each in numbers}
        for term in terms:
            if term.text[0] != "@":
                needles.update(map(_plain, term.beginnings if term.stems else [term.text]))
        shortest = sorted(needles, key=len)
        self._needles = [each for at, each in enumerate(shortest) if not any(short in each for short in shortest[:at])]
        self._matching = _Cache[str, bool](lambda surface: any(term.matches(surface) for term in terms))
        self._in_plain_letters = _Cache[str, str](_plain)

    def found(self, document: Document) -> list[str]:
        """Return the matching surfaces of a document, each repeated as often as it counts."""
        path = document.path.removeprefix(ROOT)
        words = surfaces(path) * IN_PATH
        if self._number is not None:
            words += self._dates(document.path)
        lowered = self._plain_letters(document.data)
        numbers = {number for needle in self._needles for number in _rows(lowered, needle)}
        if numbers:
            rows = document.data.split(b"\n")
            for number in numbers:
                row = rows[number].decode()
                words += surfaces(row) * (1 + IN_HEADING * (_HEADING.match(row) is not None))
                if self._number is not None:
                    words += self._dates(row)
        return list(filter(self._matching.__getitem__, words))

    def _dates(self, text: str) -> list[str]:
        if self._number is None or self._number.search(text) is None:
            return []
        return [surface for date in dates(text) for surface in date.surfaces]

    def _plain_letters(self, data: bytes) -> str:
        """Convert a text as `_plain` does, and keep its lines. This is faster than `_plain` if few letters change."""
        lowered = data.lower().replace(b"_", b"")
        text = lowered.decode()
        if lowered.isascii():
            return text
        letters = self._in_plain_letters
        other = [each for each in set(lowered.translate(None, _ASCII).decode()) if letters[each] != each]
        if len(other) > _MOST_REPLACED:
            return _plain(text)
        for each in other:
            text = text.replace(each, letters[each])
        return text


def _plain(text: str) -> str:
    """Convert a text to the letters by which words are compared: folded, without accents and `_`."""
    folded = normal(text).casefold().replace("_", "")
    if folded.isascii():
        return folded
    letters = unicodedata.normalize("NFD", folded)
    for each in set(letters):
        if unicodedata.combining(each):
            letters = letters.replace(each, "")
    return letters


def _number(date: str) -> str:
    """Return a pattern for the number in all forms of a date: the day or, if the date has no day, the year."""
    year, _, rest = date[1:].partition("-")
    return year if len(year) == 4 and "-" not in rest else "0?" + date[-2:].lstrip("0")


def _rows(text: str, needle: str) -> Iterator[int]:
    """Return the numbers, counted from 0, of the lines that contain `needle`."""
    number, end, at = 0, 0, text.find(needle)
    while at >= 0:
        number += text.count("\n", end, at)
        yield number
        end = text.find("\n", at)
        at = text.find(needle, end) if end >= 0 else -1
