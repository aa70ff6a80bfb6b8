"""Search without an index: for a single search of a process, for versions and proposals, and for very large stores.

The texts are read once. Only words that match the query are counted, so this takes a fraction of the time to build an
index. The results are those of an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from retentive.search.analysis import detected
from retentive.search.postings import Index, counted, in_sample, word_set
from retentive.search.query import Query
from retentive.search.ranking import Admit, Ranking, Statistics, statistics_of
from retentive.search.results import Document, Results
from retentive.search.terms import Term, Terms, terms_of


class _Matching(dict[str, bool]):
    """Whether a surface matches one of the terms, computed on first use."""

    def __init__(self, terms: Sequence[Term]) -> None:
        super().__init__()
        self._terms = terms

    def __missing__(self, surface: str) -> bool:
        found = self[surface] = any(term.matches(surface) for term in self._terms)
        return found


class Scan:
    """Documents of a search without an index."""

    def __init__(self, documents: Sequence[Document], query: Query, languages: tuple[str, ...]) -> None:
        self._documents, self._query = documents, query
        sample = (each for each in documents if in_sample(each.memory_id, len(documents)))
        self._terms = terms_of(query, languages or detected(map(word_set, sample)))
        self._index = restricted(documents, self._terms)

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

        def ranked(index: Index) -> Results:
            ranking = Ranking(index, self._terms, self._query, statistics=statistics, admit=admit, sees=sees)
            return ranking.results(limit)

        found = ranked(self._index)
        return ranked(indexed(self._documents)) if found.unknown else found  # similar words may be in any text


def indexed(documents: Iterable[Document]) -> Index:
    """Index of all words of the documents."""
    index = Index()
    for document in documents:
        index.add(document, counted(document.path, document.text))
    return index


def restricted(documents: Iterable[Document], terms: Terms) -> Index:
    """Index of the words that match a query."""
    index, matching = Index(), _Matching(terms.all)
    beginnings = _beginnings(terms)
    for document in documents:
        if beginnings is not None and document.data.isascii():
            lowered = document.data.lower()
            if not any(each in lowered for each in beginnings) and document.path.isascii():
                path = document.path.lower().encode()
                if not any(each in path for each in beginnings):
                    index.count(len(document.data))
                    continue
        counts = counted(document.path, document.text)
        found = list(filter(matching.__getitem__, counts))
        if found:
            index.add(document, found)
        else:
            index.count(len(document.data))
    return index


def _beginnings(terms: Terms) -> tuple[bytes, ...] | None:
    """What every ASCII text with a term contains in lower case; None if the terms do not tell, as for dates."""
    if any(term.text[0] == "@" for term in terms.all):
        return None
    found = chain.from_iterable(term.beginnings for term in terms.all)
    return tuple(dict.fromkeys(each.encode() for each in found))
