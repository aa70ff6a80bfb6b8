"""Detector of sensitive values: vendor keys and tokens, private keys, passwords, card numbers, identity numbers.

The built-in rules examine a text as written, and again after undoing disguises such as encodings and invisible
characters. An application can add rules and functions. Each match (`Find`) has one of two grades. A *certain* match has
a form that nothing else has. A *likely* match is suggested only by its context. The detector does no I/O and stores no
text.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING

from retentive.errors import InvalidInput
from retentive.redaction.rules import KINDS, NAME, SPECIFIC_LAST, Find, Rule, data, with_changes
from retentive.redaction.views import JsonDocument, Span, View, document, escaped_lines, plain, unescaped

if TYPE_CHECKING:
    from retentive.redaction.engine import Engine

__all__ = ["KINDS", "Detector", "Find", "Rule"]

_MARKER = re.compile(r"\[(?i:REDACTED(?::[a-z][a-z0-9_-]{0,39})?)\]")
_MAX_LEVELS = 3  # texts in texts that are examined, such as the arguments of a tool call in a session
_MIN_STRING = 6  # characters; a shorter string of a document has no value


class Detector:
    """Finds sensitive values in texts, with the built-in rules and with the rules and functions of an application.

    `kinds` are the kinds of sensitive values to find, named as in `KINDS`; None means the kinds that are on by default.
    `rules` add patterns. `detectors` are functions that take a text and return matches. Raises `InvalidInput` for an
    invalid pattern. Threads may share a detector. Built-in patterns are compiled at first use.
    """

    def __init__(
        self,
        kinds: Collection[str] | None = None,
        rules: Sequence[Rule] = (),
        detectors: Sequence[Callable[[str], Iterable[Find]]] = (),
    ) -> None:
        self._kinds = frozenset(with_changes(None) if kinds is None else kinds)
        contacts = {"email", "phone"} & self._kinds
        by_pattern = [Rule(kind, data()["patterns"][kind], likely=kind == "phone") for kind in sorted(contacts)]
        self._rules, self._detectors = (*rules, *by_pattern), tuple(detectors)
        for rule in self._rules:
            _ = rule.compiled

    def find(self, text: str, *, in_path: bool = False) -> list[Find]:
        """Return the sensitive values in a text, in order and without overlaps.

        If `in_path` is true, the text is a path. In a path, a number with the form of a card number is certain. In
        other texts, such a number is certain only if a word such as "card" is near.
        """
        return self._find(text, in_path=in_path, levels=_MAX_LEVELS)

    def _find(self, text: str, *, in_path: bool, levels: int) -> list[Find]:
        """Return the matches in a text, and in the texts in it down to `levels` levels."""
        has_rules = self._rules or self._detectors
        has_escapes = levels > 0 and "\\" in text
        finds = list(self._built_in(text, in_path=in_path))
        if has_escapes:  # backslashes at the end of a match belong to the quote behind it
            for at, find in enumerate(finds):
                if text[find.end : find.end + 1] in {'"', "'"}:
                    size = len(text[find.start : find.end].rstrip("\\"))
                    finds[at] = find._replace(end=find.start + max(size, 1))
        whole = document(text)
        if has_rules:
            by_rules = self._by_rules(text)
            finds += (
                by_rules if whole is None else (find for find in by_rules if whole.has_in_one(find.start, find.end))
            )
        if whole is not None:
            finds = self._in_document(whole, finds, in_path=in_path, levels=levels)
        elif has_escapes:
            lines = unescaped(text, escaped_lines(text))
            inner = self._find(lines.text, in_path=in_path, levels=levels - 1)
            finds += (find for find in _moved_back(inner, lines) if not find.likely)
        markers = [match.span() for match in _MARKER.finditer(text)] if "[" in text else []
        starts = [start for start, _ in markers]
        outside = [
            find
            for find in finds
            if (before := bisect.bisect_left(starts, find.end)) == 0 or markers[before - 1][1] <= find.start
        ]
        return _without_overlaps(outside)

    def _in_document(self, whole: JsonDocument, finds: list[Find], *, in_path: bool, levels: int) -> list[Find]:
        """Return the parts of `finds` in the strings of a document, and the matches in each string as its own text.

        The built-in rules examine many strings at once, with joints between them that no match crosses.
        """
        plain_strings: list[Span] = []
        documents: set[Span] = set()
        inner: list[Find] = []
        for span in whole.strings(_MIN_STRING):
            value = unescaped(whole.text, [span])
            if levels > 0 and ("\\" in value.text or document(value.text) is not None):
                inner += _moved_back(self._find(value.text, in_path=in_path, levels=levels - 1), value)
                if document(value.text) is not None:
                    documents.add(span)
            else:
                plain_strings.append(span)
                inner += _moved_back(self._by_rules(value.text), value)
        together = unescaped(whole.text, plain_strings)
        inner += _moved_back(self._built_in(together.text, in_path=in_path), together)
        rest = JsonDocument(whole.text, [span for span in whole.literals if span not in documents])
        parts = ((find, span) for find in finds for span in rest.inside(find.start, find.end))
        return [*inner, *(find._replace(start=start, end=end) for find, (start, end) in parts)]

    def _built_in(self, text: str, *, in_path: bool) -> Iterator[Find]:
        if not self._kinds:
            return
        seen, view = plain(text)
        found = list(_engine().find(seen, in_path=in_path))
        for find in [*found, *_engine().encoded(seen, found)]:
            if find.kind in self._kinds:
                yield from [find] if view is None else _moved_back([find], view)

    def _by_rules(self, text: str) -> Iterator[Find]:
        for rule in self._rules:
            group = "value" if "value" in rule.compiled.groupindex else 0
            for match in rule.compiled.finditer(text):
                start, end = match.span(group)
                if 0 <= start < end and (rule.check is None or rule.check(match[group])):
                    yield Find(rule.name, start, end, likely=rule.likely)
        for detector in self._detectors:
            for find in detector(text):
                if not 0 <= find.start < find.end <= len(text):
                    raise InvalidInput("a detector returned a match with a position outside the text")
                if not NAME.fullmatch(find.kind):
                    raise InvalidInput("a detector returned a match whose kind has an invalid name")
                yield find


def replaced(text: str, finds: Iterable[Find]) -> str:
    """Replace each match in a text by `[REDACTED:{kind}]`. A JSON document stays a JSON document."""
    finds = list(finds)
    whole, names = document(text) if finds else None, Counter[str]()
    parts, at = [], 0
    for find in finds:
        marker = f"[REDACTED:{find.kind}]"
        if whole is not None and whole.is_number(find.start):
            marker = f'"{marker}"'
        elif whole is not None and whole.is_key(find.start):  # two fields of an object must not get the same name
            names[marker] += 1
            number = names[marker] + text.count(f'"{marker}')
            marker += f" {number}" if number > 1 else ""
        parts += [text[at : find.start], marker]
        at = find.end
    return "".join([*parts, text[at:]])


def _moved_back(finds: Iterable[Find], view: View) -> Iterator[Find]:
    """Yield matches in a view as matches in its original text."""
    for find in finds:
        span = view.span(find.start, find.end)
        if span is not None:
            yield Find(find.kind, *span, likely=find.likely)


@cache
def _engine() -> Engine:
    from retentive.redaction.engine import Engine  # noqa: PLC0415 - compiles its patterns, which takes some 50 ms

    return Engine()


def _without_overlaps(finds: Iterable[Find]) -> list[Find]:
    """Merge overlapping matches.

    The merged match has the kind of the best match in it. A certain match is better than a likely match. If both are
    certain or both are likely, the more specific kind is better. If the kinds are equally specific, the longer match is
    better.
    """

    def rank(find: Find) -> tuple[bool, int, int]:
        order = SPECIFIC_LAST.index(find.kind) if find.kind in SPECIFIC_LAST else -1
        return find.likely, order, find.start - find.end

    merged: list[Find] = []
    for find in sorted(finds, key=attrgetter("start")):
        if merged and find.start < merged[-1].end:
            last = merged.pop()
            best = min(last, find, key=rank)
            start, end = (best.start, best.end) if last.likely != find.likely else (last.start, max(last.end, find.end))
            merged.append(Find(best.kind, start, end, likely=best.likely))
        else:
            merged.append(find)
    return merged
