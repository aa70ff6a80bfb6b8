"""Terms of a query: the words to search for, without function words such as `the`.

A term also decides which surfaces (the words as written that an index stores) match it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from retentive.search.analysis import DENSE_RUN, is_dense, key, parts, prefixes, spans, stems
from retentive.search.dates import dates
from retentive.search.irregular import irregular_forms
from retentive.search.query import Query
from retentive.search.stopwords import stop_words


@dataclass(frozen=True, slots=True)
class Term:
    """One thing to find: a folded word, a pair of characters or a single character, or a date.

    A word is found by its `stems`; pairs, characters and dates have no stems. `shown` is the word of the query from
    which the term was made.
    """

    text: str
    shown: str = field(compare=False)
    stems: frozenset[str] = frozenset()
    languages: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = field(default=(), compare=False)
    """Prefixes for a fast preselection: the key of every matching word starts with one of them."""

    def matches(self, surface: str) -> bool:
        """Return whether a surface is an occurrence of the term."""
        if not self.stems or surface[0] == "@":
            return surface == self.text or (self.is_character and surface[0] == self.text)
        return not is_dense(surface) and any(map(self._matches_part, parts(surface)))

    def _matches_part(self, part: str) -> bool:
        if not key(part).startswith(self.beginnings):
            return False
        return not self.stems.isdisjoint(stems(part, self.languages))

    @property
    def is_character(self) -> bool:
        """True for a single character of a script without spaces. The term matches all pairs that start with it."""
        return len(self.text) == 1 and not self.stems


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a query.

    `words` are the terms that add to the score. A memory must contain all terms of each group in `required`. A memory
    that contains all terms of any group in `excluded` is left out. `phrase_words` and `excluded_phrase_words` have one
    group of terms for each phrase; these terms are not in `required` and `excluded`. They only select memories. The
    phrases themselves are then searched in the texts of these memories.
    """

    words: tuple[Term, ...]
    required: tuple[tuple[Term, ...], ...]
    excluded: tuple[tuple[Term, ...], ...]
    phrase_words: tuple[tuple[Term, ...], ...]
    excluded_phrase_words: tuple[tuple[Term, ...], ...]

    @property
    def all(self) -> tuple[Term, ...]:
        """All terms of the query, each once."""
        groups = chain(self.required, self.excluded, self.phrase_words, self.excluded_phrase_words)
        return tuple(dict.fromkeys(chain(self.words, chain.from_iterable(groups))))


def terms_of(query: Query, languages: tuple[str, ...]) -> Terms:
    """Return the terms of a query for a store whose texts are in these languages."""

    def each(texts: Iterable[str]) -> tuple[tuple[Term, ...], ...]:
        return tuple(tuple(_terms(text, languages)) for text in texts)

    def whole(texts: Iterable[str]) -> tuple[tuple[Term, ...], ...]:
        return tuple(tuple(_words(text, languages)) for text in texts)

    words = _terms(query.text, languages)
    kept = _without_function_words(words, languages)
    must = {term for group in each(query.required) for term in group}
    chosen = tuple(dict.fromkeys(term for term in words if term in kept or term in must))
    phrases, excluded_phrases = whole(query.phrases), whole(query.excluded_phrases)
    return Terms(chosen, each(query.required), each(query.excluded), phrases, excluded_phrases)


def _terms(text: str, languages: tuple[str, ...]) -> list[Term]:
    found: list[Term] = []
    covered: list[tuple[int, int]] = []
    for date in dates(text):
        covered.append((date.start, date.end))
        shown = text[date.start : date.end]
        found += [Term(surface, shown) for surface in date.surfaces]
    for surface, start, end in spans(text):
        is_number = surface.isdigit() and any(low <= start and end <= high for low, high in covered)
        if not is_number:
            found += _of_surface(surface, text, start, languages)
    return list(dict.fromkeys(found))


def _words(text: str, languages: tuple[str, ...]) -> Iterator[Term]:
    """Terms of a phrase. Identifiers are not split into parts."""
    for surface, start, _ in spans(text):
        yield from _of_surface(surface, text, start, languages)[:1]


def _of_surface(surface: str, text: str, start: int, languages: tuple[str, ...]) -> list[Term]:
    if is_dense(surface):
        run = DENSE_RUN.match(text, start)
        is_last_of_run = len(surface) == 1 and start > 0 and is_dense(text[start - 1])
        return [] if is_last_of_run else [Term(surface, run[0] if run else surface)]
    return [_of_part(part, surface, languages) for part in parts(surface)]


def _of_part(part: str, surface: str, languages: tuple[str, ...]) -> Term:
    forms = irregular_forms(part, languages)
    found = frozenset[str]().union(*(stems(each, languages) for each in forms))
    beginnings = dict.fromkeys(chain.from_iterable(prefixes(each, languages) for each in forms))
    return Term(part, surface, found, languages, tuple(beginnings))


def _without_function_words(words: Sequence[Term], languages: tuple[str, ...]) -> set[Term]:
    """Return the terms that are not function words of the language of the query.

    If all terms are function words, all terms are returned.
    """
    texts = {term.text for term in words}
    best = max(languages, key=lambda language: len(stop_words(language) & texts), default="english")
    left_out = stop_words(best) | stop_words("russian")
    kept = {term for term in words if term.text not in left_out}
    return kept or set(words)
