"""Queries of a ranked search: words, required and excluded words, phrases, and filters, and the terms to search for.

    refund rules "30 days" +euro -draft path:team/ by:user:ann since:2026-05-01 is:proposed

All words outside operators are searched, so a question can be asked in natural language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from retentive.errors import InvalidInput
from retentive.search.analysis import DENSE_RUN, is_dense, normal, parts, spans, token, words_of
from retentive.search.languages import dates, irregular_forms, stop_words
from retentive.search.results import Document
from retentive.values.paths import ROOT
from retentive.values.patterns import check_path_pattern, covers, matches_actor
from retentive.values.records import ACTOR_KINDS

MAX_QUERY_CHARS = 1_000
MODES = ("ranked", "all")
_OPERATOR = re.compile(r"(?<!\S)(path|by|since|before|is):(\S+)")
_PHRASE = re.compile(r'(?<![^\s(+-])([+-]?)"([^"\n]*\w[^"\n]*)"')
_SIGNED = re.compile(r"(?<!\S)([+-])(?=\w)(\S+)")
_LONE_HAN = re.compile(r"(?<![\u3400-\u9fff])[\u3400-\u9fff](?![\u3400-\u9fff])")  # a word of one character, as in 湖へ
ParseTime = Callable[[str], datetime]


@dataclass(frozen=True, slots=True)
class Query:
    """Parsed query of a ranked search.

    `text` has all words to find, including required words and the words of phrases. All of `required` and `phrases`
    must occur. None of `excluded` and `excluded_phrases` may occur. If `is_proposed` is True, proposals are searched
    instead of memories. The other fields are conditions that a memory must meet; an empty one accepts all memories.
    """

    text: str
    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    excluded_phrases: tuple[str, ...] = ()
    is_proposed: bool = False
    within: tuple[str, ...] = ()
    """Path patterns. The path must match one of them."""
    paths: tuple[str, ...] = ()
    """Folded texts. The path must contain all of them."""
    actors: tuple[str, ...] = ()
    """Actor patterns. One of them must match an actor whose changes are part of the text."""
    since: datetime | None = None
    before: datetime | None = None

    @property
    def has_conditions(self) -> bool:
        """Whether `admits` can refuse a document."""
        return (self.within, self.paths, self.actors, self.since, self.before) != ((), (), (), None, None)

    def admits(self, document: Document, actors: Callable[[], Iterable[str]]) -> bool:
        """Return whether a document meets all conditions. `actors` returns those who contributed to its text."""
        if self.within and not covers(self.within, document.path):
            return False
        if self.paths and not all(each in document.path.casefold() for each in self.paths):
            return False
        if self.since is not None and document.updated_at < self.since:
            return False
        if self.before is not None and document.updated_at >= self.before:
            return False
        return not self.actors or any(matches_actor(pattern, actor) for actor in actors() for pattern in self.actors)


def question(text: str) -> Query:
    """Return the query for a question, of which the first 1,000 characters count. Raises `InvalidInput`."""
    check_text(text[:MAX_QUERY_CHARS])
    return Query(text[:MAX_QUERY_CHARS])


def check_text(text: str) -> None:
    """Raise `InvalidInput` for a query that is empty, too long or not valid text."""
    if not text.strip():
        raise InvalidInput("the query is empty; enter at least one word")
    if len(text) > MAX_QUERY_CHARS:
        raise InvalidInput(f"the query is longer than {MAX_QUERY_CHARS:,} characters; shorten it")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidInput("the query contains a lone surrogate and is not valid text")


def parse_query(text: str, parse_time: ParseTime, *, within: Iterable[str] = ()) -> Query:
    """Parse a query. Raises `InvalidInput`."""
    check_text(text)
    operators: dict[str, list[str]] = {name: [] for name in ("path", "by", "since", "before", "is")}

    def operator(found: re.Match[str]) -> str:
        operators[found[1]].append(found[2])
        return " "

    def operand(kept: dict[str, list[str]], found: re.Match[str]) -> str:
        """Add the operand of a sign to `kept`, and return the text that replaces both in the query."""
        kept[found[1]].append(normal(found[2]))
        return " " if found[1] == "-" else f" {found[2]} "

    phrases: dict[str, list[str]] = {"": [], "+": [], "-": []}
    words: dict[str, list[str]] = {"+": [], "-": []}
    rest = _OPERATOR.sub(operator, text)
    rest = _PHRASE.sub(partial(operand, phrases), rest)
    rest = _SIGNED.sub(partial(operand, words), rest)
    if not words_of(rest):
        raise InvalidInput("the query has only excluded words or operators; enter at least one word to find")
    unknown = [each for each in operators["is"] if each != "proposed"]
    if unknown:
        raise InvalidInput(f"unknown operator `is:{unknown[0][:80]}`; the only value of `is:` is `proposed`")
    patterns = [check_path_pattern(pattern) for pattern in within]
    paths = list[str]()
    for each in operators["path"]:
        if "*" in each or each.startswith("/"):
            rooted = each if each.startswith("/") else f"{ROOT}/{each}"
            patterns.append(check_path_pattern(rooted.rstrip("/") or ROOT))
        else:
            paths.append(normal(each).casefold())
    return Query(
        normal(rest),
        tuple(words["+"]),
        tuple(words["-"]),
        (*phrases[""], *phrases["+"]),
        tuple(phrases["-"]),
        bool(operators["is"]),
        tuple(patterns),
        tuple(paths),
        tuple(map(_actor_pattern, operators["by"])),
        max(map(parse_time, operators["since"]), default=None),
        min(map(parse_time, operators["before"]), default=None),
    )


def _actor_pattern(given: str) -> str:
    """Return an actor pattern. A name without a kind of actor, such as `ann`, matches actors of any kind."""
    return given if given.partition(":")[0] in ACTOR_KINDS or "*" in given.partition(":")[0] else f"*:{given}"


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


def function_words(terms: Iterable[Term], languages: Sequence[str]) -> frozenset[str]:
    """Return the function words of the language of a query, such as `the`, which a search leaves out."""
    texts = {term.text for term in terms}
    best = max(languages, key=lambda language: len(stop_words(language) & texts), default="english")
    return stop_words(best) | stop_words("russian")


def terms_in(text: str, languages: Sequence[str]) -> list[Term]:
    """Return the terms of a text, each once, for a store whose texts are in these languages."""
    found: list[Term] = []
    words, covered = spans(text), set[int]()
    for first, last, dated in dates([normal(word) for word, _, _ in words]):
        covered.update(range(first, last + 1))
        found += [Term(each, text[words[first][1] : words[last][2]], (each,)) for each in dated]
    for number, (word, start, _) in enumerate(words):
        if number in covered and word[0].isdigit():
            continue
        if is_dense(word):
            run = DENSE_RUN.match(text, start)
            shown = run[0] if run else word
            is_last_of_run = len(word) == 1 and start > 0 and is_dense(text[start - 1])
            found += [] if is_last_of_run else [Term(word, shown, (word,))]
            found += [Term(word[0], shown, (word[0],))] if _LONE_HAN.match(text, start) else []
            continue
        for part in parts(word):
            forms = irregular_forms(part, languages)
            tokens = dict.fromkeys(token(form, language) for form in forms for language in languages)
            found.append(Term(part, word, tuple(tokens)))
    return list(dict.fromkeys(found))
