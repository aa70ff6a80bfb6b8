"""Redaction guard: applies the settings for sensitive values to a text before the text is stored."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeAlias

from retentive.errors import InvalidInput, Refused
from retentive.redaction.detector import Detector, replaced
from retentive.redaction.rules import Find, Rule, with_changes
from retentive.values.patterns import covers
from retentive.values.settings import Settings

Detect: TypeAlias = "Callable[[str], Iterable[Find]]"
MAX_NAMED_LINES = 5  # Source: the sentences of the guards, "at most 5 lines named"


@dataclass(frozen=True, slots=True)
class Examined:
    """Result of examining a text that is to be saved.

    `text` is the text after the values of the `removed` kinds are masked. If `refused` names any kind, the text must
    not be saved. `flagged` has an item for each line with a flagged value: the line number and the kinds of the values.
    """

    text: str
    removed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    flagged: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TextExaminer:
    """Examines texts with the built-in rules and with the rules and detectors of an application.

    Threads may share it. Raises `InvalidInput` if `re` cannot compile the pattern of a rule.
    """

    rules: Sequence[Rule] = ()
    detectors: Sequence[Detect] = ()
    _by_kinds: dict[tuple[str, ...], Detector] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.detector(())

    def detector(self, kinds: tuple[str, ...]) -> Detector:
        """Return the detector for the setting `sensitive_kinds`. Raises `InvalidInput` for an unknown kind."""
        detector = self._by_kinds.get(kinds)
        if detector is None:
            detector = self._by_kinds[kinds] = Detector(with_changes(kinds), self.rules, self.detectors)
        return detector

    def check(self, settings: Settings) -> None:
        """Raise `InvalidInput` if the settings name an unknown kind of sensitive value."""
        try:
            self.detector(settings.sensitive_kinds)
        except InvalidInput as error:
            raise InvalidInput(f"sensitive_kinds: {error}") from None

    def __call__(self, settings: Settings, text: str) -> tuple[str, Sequence[str]]:
        """Mask the certain matches in a path, or in another text that a reply quotes. Likely matches are not masked.

        Returns the masked text, and the kinds of the masked values. Raises `Refused` if a detector fails.
        """
        if settings.sensitive == "off":
            return text, ()
        finds = [find for find in self._find(settings, text, in_path=True) if not find.likely]
        return replaced(text, finds), [find.kind for find in finds]

    def examine(self, settings: Settings, text: str, *, path: str = "", before: str = "") -> Examined:
        """Apply the settings to a text that is to be saved at a path. Raises `Refused` if a detector fails.

        `before` is the previous text of the memory. Values are redacted in the whole text. They are flagged or refused
        only if they are new, that is, not in the previous text.
        """
        if settings.sensitive == settings.sensitive_likely == "off":
            return Examined(text)
        finds = self._find(settings, text)
        if not finds:
            return Examined(text)
        removed = _chosen(settings, "redact", finds, text, path)
        new = self._new(settings, finds, text, before) if before else finds
        refused = tuple(find.kind for find in _chosen(settings, "reject", new, text, path))
        flagged = _lines(text, _chosen(settings, "flag", new, text, path), removed)
        return Examined(replaced(text, removed), tuple(find.kind for find in removed), refused, flagged)

    def _new(self, settings: Settings, finds: Sequence[Find], text: str, before: str) -> list[Find]:
        """Return the matches that the change touches, or that the previous text does not have."""
        start = _same_chars(text, before)
        end = len(text) - _same_chars(text[start:][::-1], before[start:][::-1])
        # With the grade: an edit of "Number 5500..." to "Card number 5500..." once saved the number, as it was not new.
        had = Counter((find.kind, find.likely, before[find.start : find.end]) for find in self._find(settings, before))
        new: list[Find] = []
        for find in finds:
            value = (find.kind, find.likely, text[find.start : find.end])
            if (find.start < end and find.end > start) or had[value] <= 0:
                new.append(find)
            else:
                had[value] -= 1
        return new

    def _find(self, settings: Settings, text: str, *, in_path: bool = False) -> list[Find]:
        try:
            return self.detector(settings.sensitive_kinds).find(text, in_path=in_path)
        except Exception as error:  # a detector may raise anything; fail closed
            failed = type(error).__name__
        logging.getLogger("retentive").error("sensitive value check failed (%s); the text was not saved", failed)
        raise Refused("not_checked")  # raised outside `except`, because the original error may quote the text


def allowance(value: str, salt: bytes | None = None) -> str:
    """Return the entry that the setting `sensitive_allow` needs in order to allow one value.

    The entry is a keyed hash (HMAC-SHA256) with a random key, so it does not show the value.
    """
    salt = os.urandom(16) if salt is None else salt
    return f"value:{salt.hex()}:{hmac.new(salt, value.encode('utf-8', 'replace'), hashlib.sha256).hexdigest()}"


def _chosen(settings: Settings, mode: str, finds: Sequence[Find], text: str, path: str) -> list[Find]:
    """Return the matches to which the settings apply `mode`, such as `redact`. Allowed matches are left out."""
    modes = (settings.sensitive, settings.sensitive_likely)
    return [find for find in finds if modes[find.likely] == mode and not _is_allowed(settings, find, text, path)]


def _is_allowed(settings: Settings, find: Find, text: str, path: str) -> bool:
    """Return whether `sensitive_allow` has an entry for the kind, the path or the value of a match."""
    for entry in settings.sensitive_allow:
        if entry.startswith("value:"):
            if hmac.compare_digest(allowance(text[find.start : find.end], bytes.fromhex(entry.split(":")[1])), entry):
                return True
        elif entry == find.kind or (entry.startswith("/") and path and covers((entry,), path)):
            return True
    return False


def _same_chars(text: str, other: str) -> int:
    """Return the number of equal characters at the start of two texts."""
    most = min(len(text), len(other))
    return next((at for at in range(most) if text[at] != other[at]), most)


def _lines(text: str, flagged: list[Find], removed: list[Find]) -> tuple[tuple[int, str], ...]:
    """Return the line numbers and kinds of the flagged values.

    Lines are counted in the text after redaction, because a redacted value can contain line breaks.
    """
    by_line: dict[int, list[str]] = {}
    starts = [find.start for find in removed]
    gone = list(accumulate((text.count("\n", find.start, find.end) for find in removed), initial=0))
    line, at = 1, 0
    for find in flagged:
        line, at = line + text.count("\n", at, find.start), find.start
        by_line.setdefault(line - gone[bisect_left(starts, find.start)], []).append(find.kind)
    return tuple((line, ", ".join(dict.fromkeys(kinds))) for line, kinds in sorted(by_line.items()))
