"""Redaction guard: removes sensitive values from text before it is stored, as the settings of the store say.

The built-in patterns take about 100 ms to compile. They are imported and compiled when the first text is checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from retentive.errors import InvalidInput, Refused
from retentive.values.settings import Settings

if TYPE_CHECKING:
    from retentive.redaction.detector import Detector, Find, Rule

Detect: TypeAlias = "Callable[[str], Iterable[Find]]"
QUICK_CHARS = 4_096  # one chunk of the detector; longer texts are checked in overlapping chunks
_WORD = r"(?:[A-Z]?[a-z]{0,14}|[A-Z]{1,10})[0-9]{0,4}"  # parts of tokens mix cases and digits, or are longer
# Short words and numbers: at most 300 characters with at most 8 digits.
_PLAIN = re.compile(rf"(?=.{{0,300}}\Z)(?!(?:[^0-9]*[0-9]){{9}})(?:{_WORD}[/._-])*{_WORD}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TextExaminer:
    """Built-in rules plus the rules and detectors of an application. Threads may share it."""

    rules: Sequence[Rule] = ()
    detectors: Sequence[Detect] = ()
    _detectors: dict[tuple[str, ...] | None, Detector] = field(default_factory=dict)
    _prefilters: dict[tuple[str, ...] | None, Callable[[bytes], object]] = field(default_factory=dict)
    plain: Callable[[str], object] | None = field(init=False, default=None)
    """Match for short texts, usually paths, that no built-in rule can match; None if there are other rules."""

    def __post_init__(self) -> None:
        """Raise `InvalidInput` if `re` cannot compile the pattern of a rule."""
        for rule in self.rules:
            _ = rule.compiled
        if not self.rules and not self.detectors:
            object.__setattr__(self, "plain", _PLAIN.fullmatch)

    def detector(self, kinds: tuple[str, ...] | None) -> Detector:
        """Detector for these kinds, cached. Raises `InvalidInput` for an unknown kind."""
        detector = self._detectors.get(kinds)
        if detector is None:
            from retentive.redaction.detector import Detector  # noqa: PLC0415 - see above

            detector = self._detectors[kinds] = Detector(kinds, rules=self.rules, detectors=self.detectors)
            quick = detector.quick()
            if quick is not None:
                self._prefilters[kinds] = quick
        return detector

    def check(self, settings: Settings) -> None:
        """Raise `InvalidInput` if the settings name an unknown kind."""
        if settings.sensitive_kinds is None:
            return
        try:
            self.detector(settings.sensitive_kinds)
        except InvalidInput as error:
            raise InvalidInput(f"sensitive_kinds: {error}") from None

    def __call__(self, settings: Settings, text: str) -> tuple[str, Sequence[str]]:
        """Redacted text and the kinds removed from it. Raises `Refused` if a detector fails."""
        kinds = settings.sensitive_kinds
        if settings.sensitive == "off" or (kinds is None and self.plain is not None and self.plain(text)):
            return text, ()
        find = self._prefilters.get(kinds) if len(text) <= QUICK_CHARS and "REDACTED" not in text.upper() else None
        if find is not None and not find(text.encode("utf-8", "replace")):
            return text, ()
        try:
            return self.detector(kinds).redact(text)
        except Exception as error:  # a detector may raise anything; fail closed
            failed = type(error).__name__
        import logging  # noqa: PLC0415 - importing it here keeps startup fast

        logging.getLogger("retentive").error("sensitive value check failed (%s); the text was not saved", failed)
        raise Refused("not_checked")  # raised outside `except`: the original error may quote the text
