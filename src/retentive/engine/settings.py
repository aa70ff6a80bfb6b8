"""Operation that changes the settings of a memory store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retentive.engine.guard import Guard
from retentive.engine.operation import Outcome, Plan, Write
from retentive.errors import ReadOnly
from retentive.redaction.examiner import TextExaminer
from retentive.storage.contract import Snapshot
from retentive.values.records import Recorded
from retentive.values.settings import DEFAULTS, Settings, check_names, from_text


@dataclass(frozen=True, slots=True)
class ChangeSettings(Write[Settings]):
    """Change the stored settings and return the new ones. Values that this process pins do not affect the result.

    In `changes`, the value None restores the default of a setting.
    """

    name = "settings"
    under_review = "skip"  # otherwise a setting that puts every actor under review could not be reversed
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

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object]:
        """Return nothing: a repeated request gets the present settings, and does not reverse a later change."""
        return {}

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> Settings:
        """Return the present settings."""
        return from_text(view.state.settings)

    def decide(self, view: Snapshot, guard: Guard) -> Plan[Settings]:
        """Return the new settings. Raises `ReadOnly`, and `InvalidInput` for an unknown name or an invalid value."""
        if self.is_read_only:
            raise ReadOnly("the memory store was opened read-only, so its settings cannot be changed")
        given = {
            name: getattr(DEFAULTS, name, None) if value is None else value for name, value in self.changes.items()
        }
        settings = from_text(view.state.settings).changed(given)
        self.examiner.check(settings)
        return Plan(settings, settings=settings.to_text(), event=("settings", sorted(self.changes)))
