"""Verdicts on texts: of a memory store, through its public interface, and of a detector alone."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import retentive

_PATH = "/memories/text.md"
_MODES: dict[str, dict[str, object]] = {
    "plain": {"sensitive": "off", "sensitive_likely": "off"},
    "certain": {"sensitive_likely": "off"},
    "both": {"sensitive_likely": "redact"},
    "default": {},
}
_UNLIMITED = {"max_memory_bytes": 0, "max_memories": 0, "max_store_bytes": 0}
_STORED_CHARS = 8_000_000  # then a new database is opened, because all versions stay in memory


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A text as stored without guards, with certain values redacted, and with certain and likely values redacted."""

    plain: str
    certain: str
    both: str

    @property
    def changed(self) -> bool:
        """True if the default settings change the text."""
        return self.certain != self.plain

    @property
    def flagged(self) -> bool:
        """True if the default settings flag a value in the text."""
        return self.both != self.certain


class Judge(ExitStack):
    """Writes texts to memory stores with different settings, and reads the stored texts."""

    def __init__(self) -> None:
        super().__init__()
        self._room = 0

    def __call__(self, text: str) -> Verdict:
        """Return the verdict on a text. Raises `ValueError` if no memory can contain the text."""
        plain, certain, both = (self._stored(mode, text) for mode in ("plain", "certain", "both"))
        return Verdict(plain=plain, certain=certain, both=both)

    def note(self, text: str) -> str:
        """Return the reply of a store with default settings, without the first line."""
        return self._written("default", text).partition("\n")[2]

    def _stored(self, mode: str, text: str) -> str:
        self._written(mode, text)
        return self._place.store(mode).read(_PATH)

    def _written(self, mode: str, text: str) -> str:
        self._room -= len(text)
        if self._room < 0:
            self.close()
            self._room = _STORED_CHARS
            self._place = self.enter_context(retentive.open("sqlite://", create_overwrites=True))
            for name, settings in _MODES.items():
                self._place.store(name).change_settings(_UNLIMITED | settings)
        reply = self._place.store(mode).execute({"command": "create", "path": _PATH, "file_text": text})
        if reply.is_error:
            raise ValueError(reply.text)
        return reply.text


def redact(text: str, detector: Any) -> tuple[str, list[str]]:
    """Return the text with markers, as the guards write it, and the kinds of the values that the detector finds."""
    finds = detector.find(text)
    for find in reversed(finds):
        text = f"{text[: find.start]}[REDACTED:{find.kind}]{text[find.end :]}"
    return text, [find.kind for find in finds]
