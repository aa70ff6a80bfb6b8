"""Texts in texts: the strings of a JSON document, and lines with escaped quotes as in program code.

A view converts positions back, so that a match in the view becomes a match in the original text.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Span = tuple[int, int]
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*+"|-?\d[\d.eE+-]*')
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\[\"'\\/nrtbf]"
)
_CHARS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_ESCAPED = re.compile(r"\\[\"'\\nrtux]")
_NAME_END = re.compile(r'"[ \t\r\n]*:')
_LONGEST_ESCAPE = 12
_JOINT = "\n\0\n"  # between texts that are examined together: no value and no key goes on behind it


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """The strings and numbers of a JSON document or of JSON lines, as positions in its text without quotes."""

    text: str
    literals: list[Span]

    def inside(self, start: int, end: int) -> Iterator[Span]:
        """Yield the parts of a span that lie in strings and numbers. No part cuts an escape, or a number."""
        first = bisect_right(self.literals, (start, end)) - 1
        for begin, stop in self.literals[max(first, 0) :]:
            if begin >= end:
                break
            low, high = max(start, begin), min(end, stop)
            if low < high:
                yield (begin, stop) if self.is_number(begin) else _whole_escapes(self.text, begin, stop, low, high)

    def has_in_one(self, start: int, end: int) -> bool:
        """Return whether a span lies in one string or number."""
        last = bisect_right(self.literals, (start, len(self.text))) - 1
        return last >= 0 and end <= self.literals[last][1]

    def strings(self, least: int) -> list[Span]:
        """Return the strings of at least `least` characters."""
        return [span for span in self.literals if span[1] - span[0] >= least and not self.is_number(span[0])]

    def is_number(self, position: int) -> bool:
        """Return whether the literal that contains a position is a number."""
        begin, _ = self.literals[bisect_right(self.literals, (position, len(self.text))) - 1]
        return self.text[begin - 1 : begin] != '"'

    def is_key(self, position: int) -> bool:
        """Return whether the literal that contains a position is the name of a field."""
        _, stop = self.literals[bisect_right(self.literals, (position, len(self.text))) - 1]
        return _NAME_END.match(self.text, stop) is not None


@dataclass(frozen=True, slots=True)
class Unescaped:
    """Parts of a text with their escapes undone. `marks` has pairs of positions, in `text` and in the original."""

    text: str
    marks: list[Span]
    joints: list[int]

    def span(self, start: int, end: int) -> Span | None:
        """Return the span in the original. None if the span of `text` belongs to more than one part."""
        joint = bisect_left(self.joints, start)
        if joint < len(self.joints) and self.joints[joint] < end:
            return None
        return self._origin(start), self._origin(end)

    def _origin(self, position: int) -> int:
        mark, origin = self.marks[bisect_right(self.marks, (position, 1 << 62)) - 1]
        return origin + position - mark


def document(text: str) -> JsonDocument | None:
    """Return the strings and numbers of a JSON document, or of JSON lines. None for any other text."""
    if text.lstrip(" \t\r\n")[:1] not in {"{", "["} or not (_is_json(text) or _is_json_lines(text)):
        return None
    spans = (match.span() for match in _LITERAL.finditer(text))
    return JsonDocument(text, [(start + 1, end - 1) if text[start] == '"' else (start, end) for start, end in spans])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_json_lines(text: str) -> bool:
    lines = [line for line in text.split("\n") if line.strip()]
    return len(lines) > 1 and all(line.lstrip()[0] in "{[" and _is_json(line) for line in lines)


def escaped_lines(text: str) -> list[Span]:
    """Return the runs of lines that have an escape."""
    runs: list[Span] = []
    at = 0
    while (match := _ESCAPED.search(text, at)) is not None:
        begin, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end()) + 1
        at = end or len(text)
        if runs and runs[-1][1] == begin:
            begin = runs.pop()[0]
        runs.append((begin, at))
    return runs


def unescaped(text: str, parts: Iterable[Span]) -> Unescaped:
    """Undo the escapes in parts of a text, with a joint between two parts."""
    pieces: list[str] = []
    marks: list[Span] = []
    joints: list[int] = []
    size = 0
    for begin, stop in parts:
        if pieces:
            joints.append(size)
            pieces.append(_JOINT)
            size += len(_JOINT)
        marks.append((size, begin))
        at = begin
        for match in _ESCAPE.finditer(text, begin, stop):
            pieces += [text[at : match.start()], _char(match[0])]
            size += match.start() - at + 1
            at = match.end()
            marks.append((size, at))
        pieces.append(text[at:stop])
        size += stop - at
    return Unescaped("".join(pieces), marks, joints)


def _char(escape: str) -> str:
    if len(escape) == 12:
        return chr(0x10000 + ((int(escape[2:6], 16) & 0x3FF) << 10) + (int(escape[8:], 16) & 0x3FF))
    if escape[1] in "ux" and len(escape) > 2:
        return chr(int(escape[2:6], 16))
    return _CHARS.get(escape[1], escape[1])


def _whole_escapes(text: str, begin: int, stop: int, start: int, end: int) -> Span:
    at = max(begin, start - _LONGEST_ESCAPE)
    while at > begin and text[at - 1] == "\\":
        at -= 1
    for match in _ESCAPE.finditer(text, at, stop):
        if match.start() >= end:
            break
        if match.end() > start:
            start, end = min(start, match.start()), max(end, match.end())
    return start, end
