"""Search without an index: for a single search of a process, for versions and proposals, and for very large stores.

The texts are read once. Only lines that may have a word of the query are split into words, so this takes a fraction of
the time to build an index. The results are those of an index.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, filterfalse
from typing import Generic, TypeVar

from retentive.search.analysis import detected, is_dense, key, normal, parts, surfaces
from retentive.search.dates import dates
from retentive.search.near import Near
from retentive.search.postings import IN_HEADING, IN_PATH, Index, counted, in_sample, word_set
from retentive.search.query import Query
from retentive.search.ranking import Admit, Ranking, Statistics, statistics_of
from retentive.search.results import Document, Results
from retentive.search.terms import Term, terms_of
from retentive.values.paths import ROOT

Text = TypeVar("Text")
_HEADING = re.compile(r"#{1,6}[ \t]")


class _Known(dict[Text, bool], Generic[Text]):
    """Whether a text meets a condition, computed on first use."""

    def __init__(self, condition: Callable[[Text], bool]) -> None:
        super().__init__()
        self._condition = condition

    def __missing__(self, text: Text) -> bool:
        found = self[text] = self._condition(text)
        return found


class Scan:
    """Documents of a search without an index."""

    def __init__(self, documents: Sequence[Document], query: Query, languages: tuple[str, ...]) -> None:
        self._documents, self._query = documents, query
        sample = (each for each in documents if in_sample(each.memory_id, len(documents)))
        self._terms = terms_of(query, languages or detected(map(word_set, sample)))
        self._index = restricted(documents, self._terms.all)

    def statistics(self) -> Statistics:
        """Statistics for the terms of the query."""
        return statistics_of(self._index, self._terms)

    def results(
        self,
        limit: int | None,
        *,
        statistics: Statistics | None = None,
        admit: Admit | None = None,
        sees: Admit | None = None,
    ) -> Results:
        """The best documents."""
        ranking = Ranking(
            self._index, self._terms, self._query, statistics=statistics, admit=admit, sees=sees, near=self._near
        )
        return ranking.results(limit)

    def _near(self, words: Iterable[str]) -> Index:
        """Index of the words that are similar to some words."""
        near = [Near(word) for word in words]
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
    """Index of the words that match terms."""
    index, finder = Index(), _Finder(terms)
    for document in documents:
        found = finder.found(document)
        if found:
            index.add(document, found)
        else:
            index.count(len(document.data))
    return index


class _Finder:
    """Words of documents that match terms.

    A plain word, in ASCII and without `_`, can only match if it contains one of the needles in lower case. A text with
    another word that may match is split into all its words.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        words = [term for term in terms if term.text[0] != "@"]
        self._texts = [term.text.casefold() for term in words if not term.stems]
        self._beginnings = [each for term in words for each in term.beginnings]
        needles = sorted({each for each in (*self._texts, *self._beginnings) if each.isascii()}, key=len)
        self._needles = [
            each.encode() for at, each in enumerate(needles) if not any(short in each for short in needles[:at])
        ]
        self._matching = _Known[str](lambda surface: any(term.matches(surface) for term in terms))
        self._may_match = _Known[bytes](self._may_match_folded)
        numbers = {_number(term.text) for term in terms if term.text[0] == "@"}
        self._number = re.compile(rf"(?:{'|'.join(sorted(numbers))})(?![0-9])".encode()) if numbers else None

    def found(self, document: Document) -> list[str]:
        """Surfaces of a memory that match, each as often as it counts."""
        data, path = document.data, document.path.removeprefix(ROOT)
        lowered = data.lower()
        if self._has_odd(lowered):
            return list(filter(self._matching.__getitem__, counted(document.path, document.text)))
        words = surfaces(path) * IN_PATH
        for start in {start for needle in self._needles for start in _starts(lowered, needle)}:
            end = data.find(b"\n", start)
            row = (data[start:] if end < 0 else data[start:end]).decode()
            words += surfaces(row) * (1 + IN_HEADING * (_HEADING.match(row) is not None))
        if self._number is not None and self._number.search(data + document.path.encode()):
            words += [surface for date in dates(f"{document.path}\n{document.text}") for surface in date.surfaces]
        return list(filter(self._matching.__getitem__, words))

    def _has_odd(self, lowered: bytes) -> bool:
        """Return whether a text may have a matching word that is not plain."""
        if not lowered.isascii() and any(map(self._may_match.__getitem__, filterfalse(bytes.isascii, lowered.split()))):
            return True
        if b"_" not in lowered:
            return False
        whole = lowered.replace(b"_", b"")
        return any(whole.count(needle) != lowered.count(needle) for needle in self._needles)

    def _may_match_folded(self, word: bytes) -> bool:
        folded = normal(word.decode()).casefold()
        if any(map(folded.__contains__, self._texts)):
            return True
        letters = unicodedata.normalize("NFD", folded).replace("_", "")
        for each in set(letters):
            if unicodedata.combining(each):
                letters = letters.replace(each, "")
        return any(map(letters.__contains__, self._beginnings))


def _number(date: str) -> str:
    """Pattern of a number that every form of a date has: the day, or the year of a month."""
    year, _, rest = date[1:].partition("-")
    return year if len(year) == 4 and "-" not in rest else "0?" + date[-2:].lstrip("0")


def _starts(data: bytes, needle: bytes) -> Iterator[int]:
    """Starts of the lines that contain a text."""
    at = data.find(needle)
    while at >= 0:
        yield data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        at = data.find(needle, end + 1) if end >= 0 else -1
