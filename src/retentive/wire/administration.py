"""Settings, usage, audit log and erasure."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_type_hints

from pydantic import ConfigDict, TypeAdapter, WithJsonSchema

from retentive.history.removal import Removed
from retentive.values.records import Usage
from retentive.values.settings import DEFAULTS, NAMES, Settings
from retentive.wire.actors import ActorObject
from retentive.wire.base import Answer, Count, Fields, ObjectOf, UtcTime

_SCHEMAS: dict[str, Any] = {
    name: TypeAdapter(hint).json_schema() for name, hint in get_type_hints(Settings).items() if name in NAMES
}


class SettingsUpdate(Fields):
    """Settings to change; null restores a default. The library checks the names and the values."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "properties": {name: {**schema, "description": "See docs/guards.md"} for name, schema in _SCHEMAS.items()},
            "additionalProperties": False,
        },
    )
    is_patch = True


class SettingsObject(Answer):
    """Effective settings of a memory store."""

    type: Literal["memory_store_settings"] = "memory_store_settings"
    memory_store_id: str
    settings: Annotated[
        dict[str, Any],
        WithJsonSchema(
            {"type": "object", "properties": _SCHEMAS, "required": list(_SCHEMAS), "additionalProperties": False}
        ),
    ]

    def value(self) -> Settings:
        """Return the settings."""
        return DEFAULTS.changed(self.settings)


class UsageObject(ObjectOf[Usage]):
    """Size of a memory store."""

    type: Literal["memory_store_usage"] = "memory_store_usage"
    memory_store_id: str
    memories: Count
    content_size_bytes: Count
    attributes: ClassVar = {"content_size_bytes": "size_bytes"}


class AuditEntryObject(Answer):
    """Entry of the audit log."""

    type: Literal["audit_entry"] = "audit_entry"
    seq: Count
    created_at: UtcTime
    actor: ActorObject
    operation: str | None
    integration: str
    outcome: str
    change_count: Count
    memory_version_ids: list[str]


class AuditReport(Answer):
    """Result of a verification of the audit log."""

    type: Literal["audit_report"] = "audit_report"
    is_sound: bool
    entries: Count
    problem: str | None
    head: str | None
    unaudited_memory_version_ids: list[str]


class MemoryErased(ObjectOf[Removed]):
    """Answer to an erasure."""

    id: str
    type: Literal["memory_erased"] = "memory_erased"
    versions: Count
    pending: bool
