"""Operations that change the settings and the properties of a memory store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from retentive.engine.guard import Guard
from retentive.engine.lists import EventType
from retentive.engine.operation import Plan, Write
from retentive.storage.contract import Snapshot
from retentive.values.properties import Properties, properties_of
from retentive.values.records import to_datetime
from retentive.values.settings import DEFAULTS, Settings, check_names, from_text


def change_settings(changes: Mapping[str, object]) -> Write[Settings]:
    """Change the stored settings and return the new ones. Values that this process pins do not affect the result.

    The value None restores the default of a setting. The stored read_only does not matter, only the pinned one. Raises
    `InvalidInput` for unknown names.
    """
    check_names(changes)

    def work(view: Snapshot, guard: Guard) -> Plan[Settings]:
        guard.check_opened("settings")
        given = {name: getattr(DEFAULTS, name, None) if value is None else value for name, value in changes.items()}
        settings = from_text(view.state.settings).changed(given)
        guard.examiner.check(settings)
        return Plan(settings, metadata={"settings": settings.to_text()}, event=("settings", sorted(changes)))

    return Write(
        "settings",
        work,
        facts_of=lambda after: {"settings": sorted(changes)} | ({"audit": after.audit} if "audit" in changes else {}),
        facts_kept=lambda *_: {},
        rebuilt=lambda _, view: from_text(view.state.settings),  # a repetition does not reverse a later change
        under_review="skip",  # otherwise a setting that puts every actor under review could not be reversed
    )


def change_properties(
    now_us: int,
    *,
    new_name: str | None = None,
    description: str | None = None,
    metadata: Mapping[str, str | None] | None = None,
    archives: bool = False,
) -> Write[Properties]:
    """Change the name, description or metadata of the store, or archive it. A field that is None keeps its value.

    If a value in `metadata` is None, the stored entry with the same key is removed. An archived store can still be
    read, and its memories can be deleted, redacted and erased.
    """
    event: EventType = "store.archived" if archives else "store.updated"

    def work(view: Snapshot, guard: Guard) -> Plan[Properties]:
        guard.check_opened("properties")
        before, at = properties_of(view.state.properties), to_datetime(now_us)
        if archives:
            after = before if before.archived_at is not None else replace(before, archived_at=at)
        else:
            after = before.changed(name=new_name, description=description, metadata=metadata)
            after = before if after == before else replace(after, updated_at=at)
        return (
            Plan(after) if after is before else Plan(after, metadata={"properties": after.to_text()}, event=(event, ()))
        )

    return Write("store.archive" if archives else "store.update", work, allowed_when_archived=archives)
