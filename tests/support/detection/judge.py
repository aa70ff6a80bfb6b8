"""Verdicts of a memory store on texts, found through its public interface and without knowledge of the rules."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

import retentive
from retentive.values.settings import DEFAULTS

_PATH = "/memories/text.md"
_UNLIMITED = {"max_memory_bytes": 0, "max_memories": 0, "max_store_bytes": 0}
_STORED_CHARS = 8_000_000  # then a new database is opened, because all versions stay in memory
KNOWS_LIKELY = hasattr(DEFAULTS, "sensitive_likely")
"""True if the tree under test has the setting `sensitive_likely`."""


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


class Judge:
    """Writes texts to memory stores with different settings, and reads the stored texts."""

    def __init__(self) -> None:
        self._room = 0
        self._place: retentive.Retentive | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()

    def __call__(self, text: str) -> Verdict:
        """Return the verdict on a text. Raises `ValueError` if no memory can contain the text."""
        self._make_room(len(text))
        certain = self._stored("certain", text)
        both = self._stored("both", text) if KNOWS_LIKELY else certain
        return Verdict(plain=self._stored("off", text), certain=certain, both=both)

    def note(self, text: str) -> str:
        """Return the reply of a store with default settings, without the first line."""
        self._make_room(len(text))
        return self._written("default", text).partition("\n")[2]

    def _stored(self, mode: str, text: str) -> str:
        self._written(mode, text)
        return self._store(mode).read(_PATH)

    def _written(self, mode: str, text: str) -> str:
        reply = self._store(mode).execute({"command": "create", "path": _PATH, "file_text": text})
        if reply.is_error:
            raise ValueError(reply.text)
        return reply.text

    def _store(self, mode: str) -> retentive.MemoryStore:
        assert self._place is not None
        return self._place.store(mode)

    def _make_room(self, chars: int) -> None:
        self._room -= chars + 1_000
        if self._room > 0:
            return
        self._close()
        self._room = _STORED_CHARS
        self._place = retentive.open("sqlite://", create_overwrites=True)
        likely = {"certain": {"sensitive_likely": "off"}, "both": {"sensitive_likely": "redact"}}
        for mode in ("off", "default", "certain", "both"):
            settings: dict[str, object] = dict(_UNLIMITED)
            settings |= likely.get(mode, {}) if KNOWS_LIKELY else {}
            if mode == "off":
                settings |= {"sensitive": "off"} | ({"sensitive_likely": "off"} if KNOWS_LIKELY else {})
            self._store(mode).change_settings(settings)

    def _close(self) -> None:
        if self._place is not None:
            self._place.close()
            self._place = None
