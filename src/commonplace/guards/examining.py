"""Sensitive values in what is written: found by our rules and an application's own, by the settings of the store.

Patterns are imported and compiled at the first text that is examined (some 100 ms), not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from commonplace.errors import Refused
from commonplace.settings import Settings

if TYPE_CHECKING:
    from commonplace.guards.sensitive import Detector, Find, Rule

Detect: TypeAlias = "Callable[[str], Iterable[Find]]"


@dataclass(frozen=True, slots=True)
class Examination:
    """What an application adds to the rules of every store it opens. Threads may share it."""

    rules: Sequence[Rule] = ()
    detectors: Sequence[Detect] = ()
    _made: dict[tuple[str, ...] | None, Detector] = field(default_factory=dict)

    def detector(self, kinds: tuple[str, ...] | None) -> Detector:
        """What looks for these kinds. Raises `InvalidInput` for one that is not known."""
        found = self._made.get(kinds)
        if found is None:
            from commonplace.guards.sensitive import Detector  # noqa: PLC0415 - see above

            found = self._made[kinds] = Detector(kinds, rules=self.rules, detectors=self.detectors)
        return found

    def check(self, settings: Settings) -> None:
        """Raise `InvalidInput` for settings that name a kind nobody knows."""
        if settings.sensitive_kinds is not None:
            self.detector(settings.sensitive_kinds)

    def __call__(self, settings: Settings, text: str) -> tuple[str, Sequence[str]]:
        """A text without its sensitive values, and their kinds. Raises `Refused` if it cannot be examined."""
        if settings.sensitive == "off":
            return text, ()
        try:
            return self.detector(settings.sensitive_kinds).redact(text)
        except Exception as error:  # whatever somebody's detector raises: what was not examined is not written
            import logging  # noqa: PLC0415 - every start would wait for it

            said = "examining a text for sensitive values failed (%s); it was not written"
            logging.getLogger("commonplace").error(said, type(error).__name__)  # noqa: TRY400 - the error may hold the text
            raise Refused("not_examined") from None
