"""Redaction guard: applies the settings for sensitive values to a text before the text is stored.

The built-in patterns take about 100 ms to compile. They are imported and compiled when the first text is checked.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from retentive.errors import InvalidInput, Refused
from retentive.values.patterns import covers
from retentive.values.settings import Settings

if TYPE_CHECKING:
    from retentive.redaction.detector import Detector, Find, Rule

Detect: TypeAlias = "Callable[[str], Iterable[Find]]"
SameEnds: TypeAlias = tuple[int, int]
"""Numbers of characters at the start and at the end of a text that an edit left as they were; there may be more."""
UNKNOWN: SameEnds = (0, 0)
_FIRST_STEP = 8
NEIGHBOURS = 500  # characters before and after a change that are examined too, extended to whole lines
AHEAD_CHARS = 4_000  # a shorter text is examined in the transaction, which takes less than a millisecond
MAX_PLAIN_CHARS = 300  # longest text or path that `_PLAIN` matches
MAX_CLEAN = 4_096  # remembered texts that have no value to redact
MAX_HARMLESS, MAX_HARMLESS_CHARS = 4_096, 300  # remembered paths and short texts without a certain value
MAX_NAMED_LINES = 5  # Source: the sentences of the guards, "at most 5 lines named"
_WORD = r"(?:[A-Z]?[a-z]{0,14}|[A-Z]{1,10})[0-9]{0,4}"  # parts of tokens mix cases and digits, or are longer
# Text without digits can hold a value only next to one of these words, or if it is a seed phrase of twelve words.
_KEYWORDS = (
    r"pass|pw|psk|psw|pat|pin|mdp|mot|secret|token|key|cred|login|account|code|phrase|clave|contrasen|senha|kenn|acht"
    r"|sung|geheim|parol|jeton|zugang|anmelde|identif|benutz|salas|adgang|auth|bearer|basic|seed|ssn|iban|card|wifi|api|admin|sign"
)
# Matches at most 300 characters: a path of short words with at most 8 digits, or a short sentence without keywords.
_PLAIN = re.compile(
    rf"(?=.{{0,300}}\Z)(?:(?!(?:[^0-9]*[0-9]){{9}})(?:{_WORD}[/._-])*{_WORD}"
    rf"|(?!(?:\S+\s+){{11}})(?!.*?(?i:{_KEYWORDS}))(?:[A-Za-z][a-z]{{0,12}}[.,;!?]?[ \n]{{1,2}})*"
    rf"(?:[A-Za-z][a-z]{{0,12}}[.,;!?]?)?)",
    re.ASCII | re.DOTALL,
)
_LONG_NUMBER = _WORD.replace("{0,4}", "{0,8}")
# A path of short words with at most 8 digits has no certain value. In a text, such digits could be a likely value.
_PLAIN_PATH = re.compile(
    rf"(?=.{{0,300}}\Z)(?!(?:[^0-9]*[0-9]){{9}})(?:{_LONG_NUMBER}[/._-])*{_LONG_NUMBER}", re.ASCII | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Examined:
    """A text after the guard. Values of the kinds in `removed` are masked. If `refused` has kinds, do not save it.

    `flagged` has the number and the kinds of each line with a flagged value.
    """

    text: str
    removed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    flagged: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TextExaminer:
    """Examines texts with the built-in rules and the rules and detectors of an application. Threads may share it.

    `ahead` has the kinds to find, a text that was examined before the write lock was taken, and its finds. `_clean`
    remembers texts without a value to redact, by settings, path, length and hash: after an edit of such a text, only
    the changed part is examined. `harmless` remembers short texts, mostly paths, in which the built-in rules find no
    certain value.
    """

    rules: Sequence[Rule] = ()
    detectors: Sequence[Detect] = ()
    ahead: tuple[tuple[str, ...] | None, str, list[Find]] | None = None
    _detectors: dict[tuple[str, ...] | None, Detector] = field(default_factory=dict)
    _clean: set[tuple[object, ...]] = field(default_factory=set)
    harmless: set[str] = field(default_factory=set)
    plain: Callable[[str], object] | None = field(init=False, default=None)
    """Function that matches short texts in which no built-in rule can find a value. None if there are other rules."""
    plain_path: Callable[[str], object] | None = field(init=False, default=None)
    """The same for paths, where only certain values count."""

    def __post_init__(self) -> None:
        """Raise `InvalidInput` if `re` cannot compile the pattern of a rule."""
        for rule in self.rules:
            _ = rule.compiled
        if not self.rules and not self.detectors:
            object.__setattr__(self, "plain", _PLAIN.fullmatch)
            object.__setattr__(self, "plain_path", _PLAIN_PATH.fullmatch)

    def detector(self, kinds: tuple[str, ...] | None) -> Detector:
        """Detector for these kinds, cached. Raises `InvalidInput` for an unknown kind."""
        detector = self._detectors.get(kinds)
        if detector is None:
            from retentive.redaction.detector import Detector  # noqa: PLC0415 - see above

            detector = self._detectors[kinds] = Detector(kinds, rules=self.rules, detectors=self.detectors)
        return detector

    def check(self, settings: Settings) -> None:
        """Raise `InvalidInput` if the settings name an unknown kind."""
        if settings.sensitive_kinds is not None:
            try:
                self.detector(settings.sensitive_kinds)
            except InvalidInput as error:
                raise InvalidInput(f"sensitive_kinds: {error}") from None

    def prepared(self, settings: Settings, text: str) -> TextExaminer:
        """Return an examiner that has already examined the text of a command, before the write lock is taken."""
        if settings.sensitive == settings.sensitive_likely == "off" or (self.plain is not None and self.plain(text)):
            return self
        try:
            finds = self.detector(settings.sensitive_kinds).find(text)
        except Exception:  # `examine` meets the same error in the transaction, and refuses the text
            return self
        return TextExaminer(
            self.rules,
            self.detectors,
            (settings.sensitive_kinds, text, finds),
            self._detectors,
            self._clean,
            self.harmless,
        )

    def __call__(self, settings: Settings, text: str) -> tuple[str, Sequence[str]]:
        """Mask the certain values in a path or an echoed text. Returns the text and their kinds. Raises `Refused`."""
        if settings.sensitive == "off":
            return text, ()
        has_usual_rules = self.plain_path is not None and settings.sensitive_kinds is None
        if has_usual_rules and (text in self.harmless or self._is_plain_path(text)):
            return text, ()
        finds = [find for find in self._find(settings, text, in_path=True) if not find.likely]
        if has_usual_rules and not finds:
            self._remember_harmless(text)
        return _masked(text, finds), [find.kind for find in finds]

    def _is_plain_path(self, text: str) -> bool:
        """Return whether `plain_path` matches a path or another short text. Remember the text if it matches."""
        if self.plain_path is None or not self.plain_path(text):
            return False
        self._remember_harmless(text)
        return True

    def _remember_harmless(self, text: str) -> None:
        if len(text) <= MAX_HARMLESS_CHARS:
            if len(self.harmless) >= MAX_HARMLESS:
                self.harmless.clear()
            self.harmless.add(text)

    def examine(
        self, settings: Settings, text: str, *, path: str = "", before: str = "", same: SameEnds = UNKNOWN
    ) -> Examined:
        """Apply the settings to a text that is to be saved at a path. Raises `Refused` if a detector fails.

        Values are redacted in the whole text, but flagged or refused only if they were not in the text `before`. The
        difference between the texts is found faster if the caller knows the ends that are the `same`.
        """
        if settings.sensitive == settings.sensitive_likely == "off" or self._is_plain(settings, text):
            return Examined(text)
        modes = (settings.sensitive, settings.sensitive_likely)
        about = (settings.sensitive_kinds, settings.sensitive_allow, modes, path)
        is_clean = before != "" and ("redact" not in modes or (*about, len(before), hash(before)) in self._clean)
        new = self.new_finds(settings, text, before, same=same) if is_clean else []
        removed: list[Find] = []
        if not is_clean or (new and _chosen(settings, "redact", new, text, path)):
            whole = self._find(settings, text)
            removed = _chosen(settings, "redact", whole, text, path) if whole else []
            new = self.new_finds(settings, text, before, whole, same=same) if before and whole else whole
        if not removed and "redact" in modes:
            if len(self._clean) >= MAX_CLEAN:
                self._clean.clear()
            self._clean.add((*about, len(text), hash(text)))
        if not removed and not new:
            return Examined(text)
        refused = tuple(find.kind for find in _chosen(settings, "reject", new, text, path))
        flagged = _lines(text, _chosen(settings, "flag", new, text, path), removed)
        return Examined(_masked(text, removed), tuple(find.kind for find in removed), refused, flagged)

    def new_finds(
        self,
        settings: Settings,
        text: str,
        before: str,
        known: Sequence[Find] | None = None,
        *,
        same: SameEnds = UNKNOWN,
    ) -> list[Find]:
        """Finds in and near the lines that differ from the text `before`, except finds that `before` has there too.

        `known` are the finds in the whole text, if it was already examined.
        """
        start, end, end_before = changed(before, text, same)
        now, offset = _around(text, start, end)
        new: list[Find] = []
        if known is None and self.ahead is not None and self.ahead[:2] == (settings.sensitive_kinds, text):
            known = self.ahead[2]
        finds = self._find(settings, now) if known is None else _within(known, offset, offset + len(now))
        if not finds:
            return new
        old, _ = _around(before, start, end_before)
        had = Counter((find.kind, old[find.start : find.end]) for find in self._find(settings, old, exact=True))
        for find in finds:
            value = (find.kind, now[find.start : find.end])
            touched = find.start + offset < end and find.end + offset > start
            if not touched and had[value] > 0:
                had[value] -= 1
                continue
            new.append(type(find)(find.kind, find.start + offset, find.end + offset, likely=find.likely))
        return new

    def _find(self, settings: Settings, text: str, *, in_path: bool = False, exact: bool = False) -> list[Find]:
        kinds = settings.sensitive_kinds
        try:
            if self.ahead is not None and self.ahead[0] == kinds and not exact and not in_path:
                if self.ahead[1] == text:
                    return self.ahead[2]
                if len(self.ahead[1]) >= AHEAD_CHARS and self.ahead[1] in text:
                    return self._with_seams(settings, text)
            return self.detector(kinds).find(text, in_path=in_path)
        except Exception as error:  # a detector may raise anything; fail closed
            failed = type(error).__name__
        import logging  # noqa: PLC0415 - importing it here keeps startup fast

        logging.getLogger("retentive").error("sensitive value check failed (%s); the text was not saved", failed)
        raise Refused("not_checked")  # raised outside `except`: the original error may quote the text

    def _with_seams(self, settings: Settings, text: str) -> list[Find]:
        """Finds in a text that contains the text examined ahead. Only what surrounds that text is examined now."""
        assert self.ahead is not None
        _, brought, finds = self.ahead
        at, find_in = text.index(brought), self.detector(settings.sensitive_kinds).find
        end = at + len(brought)
        first, last = at + NEIGHBOURS, end - NEIGHBOURS
        found = [type(find)(find.kind, find.start + at, find.end + at, likely=find.likely) for find in finds]
        head = [find for find in find_in(text[:first]) if find.start < at]
        tail = [
            type(find)(find.kind, find.start + last, find.end + last, likely=find.likely)
            for find in find_in(text[last:])
        ]
        tail = [find for find in tail if find.end > end]
        reach = max((find.end for find in head), default=0)
        back = min((find.start for find in tail), default=len(text))
        return [*head, *(find for find in found if find.start >= reach and find.end <= back), *tail]

    def _is_plain(self, settings: Settings, text: str) -> bool:
        if len(text) > MAX_PLAIN_CHARS or settings.sensitive_kinds is not None or self.plain is None:
            return False
        return bool(self.plain(text))


def allowance(value: str, salt: bytes | None = None) -> str:
    """Entry of the setting `sensitive_allow` for one value: a hash with a random key, which hides the value."""
    salt = os.urandom(16) if salt is None else salt
    return f"value:{salt.hex()}:{hmac.new(salt, value.encode('utf-8', 'replace'), hashlib.sha256).hexdigest()}"


def _within(finds: Sequence[Find], start: int, end: int) -> list[Find]:
    """Finds between two positions, with positions relative to `start`."""
    return [
        type(find)(find.kind, find.start - start, find.end - start, likely=find.likely)
        for find in finds
        if start <= find.start and find.end <= end
    ]


def _chosen(settings: Settings, mode: str, finds: Sequence[Find], text: str, path: str) -> list[Find]:
    """Finds to which the settings apply a mode, such as `redact`, except allowed finds."""
    modes = (settings.sensitive, settings.sensitive_likely)
    if settings.sensitive_allow:
        finds = [find for find in finds if not _is_allowed(settings, find, text, path)]
    return [find for find in finds if modes[find.likely] == mode]


def _is_allowed(settings: Settings, find: Find, text: str, path: str) -> bool:
    """Return whether an entry of `sensitive_allow` covers a find: its kind, the path, or the value."""
    for entry in settings.sensitive_allow:
        if entry.startswith("value:"):
            if hmac.compare_digest(allowance(text[find.start : find.end], bytes.fromhex(entry.split(":")[1])), entry):
                return True
        elif entry == find.kind or (entry.startswith("/") and path and covers((entry,), path)):
            return True
    return False


def _masked(text: str, finds: list[Find]) -> str:
    from retentive.redaction.detector import replaced  # noqa: PLC0415 - see above

    return replaced(text, finds) if finds else text


def _lines(text: str, flagged: list[Find], removed: list[Find]) -> tuple[tuple[int, str], ...]:
    """Numbers of the flagged lines, counted in the text without the removed values, and the kinds on each line."""
    by_line: dict[int, list[str]] = {}
    starts = [find.start for find in removed]
    gone = list(accumulate((text.count("\n", find.start, find.end) for find in removed), initial=0))
    line, at = 1, 0
    for find in sorted(flagged, key=attrgetter("start")):
        line, at = line + text.count("\n", at, find.start), find.start
        by_line.setdefault(line - gone[bisect_left(starts, find.start)], []).append(find.kind)
    return tuple((line, ", ".join(dict.fromkeys(kinds))) for line, kinds in sorted(by_line.items()))


def changed(before: str, text: str, same: SameEnds = UNKNOWN) -> tuple[int, int, int]:
    """Start of the difference between two texts, and its end in the new text and in the old text."""
    most = min(len(before), len(text))
    start = _same_start(before, text, same[0], most)
    tail = _same_end(before, text, same[1], most - start)
    return start, len(text) - tail, len(before) - tail


def _same_start(one: str, other: str, known: int, most: int) -> int:
    """Length of the common beginning, at most `most`. `known` characters are the same.

    Compares slices whose length is doubled until they differ, and then halved.
    """
    size, step = min(known, most), _FIRST_STEP
    while size + step <= most and one[size : size + step] == other[size : size + step]:
        size, step = size + step, step * 2
    while step := step >> 1:
        if size + step <= most and one[size : size + step] == other[size : size + step]:
            size += step
    return size


def _same_end(one: str, other: str, known: int, most: int) -> int:
    """Length of the common end, found like the common beginning."""
    size, step = min(known, most), _FIRST_STEP
    end, other_end = len(one) - size, len(other) - size
    while size + step <= most and one[end - step : end] == other[other_end - step : other_end]:
        size, end, other_end, step = size + step, end - step, other_end - step, step * 2
    while step := step >> 1:
        if size + step <= most and one[end - step : end] == other[other_end - step : other_end]:
            size, end, other_end = size + step, end - step, other_end - step
    return size


def _around(text: str, start: int, end: int) -> tuple[str, int]:
    """The lines of a span and the lines around them, and the position where they start."""
    first = text.rfind("\n", 0, max(0, start - NEIGHBOURS)) + 1 if start > NEIGHBOURS else 0
    first = max(first, start - 4 * NEIGHBOURS, 0)  # one line may be the whole text
    stop = text.find("\n", end + NEIGHBOURS, end + 4 * NEIGHBOURS)
    return text[first : stop if stop >= 0 else end + 4 * NEIGHBOURS], first
