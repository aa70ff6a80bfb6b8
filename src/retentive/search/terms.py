"""Terms of a query: the words to search for, without function words such as `the`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from retentive.search.analysis import DENSE_RUN, is_dense, parts, spans, token
from retentive.search.dates import dates
from retentive.search.irregular import irregular_forms
from retentive.search.query import Query
from retentive.search.stopwords import stop_words


@dataclass(frozen=True, slots=True)
class Term:
    """One thing to find: a folded word, a pair of characters or a single character, or a date.

    A text has the term if it has one of the `tokens`. `shown` is the word of the query from which the term was made.
    """

    text: str
    shown: str = field(compare=False)
    tokens: tuple[str, ...]

    @property
    def is_character(self) -> bool:
        """True for a single character of a script without spaces. The term matches all pairs that start with it."""
        return len(self.text) == 1 and is_dense(self.text)


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a query.

    `words` are the terms that add to the score. A memory must contain all terms of each group in `required`. A memory
    that contains all terms of any group in `excluded` is left out. `phrases` and `excluded_phrases` have one group of
    terms for each phrase. These terms only select memories, in whose texts the phrases are then searched.
    """

    words: tuple[Term, ...]
    required: tuple[tuple[Term, ...], ...]
    excluded: tuple[tuple[Term, ...], ...]
    phrases: tuple[tuple[Term, ...], ...]
    excluded_phrases: tuple[tuple[Term, ...], ...]

    @property
    def all(self) -> tuple[Term, ...]:
        """All terms of the query, each once."""
        groups = chain(self.required, self.excluded, self.phrases, self.excluded_phrases)
        return tuple(dict.fromkeys(chain(self.words, chain.from_iterable(groups))))


def terms_of(query: Query, languages: Sequence[str]) -> Terms:
    """Return the terms of a query for a store whose texts are in these languages."""

    def each(texts: Iterable[str], *, is_phrase: bool = False) -> tuple[tuple[Term, ...], ...]:
        return tuple(tuple(_terms(text, languages, is_phrase=is_phrase)) for text in texts)

    words, required = _terms(query.text, languages), each(query.required)
    kept = _without_function_words(words, languages) | set(chain.from_iterable(required))
    return Terms(
        tuple(term for term in words if term in kept),
        required,
        each(query.excluded),
        each(query.phrases, is_phrase=True),
        each(query.excluded_phrases, is_phrase=True),
    )


def _terms(text: str, languages: Sequence[str], *, is_phrase: bool = False) -> list[Term]:
    """Return the terms of a text. In a phrase, identifiers are not split into parts, and dates are numbers."""
    found: list[Term] = []
    covered: list[tuple[int, int]] = []
    for date in () if is_phrase else dates(text):
        covered.append((date.start, date.end))
        found += [Term(each, text[date.start : date.end], (each,)) for each in date.tokens]
    for word, start, end in spans(text):
        if word.isdigit() and any(low <= start and end <= high for low, high in covered):
            continue
        if is_dense(word):
            run = DENSE_RUN.match(text, start)
            is_last_of_run = len(word) == 1 and start > 0 and is_dense(text[start - 1])
            found += [] if is_last_of_run else [Term(word, run[0] if run else word, (word,))]
            continue
        for part in parts(word)[: 1 if is_phrase else None]:
            forms = irregular_forms(part, languages)
            tokens = dict.fromkeys(token(form, language) for form in forms for language in languages)
            found.append(Term(part, word, tuple(tokens)))
    return list(dict.fromkeys(found))


def _without_function_words(words: Sequence[Term], languages: Sequence[str]) -> set[Term]:
    """Return the terms that are not function words of the language of the query, or all if nothing else is left."""
    texts = {term.text for term in words}
    best = max(languages, key=lambda language: len(stop_words(language) & texts), default="english")
    left_out = stop_words(best) | stop_words("russian")
    return {term for term in words if term.text not in left_out} or set(words)
