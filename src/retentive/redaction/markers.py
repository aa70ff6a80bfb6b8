"""`[REDACTED:{kind}]` markers in text: a marker is not a value, but it must not hide the rest of one."""

from __future__ import annotations

import bisect
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from retentive.redaction.plausibility import is_obvious
from retentive.redaction.rules import Find

MIN_REMAINDER = 5  # characters of a value left next to a marker

_MARKER = re.compile(r"\[(?:REDACTED|redacted)(?:\]|:(?P<name>[^\s\[\]]{1,100})(?P<closed>\]?))")
_START, _STARTS = "[REDACTED:", ("[REDACTED", "[redacted")
_SIGNS = r"[#$%!*+~^_-]{0,3}"
_BEFORE = re.compile(rf"[A-Za-z0-9]{_SIGNS}$")
_AFTER = re.compile(rf"{_SIGNS}[A-Za-z0-9]")
_REMAINDER = re.compile(r"([./@:=&\\-]?)([^\s\"'`<>|,;()\[\]{}]{5,100})")
_BOTH = re.compile(r"(?=.*[A-Za-z]).*[0-9]")


@dataclass(frozen=True, slots=True)
class StrippedText:
    """Text for the rules to scan, and the mapping of its positions to the original text.

    A marker of a known kind stays if it is a whole value. If other characters touch it, the marker is removed and the
    characters are scanned. For text that only looks like a marker, the inside is scanned.
    """

    text: str
    original: str
    whole: tuple[tuple[int, int], ...]  # spans in `original` of the markers that stayed
    cuts: tuple[tuple[int, int], ...]  # positions in `text`, each with the number of characters removed before it

    def finds(self, found: Iterable[Find]) -> Iterator[Find]:
        """Translate finds in `text` to positions in `original`."""
        for find in found:
            start, end = self._position(find.start), self._position(find.end - 1) + 1
            before = start - len(_START)
            if before >= 0 and self.original[before:start].upper() == _START and self.original.startswith("]", end):
                start, end = before, end + 1  # include the brackets of the false marker
            yield Find(find.kind, start, end)

    def _position(self, at: int) -> int:
        before = bisect.bisect_right(self.cuts, at, key=lambda cut: cut[0])
        return at + (self.cuts[before - 1][1] if before else 0)


def strip_markers(text: str, found: Iterable[re.Match[str]], known: Collection[str]) -> StrippedText:
    """Remove the markers `found` in a text that touch other characters. `known` are the valid kinds of a marker."""
    parts, cuts, whole, read_to, removed = [], [], [], 0, 0
    for start, end, is_marker in _spans(found, known):
        replacement = _replacement(text, start, end) if is_marker else ""
        if replacement is None:
            whole.append((start, end))
            continue
        parts += [text[read_to:start], replacement]
        removed += end - start - len(replacement)
        cuts.append((end - removed, removed))
        read_to = end
    return StrippedText("".join([*parts, text[read_to:]]), text, tuple(whole), tuple(cuts))


def markers(text: str) -> list[re.Match[str]]:
    """Everything that looks like a marker, in order."""
    found = []
    for start in _STARTS:  # ten times faster than one pattern with two starts
        at = text.find(start)
        while at >= 0:
            match = _MARKER.match(text, at)
            found += [match] if match else []
            at = text.find(start, at + len(start))
    return sorted(found, key=re.Match.start)


def remainders(text: str, found: Iterable[re.Match[str]], known: Collection[str]) -> Iterator[Find]:
    """Text directly after a marker that looks like the rest of the redacted value."""
    for match in found:
        name = match["name"] or "secret"
        rest = _REMAINDER.match(text, match.end()) if name in known and match["closed"] != "" else None
        if rest is None:
            continue
        value = rest[2].rstrip(".:!?*_~-")
        if is_obvious(value) or (not rest[1] and len(value) >= MIN_REMAINDER and _BOTH.match(value)):
            yield Find(name, rest.start(2), rest.start(2) + len(value))


def _spans(found: Iterable[re.Match[str]], known: Collection[str]) -> Iterator[tuple[int, int, bool]]:
    """Spans of markers, adjacent ones merged (True), and of text that only starts like a marker (False)."""
    row: tuple[int, int] | None = None
    for match in found:
        name = match["name"]
        is_marker = name is None or name in known
        if row is not None and not (is_marker and row[1] == match.start()):
            yield (*row, True)
            row = None
        if is_marker and match["closed"] != "":
            row = (row[0] if row else match.start(), match.end())
        elif not is_marker:
            yield match.start(), match.start("name"), False
    if row is not None:
        yield (*row, True)


def _replacement(text: str, start: int, end: int) -> str | None:
    """Text to scan in place of a marker: a quote ends the value before it. None if the marker is a whole value."""
    if _AFTER.match(text, end):
        return ""
    return '"' if _BEFORE.search(text[max(0, start - 4) : start]) else None
