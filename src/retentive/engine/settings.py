"""Operations that change the settings and the properties of a memory store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from retentive.engine.events import EventType
from retentive.engine.guard import Guard
from retentive.engine.operation import Outcome, Plan, Write
from retentive.storage.contract import Snapshot
from retentive.values.properties import Properties, properties_of
from retentive.values.records import Recorded, to_datetime
from retentive.values.settings import DEFAULTS, Settings, check_names, from_text


@dataclass(frozen=True, slots=True)
class ChangeSettings(Write[Settings]):
    """Change the stored settings and return the new ones. Values that this process pins do not affect the result.

    In `changes`, the value None restores the default of a setting. The stored read_only does not matter, only the
    pinned one. Raises `InvalidInput` for unknown names.
    """

    name = "settings"
    under_review = "skip"  # otherwise a setting that puts every actor under review could not be reversed
    allowed_when_archived = True
    changes: Mapping[str, object]

    def __post_init__(self) -> None:
        check_names(self.changes)

    def facts(self, result: Any) -> Mapping[str, object]:
        switched = {"audit": result.audit} if "audit" in self.changes else {}
        return {"settings": sorted(self.changes), **switched}

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object]:
        return {}

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> Settings:
        return from_text(view.state.settings)  # the present ones: a repetition does not reverse a later change

    def decide(self, view: Snapshot, guard: Guard) -> Plan[Settings]:
        guard.check_opened("settings")
        given = {
            name: getattr(DEFAULTS, name, None) if value is None else value for name, value in self.changes.items()
        }
        settings = from_text(view.state.settings).changed(given)
        guard.examiner.check(settings)
        return Plan(settings, metadata={"settings": settings.to_text()}, event=("settings", sorted(self.changes)))


@dataclass(frozen=True, slots=True)
class ChangeProperties(Write[Properties]):
    """Change the name, description or metadata of the store, or archive it. A field that is None keeps its value.

    If a value in `metadata` is None, the stored entry with the same key is removed. An archived store can still be
    read, and its memories can be deleted, redacted and erased.
    """

    under_review = "refuse"
    now_us: int
    new_name: str | None = None
    description: str | None = None
    metadata: Mapping[str, str | None] | None = None
    archives: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]  # depends on the change
        return "store.archive" if self.archives else "store.update"

    @property
    def allowed_when_archived(self) -> bool:  # type: ignore[override]
        return self.archives

    def decide(self, view: Snapshot, guard: Guard) -> Plan[Properties]:
        guard.check_opened("properties")
        before, at = properties_of(view.state.properties), to_datetime(self.now_us)
        if self.archives:
            after = before if before.archived_at is not None else replace(before, archived_at=at)
        else:
            after = before.changed(name=self.new_name, description=self.description, metadata=self.metadata)
            after = before if after == before else replace(after, updated_at=at)
        if after is before:
            return Plan(after)
        event: EventType = "store.archived" if self.archives else "store.updated"
        return Plan(after, metadata={"properties": after.to_text()}, event=(event, ()))
