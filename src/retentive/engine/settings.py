"""Operation that changes the settings of a memory store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retentive.engine.events import record_event
from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.operation import WriteOperation
from retentive.errors import ReadOnly
from retentive.redaction.examiner import TextExaminer
from retentive.storage.contract import Transaction
from retentive.values.settings import DEFAULTS, Settings, check_names, from_text


@dataclass(frozen=True, slots=True)
class ChangeSettings(WriteOperation[Settings]):
    """Change the stored settings and return the new ones. Values that this process pins do not affect the result.

    In `changes`, the value None restores the default of a setting.
    """

    name = "settings"
    under_review = "skip"  # otherwise a setting that puts every actor under review could not be reversed
    switches_audit = True
    allowed_when_archived = True
    changes: Mapping[str, object]
    examiner: TextExaminer
    is_read_only: bool = False  # true if this process pinned read_only; the stored read_only does not matter here

    def __post_init__(self) -> None:
        """Raise `InvalidInput` for unknown names."""
        check_names(self.changes)

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the names of the changed settings for the audit entry, and the new value of `audit` if it changed."""
        switched = {"audit": result.audit} if "audit" in self.changes else {}
        return {"settings": sorted(self.changes), **switched}

    def kept(self, result: Any, tx: Transaction) -> Mapping[str, object]:
        """Return nothing: a repeated request gets the present settings, and does not reverse a later change."""
        return {}

    def again(self, kept: Mapping[str, Any], tx: Transaction) -> Settings:
        """Return the present settings."""
        return from_text(tx.settings)

    def apply(self, tx: Transaction, writer: GuardedWriter) -> Settings:
        """Store the settings. Raises `ReadOnly`, and `InvalidInput` for an unknown name or an invalid value."""
        if self.is_read_only:
            raise ReadOnly("the memory store was opened read-only, so its settings cannot be changed")
        given = {
            name: getattr(DEFAULTS, name, None) if value is None else value for name, value in self.changes.items()
        }
        settings = from_text(tx.settings).changed(given)
        self.examiner.check(settings)
        tx.set_metadata(settings=settings.to_text())
        record_event(tx, "settings", writer.actor, sorted(self.changes))
        return settings
