"""Built-in rules: one search of a text for literals finds the places where a sensitive value may be.

Each rule names literals in lower case. One regular expression searches the lower-cased text for all of them. A rule
runs only where one of its literals was found, and reads a bounded part of the text there, so the time is proportional
to the length of any text. The rules are data (`rules.toml`), except those for values after words such as `password`.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TypeAlias

from retentive.redaction import named, numbers, rows
from retentive.redaction.checks import CHECKS, is_strong
from retentive.redaction.rules import Find, data, expanded, lowered
from retentive.redaction.views import decoded, unwrapped

Finder: TypeAlias = Callable[[str, int, int], tuple[Iterable[Find], int]]
"""Takes a text and the span of a literal. Returns the matches, and the position up to which it examined the text."""
_BOUND = re.compile(r"(?:\A|[^0-9A-Za-z]|\\[nrt]|%[0-9A-Fa-f]{2}|bot)\Z")  # before a token
_STARTS = re.compile(r"(?<![0-9A-Za-z])|(?![0-9A-Za-z])|(?<=\\[nrt])")  # where a match may start
_ALNUM = re.compile("[0-9A-Za-z]")
_HEAD = re.compile(r"[A-Za-z0-9._/+=-]{6,1000}+(?=[ \t]{0,3}\r?\n)")  # part of a token before a line break
_MAX_TOKEN = 8_000  # characters


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)  # at first use: all together take 50 ms


class Engine:
    """The built-in rules, compiled: the rows of `forms` and `vendors` in `rules.toml`, and those of other modules."""

    def __init__(self) -> None:
        vendors, forms = data()["vendors"], data()["forms"]
        self._vendors: dict[str, list[tuple[str, str, str]]] = {}  # kind, pattern, check, by the first two characters
        for kind, prefixes, rest, check, *_ in vendors:
            pattern = f"(?:{'|'.join(map(re.escape, prefixes.split()))})(?:{expanded(rest)})"
            for two in {prefix[:2] for prefix in prefixes.split()}:
                self._vendors.setdefault(two, []).append((kind, pattern, check))
        finders: list[tuple[Finder, Iterable[str]]] = [
            (self._find_token, [prefix for row in vendors for prefix in row[1].split()]),
            (named.find, named.WORDS),
            (rows.find_table, rows.TABLE_WORDS),
            (rows.find_seed, rows.SEED_WORDS),
            (rows.find_cookies, rows.COOKIE_WORDS),
        ]
        signs: list[tuple[str, str, Finder]] = []  # first character, pattern of the rest
        for kind, literals, back, pattern, check in forms:
            form = partial(_find_form, (kind, back, expanded(pattern), CHECKS[check]))
            if literals[0] == "~":
                sign = literals[1:].lstrip("\\")
                signs.append((sign[0], sign[1:], form))
            else:
                finders.append((form, literals.split("|")))
        literals = {literal.lower() for _, own in finders for literal in own}
        self._literals = re.compile(alternatives(literals))
        # A literal found is the longest at its place; the finders of its beginnings run there too.
        self._finders: dict[str, dict[Finder, int]] = {literal: {} for literal in literals}
        for finder, own in finders:
            for part in map(str.lower, own):
                for literal in literals:
                    if literal.startswith(part):
                        size = max(len(part), self._finders[literal].get(finder, 0))
                        self._finders[literal][finder] = size
        self._signs = [finder for *_, finder in signs]
        # `re` looks fast for the first characters only if they are one set at the start of the pattern.
        ends = "|".join(f"(?<={re.escape(first)})({rest})" for first, rest, _ in signs)
        self._sign = re.compile(f"[{''.join(re.escape(first) for first, *_ in signs)}](?:{ends})")

    def find(self, text: str, *, in_path: bool = False) -> Iterator[Find]:
        """Yield the matches in a text as written. In a path, a card number needs no word for cards near it."""
        lower, reach = lowered(text), dict[Finder, int]()
        at = 0
        while (match := self._literals.search(lower, at)) is not None:
            start, at = match.start(), match.start() + 1  # literals may overlap
            for finder, size in self._finders[match[0]].items():
                if start >= reach.get(finder, 0):
                    finds, reach[finder] = finder(text, start, start + size)
                    yield from finds
        for match in self._sign.finditer(lower):
            yield from self._signs[(match.lastindex or 1) - 1](text, *match.span())[0]
        yield from numbers.find(text, in_path=in_path)

    def encoded(self, text: str, found: Sequence[Find]) -> Iterator[Find]:
        """Yield the URL-encoded or base64 parts of a text that contain a certain value when decoded.

        `found` has the matches of `find` in the same text. A part that contains one of them is left out.
        """
        view = decoded(text)
        if view is None:
            return
        starts = sorted(find.start for find in found)
        for find in self.find(view.text):
            span = view.span(find.start, find.end)
            if find.likely or span is None:
                continue
            if bisect.bisect_left(starts, span[1]) == bisect.bisect_left(starts, span[0]):
                yield Find(find.kind, *span)

    def _find_token(self, text: str, start: int, end: int) -> tuple[list[Find], int]:
        """Return the token of a vendor at a prefix, also if one line break splits it."""
        if not _BOUND.search(text[max(0, start - 3) : start]):
            return [], start
        find, stop = self._token(text, start)
        head = _HEAD.match(text, start)
        if head is not None and (find is None or find.end == head.end()):
            tail, follows = unwrapped(text, head.end())
            whole, _ = self._token(head[0] + tail, 0)
            size = whole.end - len(head[0]) if whole is not None else 0
            if whole is not None and size > 0 and (find is None or re.search("[0-9]", tail[:size])):
                return [Find(whole.kind, start, follows + size)], follows + size
        return [find] if find is not None else [], stop

    def _token(self, text: str, start: int) -> tuple[Find | None, int]:
        for kind, pattern, check in self._vendors.get(text[start : start + 2], ()):
            match = _compiled(pattern).match(text, start, start + _MAX_TOKEN)
            if match is None:
                continue
            value = match[0].rstrip(".-")
            stop = start + len(value)
            is_token = not _ALNUM.match(text, stop) and CHECKS[check](value)
            return (Find(kind, start, stop), stop) if is_token else (None, match.end())
        return None, start


def _find_form(
    form: tuple[str, int, str, Callable[[str], bool]], text: str, start: int, end: int
) -> tuple[list[Find], int]:
    """Return the match of a form at a literal. It begins at most `back` characters before the literal."""
    kind, back, pattern, check = form
    starts = _STARTS.finditer(text, max(0, start - back), start + 1) if back else ()
    for at in (*(place.start() for place in starts), start):
        match = _compiled(pattern).match(text, at)
        if match is not None and match.end() > start and check(match["value"]):
            is_weak = kind in {"password", "url_password", "connection_string"} and not is_strong(match["value"])
            return [Find(kind, *match.span("value"), likely=is_weak)], start
    return [], start


def alternatives(texts: Iterable[str]) -> str:
    """Return a pattern for the longest of the texts. Common beginnings are merged, which `re` does not do."""
    by_first: dict[str, set[str]] = {}
    for text in texts:
        by_first.setdefault(text[:1], set()).add(text[1:])
    branches = [re.escape(first) + alternatives(rests) for first, rests in by_first.items() if first]
    return f"(?:{'|'.join(branches)})" + "?" * ("" in by_first) if branches else ""
