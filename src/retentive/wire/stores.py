"""Memory stores, their settings, audit logs and exports; API keys; webhook endpoints."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, WithJsonSchema

from retentive.audit.chain import AuditEntry
from retentive.audit.reader import Verified
from retentive.errors import InvalidInput
from retentive.evidence import Evidence, StoreEvidence
from retentive.values.properties import Properties, StoreInfo
from retentive.values.records import Usage, as_actor
from retentive.values.settings import DEFAULTS, NAMES, Settings
from retentive.values.text import MAX_NAME_CHARS
from retentive.wire import base


class StoreCreation(base.Fields):
    """New memory store."""

    name: base.Name = Field(description="Display name")
    description: str | None = Field(None, max_length=1_024, description="What the store is for")
    metadata: dict[str, str] | None = Field(None, description="At most 16 texts by name")
    key: base.Name | None = Field(
        None, description="Key, unique in the workspace; if it is taken, that store is answered"
    )


class StoreUpdate(base.Fields):
    """Changes of a memory store."""

    name: base.Name | None = Field(None, description="Display name")
    description: str | None = Field(None, max_length=1_024, description="What the store is for")
    metadata: dict[str, str | None] | None = Field(None, description="Texts by name; null removes one")


class StoreObject(base.ObjectOf[StoreInfo]):
    """Memory store. Hosted memory stores have neither a key nor sizes."""

    id: str
    type: Literal["memory_store"] = "memory_store"
    name: str
    description: str
    metadata: dict[str, str]
    key: str | None = None
    memory_count: base.Count | None = None
    content_size_bytes: base.Count | None = None
    created_at: base.UtcTime
    updated_at: base.UtcTime
    archived_at: base.UtcTime | None

    attributes: ClassVar = {"memory_count": "memories", "content_size_bytes": "size_bytes"}

    def value(self, **_: object) -> StoreInfo:
        """Return the description of the memory store."""
        updated_at = None if self.updated_at == self.created_at else self.updated_at
        about = Properties(self.name, self.description, self.metadata, updated_at, self.archived_at)
        sizes = self.memory_count or 0, self.content_size_bytes or 0
        return StoreInfo(self.id, self.key, self.name, self.created_at, *sizes, properties=about.to_text())


class ImportedFile(base.ObjectOf[Any]):
    """What an import did with a file."""

    name: str
    path: base.ShownPath | None
    outcome: Literal["created", "replaced", "same", "exists", "left", "refused"]
    reason: str | None
    attributes: ClassVar = {"outcome": "became", "reason": "why"}


class ImportResult(base.Answer):
    """Answer to an import of memories."""

    type: Literal["import_result"] = "import_result"
    files: list[ImportedFile]
    dry_run: bool
    proposed: bool


_SCHEMAS: dict[str, Any] = {
    name: TypeAdapter(hint).json_schema() for name, hint in get_type_hints(Settings).items() if name in NAMES
}


class SettingsUpdate(base.Fields):
    """Settings to change; null restores a default. The library checks the names and the values."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "properties": {name: {**schema, "description": "See docs/guards.md"} for name, schema in _SCHEMAS.items()},
            "additionalProperties": False,
        },
    )


class SettingsObject(base.Answer):
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


class UsageObject(base.ObjectOf[Usage]):
    """Size of a memory store."""

    type: Literal["memory_store_usage"] = "memory_store_usage"
    memory_store_id: str
    memories: base.Count
    content_size_bytes: base.Count
    attributes: ClassVar = {"content_size_bytes": "size_bytes"}


class AuditEntryObject(base.ObjectOf[AuditEntry]):
    """Entry of the audit log."""

    type: Literal["audit_entry"] = "audit_entry"
    seq: base.Count
    created_at: base.UtcTime
    actor: base.ActorObject
    operation: str | None
    integration: str
    outcome: str
    change_count: base.Count
    memory_version_ids: list[str]
    reason: str | None
    attributes: ClassVar = {"created_at": "time"}

    @classmethod
    def of(cls, given: AuditEntry, **_: object) -> Self:
        """Return the object of an entry."""
        ids = [each.version_id for each in given.changes]
        said = {"actor": as_actor(given.actor), "reason": given.facts.get("reason")}
        return super().of(given, **said, change_count=len(ids), memory_version_ids=ids)


class AuditReport(base.ObjectOf[Verified]):
    """Result of a verification of the audit log."""

    type: Literal["audit_report"] = "audit_report"
    is_sound: bool
    entries: base.Count
    problem: str | None
    head: str | None
    unaudited_memory_version_ids: list[str]

    @classmethod
    def of(cls, given: Verified, **_: object) -> Self:
        """Return the object of a result."""
        said = {name: None if (text := getattr(given, name)) is None else str(text) for name in ("problem", "head")}
        return super().of(given, **said, unaudited_memory_version_ids=[each.id for each in given.unaudited])


class Erasure(base.Fields):
    """Options of an erasure."""

    reason: Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)] | None = Field(
        None, description="Why, for the audit log; without what is erased"
    )


class EvidenceObject(base.ObjectOf[Evidence]):
    """Evidence of what a session did in a memory store (docs/security.md)."""

    type: Literal["evidence"] = "evidence"
    made_at: str
    made_by: str
    session: str
    is_sound: bool
    stores: list[StoreEvidence]


NO_LIMIT = "none"
"""Text for a key without a rate limit, even if the server has a default rate."""
RATE_PATTERN = r"^(none|[1-9][0-9]{0,6}/[smh])$"
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_RATE_TEXT = re.compile(r"([1-9][0-9]{0,6})/([smh])", re.ASCII)


def rate_of(text: str | None) -> tuple[int, float] | None:
    """Return the size of a token bucket and its tokens per second, for a text such as `50/s`, `600/m` or `1000/h`.

    Returns None for None and for `none`. Raises `InvalidInput` if the text is not a rate.
    """
    if text is None or text == NO_LIMIT:
        return None
    found = _RATE_TEXT.fullmatch(text)
    if found is None:
        raise InvalidInput(
            "a rate must be a number per second, minute or hour, such as 50/s, 600/m or 1000/h, or `none`"
        )
    number = int(found[1])
    return number, number / _SECONDS[found[2]]


Scope: TypeAlias = Literal["read", "write", "review", "erase", "gateway", "admin"]
Role: TypeAlias = Literal["read", "write", "review", "admin"]
GatewayMode: TypeAlias = Literal["declared", "added"]
KeyStatus: TypeAlias = Literal["active", "inactive", "archived", "expired"]
RateText = Annotated[str, base.rule(rate_of), WithJsonSchema({"type": "string", "pattern": RATE_PATTERN})]
_RATE = "Requests of the key, such as `50/s`, `600/m`, `1000/h` or `none`"


class KeyCreation(base.Fields):
    """New API key."""

    name: base.Name = Field(description="Name of the key")
    scopes: list[Scope] | None = Field(
        None, max_length=100, description="What the key may do by itself; if empty, only what its groups may"
    )
    stores: list[base.NamePattern] | None = Field(
        None, max_length=100, description="Ids of memory stores, or patterns of their keys; default: all"
    )
    paths: list[base.PathPattern] | None = Field(
        None, max_length=100, description="Patterns of the only paths that it sees; default: all"
    )
    act_as: list[base.ActorPattern] | None = Field(
        None, max_length=100, description="Patterns of the actors that a request may name"
    )
    principal: base.Principal | None = Field(None, description="Actor of changes made with the key; default: the key")
    expires_at: base.Time | None = Field(None, description="When the key expires")
    rate_limit: RateText | None = Field(None, description=_RATE)
    gateway_mode: GatewayMode | None = Field(
        None, description="If the gateway adds the memory tool to requests, or acts only if they declare it (default)"
    )


class KeyUpdate(base.Fields):
    """Changes of an API key."""

    name: base.Name | None = Field(None, description="Name of the key")
    status: Literal["active", "inactive", "archived"] | None = Field(None, description="An archived key stays archived")
    rate_limit: RateText | None = Field(None, description=_RATE)


class KeyCreator(base.Answer):
    """User or service account that created a key."""

    id: str
    type: str


class WorkspaceScope(base.Answer):
    """Workspace of a key."""

    type: Literal["workspace"] = "workspace"
    workspace_id: str


class KeyObject(base.Answer):
    """API key, without its text."""

    id: str
    type: Literal["api_key"] = "api_key"
    name: str
    status: KeyStatus
    partial_key_hint: str
    created_at: base.UtcTime
    created_by: KeyCreator | None
    expires_at: base.UtcTime | None
    principal: base.ActorObject
    scope: WorkspaceScope
    scopes: list[Scope]
    stores: list[str]
    paths: list[str]
    act_as: list[str]
    rate_limit: str | None
    gateway_mode: GatewayMode
    last_used_at: base.UtcTime | None


class NewKeyObject(KeyObject):
    """New API key with its text, which is shown once. `warnings` says which patterns match no memory store yet."""

    api_key: str
    warnings: list[str]


WebhookEvent: TypeAlias = Literal[
    "memory_store.created",
    "memory_store.archived",
    "memory_store.deleted",
    "memory.changed",
    "review.waiting",
]
SentEvent: TypeAlias = WebhookEvent | Literal["webhook.test"]
EndpointState: TypeAlias = Literal["enabled", "disabled"]
DeliveryState: TypeAlias = Literal["pending", "delivered", "dead"]


class EndpointUpdate(base.Fields):
    """Changes of a webhook endpoint."""

    url: str | None = Field(None, min_length=1, max_length=2_000, description="URL that events are sent to")
    enabled_events: list[WebhookEvent] | None = Field(
        None, max_length=100, description="Types of the events to send; an empty list changes nothing"
    )
    name: base.Name | None = Field(None, description="Name of the endpoint")
    description: str | None = Field(None, max_length=1_024, description="Notes about the endpoint")
    state: EndpointState | None = Field(None, description="A disabled endpoint gets no events, also not later")


class EndpointCreation(EndpointUpdate):
    """New webhook endpoint."""

    url: str = Field(min_length=1, max_length=2_000, description="URL that events are sent to")
    enabled_events: list[WebhookEvent] = Field(max_length=100, description="Types of the events to send")


class EndpointObject(base.Answer):
    """Webhook endpoint, without its secret."""

    id: str
    type: Literal["webhook_endpoint"] = "webhook_endpoint"
    url: str
    name: str
    description: str
    enabled_events: list[WebhookEvent]
    state: EndpointState
    created_at: base.UtcTime
    updated_at: base.UtcTime


class NewEndpointObject(EndpointObject):
    """Webhook endpoint with a new secret, which signs its deliveries and is shown once."""

    signing_secret: str


class DeliveryObject(base.Answer):
    """Event for a webhook endpoint. A `dead` one is not tried again."""

    type: Literal["webhook_delivery"] = "webhook_delivery"
    webhook_event_id: str
    webhook_endpoint_id: str
    event: SentEvent
    state: DeliveryState
    attempts: base.Count
    last_error: str | None
    created_at: base.UtcTime
    last_attempt_at: base.UtcTime | None
