"""API keys."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, WithJsonSchema

from retentive.wire.actors import ActorObject, Principal
from retentive.wire.base import (
    ActorPattern,
    Answer,
    Count,
    Fields,
    Name,
    NamePattern,
    PathPattern,
    Time,
    UtcTime,
    rule,
)
from retentive.wire.rates import RATE_PATTERN, rate_of

Scope: TypeAlias = Literal["read", "write", "review", "erase", "admin"]
KeyStatus: TypeAlias = Literal["active", "inactive", "archived", "expired"]
RateText = Annotated[str, rule(rate_of), WithJsonSchema({"type": "string", "pattern": RATE_PATTERN})]
_RATE = "Requests of the key, such as `50/s`, `600/m`, `1000/h` or `none`"


class KeyCreation(Fields):
    """New API key."""

    name: Name = Field(description="Name of the key")
    scopes: list[Scope] | None = Field(None, max_length=100, description="What the key may do")
    stores: list[NamePattern] | None = Field(
        None, max_length=100, description="Ids of memory stores, or patterns of their keys; default: all"
    )
    paths: list[PathPattern] | None = Field(
        None, max_length=100, description="Patterns of the only paths that it sees; default: all"
    )
    act_as: list[ActorPattern] | None = Field(
        None, max_length=100, description="Patterns of the actors that a request may name"
    )
    principal: Principal | None = Field(None, description="Actor of the changes made with the key; default: the key")
    expires_at: Time | None = Field(None, description="When the key expires")
    rate_limit: RateText | None = Field(None, description=_RATE)
    max_body_bytes: int | None = Field(
        None, ge=1, le=1 << 26, description="Limit of a body, if it is less than that of the store"
    )


class KeyUpdate(Fields):
    """Changes of an API key."""

    name: Name | None = Field(None, description="Name of the key")
    status: Literal["active", "inactive", "archived"] | None = Field(None, description="An archived key stays archived")
    rate_limit: RateText | None = Field(None, description=_RATE)


class KeyCreator(Answer):
    """User or service account that created a key."""

    id: str
    type: str


class WorkspaceScope(Answer):
    """Workspace of a key."""

    type: Literal["workspace"] = "workspace"
    workspace_id: str


class KeyObject(Answer):
    """API key, without its text."""

    id: str
    type: Literal["api_key"] = "api_key"
    name: str
    status: KeyStatus
    partial_key_hint: str
    created_at: UtcTime
    created_by: KeyCreator | None
    expires_at: UtcTime | None
    principal: ActorObject
    scope: WorkspaceScope
    scopes: list[Scope]
    stores: list[str]
    paths: list[str]
    act_as: list[str]
    rate_limit: str | None
    max_body_bytes: Count | None
    last_used_at: UtcTime | None


class NewKeyObject(KeyObject):
    """New API key with its text, which is shown once."""

    api_key: str


class KeyPage(Answer):
    """API keys of a workspace, newest first."""

    data: list[KeyObject]
    has_more: bool
    first_id: str | None
    last_id: str | None
