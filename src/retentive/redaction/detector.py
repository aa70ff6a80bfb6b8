"""Detector of sensitive values: vendor keys and tokens, private keys, passwords, card and identity numbers.

A text is scanned in chunks. One pass (with RE2, if installed) reports which of about 300 anchors occur in a chunk.
Only the rules of those anchors run, at the positions of the anchors. Nothing here does I/O or stores text.
"""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from retentive.errors import InvalidInput
from retentive.redaction import assignments
from retentive.redaction.kinds import KINDS, SPECIFIC_LAST
from retentive.redaction.markers import markers, remainders, strip_markers
from retentive.redaction.prefilter import Anchor, Prefilter, lowered, prefilter
from retentive.redaction.rules import HOLDS_WITHIN, NAME, Find, Kind, Rule

__all__ = ["KINDS", "Detector", "Find", "Kind", "Rule"]

_CHUNK = 4096  # characters: short enough that an anchor narrows the search, long enough for a fast pass
_OVERLAP = 2 * HOLDS_WITHIN
_REACH = 1024  # characters: the longest match of a built-in rule with `holds` or a gate
_LONG = 400  # characters: a longer match is skipped as a whole; a shorter one may contain another token
_Job = Callable[[str, int, int, str], Iterator[Find]]


class Detector:
    """Finds sensitive values of the given kinds, and those of an application's own rules and functions.

    `kinds` are names from `KINDS` (default: the kinds that are on by default). `rules` add patterns. `detectors` are
    functions that return finds. Raises `InvalidInput` for an unknown kind or an invalid pattern. Threads may share a
    detector. Patterns are compiled at first use, once per set of kinds.
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
        self._names = {*KINDS, *(rule.name for rule in self._rules)}  # plus kinds that the functions return
        self._with_re2: bool | None = None

    def find(self, text: str) -> list[Find]:
        """The sensitive values in a text, in order and without overlaps."""
        found = list(self._by_rules(text))
        marked = markers(text)
        if not marked:
            return _without_overlaps([*self._by_kind(text), *found])
        self._names.update(find.kind for find in found)
        stripped = strip_markers(text, marked, self._names)
        by_kind = [*stripped.finds(self._by_kind(stripped.text)), *remainders(text, marked, self._kinds)]
        known = [match.span() for match in marked if match["name"] in self._names]
        return _without_overlaps([*_outside(by_kind, stripped.whole), *_outside(found, known)])

    def redact(self, text: str) -> tuple[str, list[str]]:
        """Replace every value by `[REDACTED:{kind}]`; return the new text and the kinds, in order.

        The new text has no finds. A marker of a known kind that is a whole value stays.
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
        """Return a test of whether a rule may match a short UTF-8 text, or None if every text must be checked."""
        if self._rules or self._detectors:
            return None
        return _engine(self._kinds, self._with_re2).prefilter

    def _by_kind(self, text: str) -> Iterator[Find]:
        engine = _engine(self._kinds, self._with_re2)
        for start in range(0, len(text), _CHUNK):
            end = min(start + _CHUNK, len(text))
            yield from engine.find(text, start, end)

    def _by_rules(self, text: str) -> Iterator[Find]:
        for rule in self._rules:
            hints = [part.lower() if rule.ignore_case else part for part in (*rule.starts, *rule.holds)]
            if not hints or any(part in (lowered(text) if rule.ignore_case else text) for part in hints):
                yield from filter(None, map(rule.to_find, rule.compiled.finditer(text)))
        for detector in self._detectors:
            for find in detector(text):
                if not (0 <= find.start < find.end <= len(text) and NAME.fullmatch(find.kind)):
                    raise InvalidInput("a detector returned a find outside the text or with an invalid kind name")
                yield find


class _Engine:
    """The rules of a set of kinds, grouped by their anchors."""

    def __init__(self, kinds: frozenset[str], with_re2: bool | None) -> None:
        jobs: dict[Anchor, list[_Job]] = {}
        for rule in _own_rules():
            if rule.name in kinds:
                for anchor, job in _jobs(rule):
                    jobs.setdefault(anchor, []).append(job)
        for word, kind in assignments.WORDS.items():
            if kind in kinds:
                jobs.setdefault(Anchor(word, any_case=True, then=assignments.then(word)), []).append(_reader(word))
        self._jobs = list(jobs.values())
        self.prefilter: Prefilter = prefilter(list(jobs), with_re2=with_re2)

    def find(self, text: str, start: int, end: int) -> Iterator[Find]:
        """The finds that start between two positions of a text."""
        chunk = text[start : end + _OVERLAP]
        hits = self.prefilter(chunk.encode("utf-8", "replace"))
        if not hits:
            return
        lower_case = lowered(chunk)
        seen: set[int] = set()
        for index in hits:
            for job in self._jobs[index]:
                if id(job) not in seen:
                    seen.add(id(job))
                    yield from job(text, start, end, lower_case)


def _jobs(rule: Rule) -> Iterator[tuple[Anchor, _Job]]:
    """The anchors of a rule, each with the job to run in a chunk that contains it."""
    for part in rule.starts:
        anchor = Anchor(part.lower() if rule.ignore_case else part, any_case=rule.ignore_case, then=rule.then)
        yield anchor, _at_places(rule, anchor)
    job = _near_places(rule) if rule.holds else _scan(rule)
    if rule.gate:
        yield Anchor(rule.gate, is_pattern=True), job
        return
    for part in rule.holds:
        yield Anchor(part), job


def _at_places(rule: Rule, anchor: Anchor) -> _Job:
    def job(text: str, start: int, end: int, lower_case: str) -> Iterator[Find]:
        read_to = 0
        for at in _places(lower_case if anchor.any_case else text[start : end + _OVERLAP], anchor.text, end - start):
            if start + at < read_to:
                continue
            match = rule.compiled.match(text, start + at)
            if match is not None and match.end() - match.start() > _LONG:
                read_to = match.end()  # without this, text made only of starts takes quadratic time
            find = rule.to_find(match) if match else None
            if find is not None:
                yield find

    return job


def _near_places(rule: Rule) -> _Job:
    """Match a rule only at positions just before one of its `holds` texts."""

    def job(text: str, start: int, end: int, lower_case: str) -> Iterator[Find]:
        chunk = lower_case if rule.ignore_case else text[start : end + _OVERLAP]
        read_to = 0
        for at in sorted({at for part in rule.holds for at in _places(chunk, part, len(chunk))}):
            for first in range(max(read_to, at - _OVERLAP, 0), min(at + 1, end - start)):
                if first < read_to:
                    continue
                match = rule.compiled.match(text, start + first)
                read_to = match.end() - start if match else first + 1
                find = rule.to_find(match) if match else None
                if find is not None:
                    yield find

    return job


def _scan(rule: Rule) -> _Job:
    def job(text: str, start: int, end: int, _lower_case: str) -> Iterator[Find]:
        reach = min(end + _REACH, len(text))
        for match in rule.compiled.finditer(text, start, reach):
            if match.start() >= end:
                return
            find = rule.to_find(match)
            if find is not None:
                yield find

    return job


def _reader(word: str) -> _Job:
    def job(text: str, start: int, end: int, lower_case: str) -> Iterator[Find]:
        for at in _places(lower_case, word, end - start):
            yield from assignments.find_values(text, start + at, word)

    return job


def _places(chunk: str, part: str, end: int) -> Iterator[int]:
    at = chunk.find(part)
    while -1 < at < end:
        yield at
        at = chunk.find(part, at + 1)


@lru_cache(maxsize=32)
def _engine(kinds: frozenset[str], with_re2: bool | None) -> _Engine:
    return _Engine(kinds, with_re2)


@lru_cache(maxsize=1)
def _own_rules() -> list[Rule]:
    from retentive.redaction.forms import FORMS  # noqa: PLC0415
    from retentive.redaction.shell_commands import COMMANDS  # noqa: PLC0415 - imported at first use
    from retentive.redaction.tokens import TOKENS  # noqa: PLC0415

    return [*TOKENS, *FORMS, *COMMANDS]


def _known(kinds: Collection[str] | None) -> frozenset[str]:
    if kinds is None:
        return frozenset(name for name, kind in KINDS.items() if kind.on)
    if isinstance(kinds, str):
        raise InvalidInput("kinds must be a collection of names, not a string")
    for name in kinds:
        if name not in KINDS:
            near = difflib.get_close_matches(name, KINDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InvalidInput(
                f"unknown kind of sensitive value {name!r}.{hint} Known kinds: {', '.join(sorted(KINDS))}"
            )
    return frozenset(kinds)


def _outside(found: Iterable[Find], markers: Sequence[tuple[int, int]]) -> Iterator[Find]:
    """The finds that overlap no marker."""
    starts = [start for start, _ in markers]
    for find in found:
        before = bisect.bisect_left(starts, find.end)
        if before == 0 or markers[before - 1][1] <= find.start:
            yield find


def _without_overlaps(found: Iterable[Find]) -> list[Find]:
    """Merge overlapping finds. The merged find has the kind of the most specific, then longest, find."""
    merged: list[Find] = []
    for find in sorted(found, key=lambda find: (find.start, -find.end)):
        if merged and find.start < merged[-1].end:
            last = merged.pop()
            best = min(last, find, key=_rank)
            merged.append(Find(best.kind, last.start, max(last.end, find.end)))
        else:
            merged.append(find)
    return merged


def _rank(find: Find) -> tuple[int, int]:
    general = SPECIFIC_LAST.index(find.kind) + 1 if find.kind in SPECIFIC_LAST else 0
    return general, find.start - find.end
