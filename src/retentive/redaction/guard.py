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
_WORD = r"(?:[A-Z]?[a-z]{0,14}|[A-Z]{1,10})[0-9]{0,4}"  # parts of tokens mix cases and digits, and are longer
_PLAIN = re.compile(rf"(?:{_WORD}[/._-])*{_WORD}")
_PLAIN_CHARS, _PLAIN_DIGITS = 300, 8


@dataclass(frozen=True, slots=True)
class Examination:
    """What an application adds to the rules of every store it opens. Threads may share it."""

    rules: Sequence[Rule] = ()
    detectors: Sequence[Detect] = ()
    _made: dict[tuple[str, ...] | None, Detector] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise `InvalidInput` for a rule whose pattern `re` does not take."""
        for rule in self.rules:
            _ = rule.compiled

    def detector(self, kinds: tuple[str, ...] | None) -> Detector:
        """What looks for these kinds. Raises `InvalidInput` for one that is not known."""
        found = self._made.get(kinds)
        if found is None:
            from retentive.redaction.detector import Detector  # noqa: PLC0415 - see above

            found = self._made[kinds] = Detector(kinds, rules=self.rules, detectors=self.detectors)
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
        if settings.sensitive == "off" or self._is_plain(settings, text):
            return text, ()
        try:
            return self.detector(settings.sensitive_kinds).redact(text)
        except Exception as error:  # whatever somebody's detector raises: what was not examined is not written
            failed = type(error).__name__
        import logging  # noqa: PLC0415 - every start would wait for it

        said = "examining a text for sensitive values failed (%s); it was not written"
        logging.getLogger("retentive").error(said, failed)
        raise Refused("not_examined")  # out here, so that it has no context: the error above may hold the text

    def _is_plain(self, settings: Settings, text: str) -> bool:
        """Whether a text, most often a path, is a few short words and numbers, in which no rule of ours finds anything.

        Most processes never write a text, and then need not wait for patterns to be compiled.
        """
        if self.rules or self.detectors or settings.sensitive_kinds is not None or len(text) > _PLAIN_CHARS:
            return False
        return _PLAIN.fullmatch(text) is not None and sum(map(str.isdigit, text)) <= _PLAIN_DIGITS
