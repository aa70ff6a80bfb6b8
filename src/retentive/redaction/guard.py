"""Sensitive values in what is written: found by our rules and an application's own, by the settings of the store.

Patterns are imported and compiled at the first text that is examined (some 100 ms), not before.
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
QUICK_CHARS = 4_096  # one stretch of the detector: a longer text is examined in parts that overlap
_WORD = r"(?:[A-Z]?[a-z]{0,14}|[A-Z]{1,10})[0-9]{0,4}"  # parts of tokens mix cases and digits, and are longer
# A few short words and numbers: at most 300 characters, with at most 8 digits.
_PLAIN = re.compile(rf"(?=.{{0,300}}\Z)(?!(?:[^0-9]*[0-9]){{9}})(?:{_WORD}[/._-])*{_WORD}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Examination:
    """What an application adds to the rules of every store it opens. Threads may share it."""

    rules: Sequence[Rule] = ()
    detectors: Sequence[Detect] = ()
    _made: dict[tuple[str, ...] | None, Detector] = field(default_factory=dict)
    _prefilters: dict[tuple[str, ...] | None, Callable[[bytes], object]] = field(default_factory=dict)
    plain: Callable[[str], object] | None = field(init=False, default=None)
    """Tells short texts, most often paths, in which no rule of ours finds anything; None with other rules."""

    def __post_init__(self) -> None:
        """Raise `InvalidInput` for a rule whose pattern `re` does not take."""
        for rule in self.rules:
            _ = rule.compiled
        if not self.rules and not self.detectors:
            object.__setattr__(self, "plain", _PLAIN.fullmatch)

    def detector(self, kinds: tuple[str, ...] | None) -> Detector:
        """What looks for these kinds. Raises `InvalidInput` for one that is not known."""
        found = self._made.get(kinds)
        if found is None:
            from retentive.redaction.detector import Detector  # noqa: PLC0415 - see above

            found = self._made[kinds] = Detector(kinds, rules=self.rules, detectors=self.detectors)
            quick = found.quick()
            if quick is not None:
                self._prefilters[kinds] = quick
        return found

    def check(self, settings: Settings) -> None:
        """Raise `InvalidInput` for settings that name a kind nobody knows."""
        if settings.sensitive_kinds is None:
            return
        try:
            self.detector(settings.sensitive_kinds)
        except InvalidInput as error:
            raise InvalidInput(f"sensitive_kinds: {error}") from None

    def __call__(self, settings: Settings, text: str) -> tuple[str, Sequence[str]]:
        """A text without its sensitive values, and their kinds. Raises `Refused` if it cannot be examined."""
        kinds = settings.sensitive_kinds
        if settings.sensitive == "off" or (kinds is None and self.plain is not None and self.plain(text)):
            return text, ()
        find = self._prefilters.get(kinds) if len(text) <= QUICK_CHARS and "REDACTED" not in text.upper() else None
        if find is not None and not find(text.encode("utf-8", "replace")):
            return text, ()
        try:
            return self.detector(kinds).redact(text)
        except Exception as error:  # whatever somebody's detector raises: what was not examined is not written
            failed = type(error).__name__
        import logging  # noqa: PLC0415 - every start would wait for it

        said = "examining a text for sensitive values failed (%s); it was not written"
        logging.getLogger("retentive").error(said, failed)
        raise Refused("not_examined")  # out here, so that it has no context: the error above may hold the text
