"""Finds sensitive values in a text: keys and tokens of vendors, private keys, passwords, numbers of cards and people.

A text is read in stretches. One pass (RE2, if it is installed) says which of some 300 short texts occur in a stretch;
only the rules that they belong to look closer, at their places. Nothing here does I/O or keeps a text.
"""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from retentive.errors import InvalidInput
from retentive.redaction import assignments as assigned
from retentive.redaction.kinds import KINDS, SPECIFIC_LAST
from retentive.redaction.markers import markers, rests, unmarked
from retentive.redaction.prefilter import Anchor, Prefilter, lowered, prefilter
from retentive.redaction.rules import HOLDS_WITHIN, NAME, Find, Kind, Rule

__all__ = ["KINDS", "Detector", "Find", "Kind", "Rule"]

_STRETCH = 4096  # characters: near enough for a find to be worked on, long enough for the pass to be fast
_OVERLAP = 2 * HOLDS_WITHIN
_REACH = 1024  # no match of a rule with `holds` or a gate of ours is longer
_LONG = 400  # characters: longer than tokens whose alphabet could hide another one
_Work = Callable[[str, int, int, str], Iterator[Find]]


class Detector:
    """Finds the values of some kinds, and of an application's own rules and functions, in texts.

    `kinds` are names of `KINDS` (default: those that are on by default), `rules` add patterns, `detectors` are
    functions that give finds of their own. Raises `InvalidInput` for an unknown kind or a bad pattern. Threads may
    share it. Patterns are compiled at first use, once for all detectors with the same kinds.
    """

    def __init__(
        self,
        kinds: Collection[str] | None = None,
        rules: Sequence[Rule] = (),
        detectors: Sequence[Callable[[str], Iterable[Find]]] = (),
    ) -> None:
        self._kinds = _known(kinds)
        self._rules, self._detectors = tuple(rules), tuple(detectors)
        for rule in self._rules:
            _ = rule.compiled
        self._names = {*KINDS, *(rule.name for rule in self._rules)}  # and what the functions gave
        self._with_re2: bool | None = None

    def find(self, text: str) -> list[Find]:
        """The sensitive values in a text, by place, none overlapping another."""
        found = list(self._by_rules(text))
        marked = markers(text)
        if not marked:
            return _apart([*self._by_kind(text), *found])
        self._names.update(find.kind for find in found)
        read = unmarked(text, marked, self._names)
        by_kind = [*read.finds(self._by_kind(read.text)), *rests(text, marked, self._kinds)]
        known = [match.span() for match in marked if match["name"] in self._names]
        return _apart([*_outside(by_kind, read.whole), *_outside(found, known)])

    def redact(self, text: str) -> tuple[str, list[str]]:
        """The text with `[REDACTED:{kind}]` for every value, and the kinds in the order of their places.

        A text it gave has no finds. A marker that names a known kind excuses a value if it is the whole of it.
        """
        kinds: list[str] = []
        while found := self.find(text):
            parts, at = [], 0
            for find in found:
                parts += [text[at : find.start], f"[REDACTED:{find.kind}]"]
                at = find.end
            text = "".join([*parts, text[at:]])
            kinds += [find.kind for find in found]
        return text, kinds

    def quick(self) -> Callable[[bytes], object] | None:
        """Tells for the UTF-8 of a short text whether a rule may find something; None if all must be examined."""
        if self._rules or self._detectors:
            return None
        return _engine(self._kinds, self._with_re2).prefilter

    def _by_kind(self, text: str) -> Iterator[Find]:
        engine = _engine(self._kinds, self._with_re2)
        for start in range(0, len(text), _STRETCH):
            end = min(start + _STRETCH, len(text))
            yield from engine.find(text, start, end)

    def _by_rules(self, text: str) -> Iterator[Find]:
        for rule in self._rules:
            hints = [part.lower() if rule.ignore_case else part for part in (*rule.starts, *rule.holds)]
            if not hints or any(part in (lowered(text) if rule.ignore_case else text) for part in hints):
                yield from filter(None, map(rule.found, rule.compiled.finditer(text)))
        for detector in self._detectors:
            for find in detector(text):
                if not (0 <= find.start < find.end <= len(text) and NAME.fullmatch(find.kind)):
                    raise InvalidInput("a detector gave a find outside the text, or a kind that is no name")
                yield find


class _Engine:
    """The rules of some kinds, arranged by what shows that they may apply."""

    def __init__(self, kinds: frozenset[str], with_re2: bool | None) -> None:
        work: dict[Anchor, list[_Work]] = {}
        for rule in _own_rules():
            if rule.name in kinds:
                for anchor, job in _jobs(rule):
                    work.setdefault(anchor, []).append(job)
        for word, kind in assigned.WORDS.items():
            if kind in kinds:
                work.setdefault(Anchor(word, any_case=True, then=assigned.then(word)), []).append(_reader(word))
        self._work = list(work.values())
        self.prefilter: Prefilter = prefilter(list(work), with_re2=with_re2)

    def find(self, text: str, start: int, end: int) -> Iterator[Find]:
        """What starts between two places of a text."""
        stretch = text[start : end + _OVERLAP]
        hits = self.prefilter(stretch.encode("utf-8", "replace"))
        if not hits:
            return
        small = lowered(stretch)
        seen: set[int] = set()
        for index in hits:
            for job in self._work[index]:
                if id(job) not in seen:
                    seen.add(id(job))
                    yield from job(text, start, end, small)


def _jobs(rule: Rule) -> Iterator[tuple[Anchor, _Work]]:
    """What to look for, and what to do in a stretch where it occurs."""
    for part in rule.starts:
        anchor = Anchor(part.lower() if rule.ignore_case else part, any_case=rule.ignore_case, then=rule.then)
        yield anchor, _at_places(rule, anchor)
    work = _near_places(rule) if rule.holds else _scan(rule)
    if rule.gate:
        yield Anchor(rule.gate, is_pattern=True), work
        return
    for part in rule.holds:
        yield Anchor(part), work


def _at_places(rule: Rule, anchor: Anchor) -> _Work:
    def work(text: str, start: int, end: int, small: str) -> Iterator[Find]:
        read_to = 0
        for at in _places(small if anchor.any_case else text[start : end + _OVERLAP], anchor.text, end - start):
            if start + at < read_to:
                continue
            match = rule.compiled.match(text, start + at)
            if match is not None and match.end() - match.start() > _LONG:
                read_to = match.end()  # else a text of nothing but starts is read to its end from each of them
            find = rule.found(match) if match else None
            if find is not None:
                yield find

    return work


def _near_places(rule: Rule) -> _Work:
    """Reads a rule only where one of its `holds` is among the first characters of a match."""

    def work(text: str, start: int, end: int, small: str) -> Iterator[Find]:
        stretch = small if rule.ignore_case else text[start : end + _OVERLAP]
        read_to = 0
        for at in sorted({at for part in rule.holds for at in _places(stretch, part, len(stretch))}):
            for first in range(max(read_to, at - _OVERLAP, 0), min(at + 1, end - start)):
                if first < read_to:
                    continue
                match = rule.compiled.match(text, start + first)
                read_to = match.end() - start if match else first + 1
                find = rule.found(match) if match else None
                if find is not None:
                    yield find

    return work


def _scan(rule: Rule) -> _Work:
    def work(text: str, start: int, end: int, _small: str) -> Iterator[Find]:
        reach = min(end + _REACH, len(text))
        for match in rule.compiled.finditer(text, start, reach):
            if match.start() >= end:
                return
            find = rule.found(match)
            if find is not None:
                yield find

    return work


def _reader(word: str) -> _Work:
    def work(text: str, start: int, end: int, small: str) -> Iterator[Find]:
        for at in _places(small, word, end - start):
            yield from assigned.read(text, start + at, word)

    return work


def _places(stretch: str, part: str, end: int) -> Iterator[int]:
    at = stretch.find(part)
    while -1 < at < end:
        yield at
        at = stretch.find(part, at + 1)


@lru_cache(maxsize=32)
def _engine(kinds: frozenset[str], with_re2: bool | None) -> _Engine:
    return _Engine(kinds, with_re2)


@lru_cache(maxsize=1)
def _own_rules() -> list[Rule]:
    from retentive.redaction.forms import FORMS  # noqa: PLC0415
    from retentive.redaction.shell_commands import COMMANDS  # noqa: PLC0415 - read at first use, not at import
    from retentive.redaction.tokens import TOKENS  # noqa: PLC0415

    return [*TOKENS, *FORMS, *COMMANDS]


def _known(kinds: Collection[str] | None) -> frozenset[str]:
    if kinds is None:
        return frozenset(name for name, kind in KINDS.items() if kind.on)
    if isinstance(kinds, str):
        raise InvalidInput("kinds is a collection of names, not one text")
    for name in kinds:
        if name not in KINDS:
            near = difflib.get_close_matches(name, KINDS, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise InvalidInput(f"{name!r} is no kind of sensitive value.{meant} Known: {', '.join(sorted(KINDS))}")
    return frozenset(kinds)


def _outside(found: Iterable[Find], markers: Sequence[tuple[int, int]]) -> Iterator[Find]:
    """The finds without what was redacted before."""
    starts = [start for start, _ in markers]
    for find in found:
        before = bisect.bisect_left(starts, find.end)
        if before == 0 or markers[before - 1][1] <= find.start:
            yield find


def _apart(found: Iterable[Find]) -> list[Find]:
    """One find for all that overlap: from the first character to the last, of the most special and longest kind."""
    apart: list[Find] = []
    for find in sorted(found, key=lambda find: (find.start, -find.end)):
        if apart and find.start < apart[-1].end:
            last = apart.pop()
            best = min(last, find, key=_rank)
            apart.append(Find(best.kind, last.start, max(last.end, find.end)))
        else:
            apart.append(find)
    return apart


def _rank(find: Find) -> tuple[int, int]:
    general = SPECIFIC_LAST.index(find.kind) + 1 if find.kind in SPECIFIC_LAST else 0
    return general, find.start - find.end
