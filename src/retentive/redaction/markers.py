"""Markers of what was redacted before: those that excuse a value, and those that would hide one."""

from __future__ import annotations

import bisect
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from retentive.redaction.plausibility import is_telling
from retentive.redaction.rules import Find

MIN_REST = 5  # characters of a value that a marker is stuck to

_MARKER = re.compile(r"\[(?:REDACTED|redacted)(?:\]|:(?P<name>[^\s\[\]]{1,100})(?P<closed>\]?))")
_START, _STARTS = "[REDACTED:", ("[REDACTED", "[redacted")
_SIGNS = r"[#$%!*+~^_-]{0,3}"
_BEFORE = re.compile(rf"[A-Za-z0-9]{_SIGNS}$")
_AFTER = re.compile(rf"{_SIGNS}[A-Za-z0-9]")
_REST = re.compile(r"([./@:=&\\-]?)([^\s\"'`<>|,;()\[\]{}]{5,100})")
_BOTH = re.compile(r"(?=.*[A-Za-z]).*[0-9]")


@dataclass(frozen=True, slots=True)
class Unmarked:
    """A text as the rules are to read it, and how its places are those of the text that was given.

    A marker of a known kind stays where it is a whole value. Where characters touch it, it is taken out, so that what
    is left of a value is read. Of what only looks like a marker, the inside is read.
    """

    text: str
    given: str
    whole: tuple[tuple[int, int], ...]  # the markers that stayed, by their places in what was given
    cuts: tuple[tuple[int, int], ...]  # places in `text`, and how many characters were taken out up to each

    def finds(self, found: Iterable[Find]) -> Iterator[Find]:
        """The finds of `text` by their places in what was given."""
        for find in found:
            start, end = self._given(find.start), self._given(find.end - 1) + 1
            before = start - len(_START)
            if before >= 0 and self.given[before:start].upper() == _START and self.given.startswith("]", end):
                start, end = before, end + 1  # the whole of what is no marker
            yield Find(find.kind, start, end)

    def _given(self, at: int) -> int:
        before = bisect.bisect_right(self.cuts, at, key=lambda cut: cut[0])
        return at + (self.cuts[before - 1][1] if before else 0)


def unmarked(text: str, found: Iterable[re.Match[str]], known: Collection[str]) -> Unmarked:
    """A text without those of the markers `found` in it that would hide a part of a value.

    `known` are the kinds that a marker may name.
    """
    parts, cuts, whole, read_to, taken = [], [], [], 0, 0
    for start, end, is_marker in _spans(found, known):
        put = _instead(text, start, end) if is_marker else ""
        if put is None:
            whole.append((start, end))
            continue
        parts += [text[read_to:start], put]
        taken += end - start - len(put)
        cuts.append((end - taken, taken))
        read_to = end
    return Unmarked("".join([*parts, text[read_to:]]), text, tuple(whole), tuple(cuts))


def markers(text: str) -> list[re.Match[str]]:
    """All that looks like a marker, by place."""
    found = []
    for start in _STARTS:  # `find` is ten times faster than a pattern that may start in two ways
        at = text.find(start)
        while at >= 0:
            match = _MARKER.match(text, at)
            found += [match] if match else []
            at = text.find(start, at + len(start))
    return sorted(found, key=re.Match.start)


def rests(text: str, found: Iterable[re.Match[str]], known: Collection[str]) -> Iterator[Find]:
    """What directly follows a marker and looks like the rest of the value that it stands for."""
    for match in found:
        name = match["name"] or "secret"
        rest = _REST.match(text, match.end()) if name in known and match["closed"] != "" else None
        if rest is None:
            continue
        value = rest[2].rstrip(".:!?*_~-")
        if is_telling(value) or (not rest[1] and len(value) >= MIN_REST and _BOTH.match(value)):
            yield Find(name, rest.start(2), rest.start(2) + len(value))


def _spans(found: Iterable[re.Match[str]], known: Collection[str]) -> Iterator[tuple[int, int, bool]]:
    """Where markers stand, those in a row as one, and where something only starts like a marker."""
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


def _instead(text: str, start: int, end: int) -> str | None:
    """What the rules read instead of a marker: a quote ends the value before it; None if it is a whole value."""
    if _AFTER.match(text, end):
        return ""
    return '"' if _BEFORE.search(text[max(0, start - 4) : start]) else None
