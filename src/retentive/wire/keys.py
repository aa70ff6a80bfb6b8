"""API keys, and their request rates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, WithJsonSchema

from retentive.errors import InvalidInput
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

NO_LIMIT = "none"
"""Text for a key without a rate limit, even if the server has a default rate."""
RATE_PATTERN = r"^(none|[1-9][0-9]{0,6}/[smh])$"
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_RATE_TEXT = re.compile(r"([1-9][0-9]{0,6})/([smh])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rate:
    """Limit on requests, as a token bucket.

    A request takes one token. The bucket holds at most `burst` tokens, and gains `per_s` tokens each second.
    """

    burst: int
    per_s: float


def rate_of(text: str | None) -> Rate | None:
    """Return the rate in a text such as `50/s`, `600/m` or `1000/h`. Return None for None and for `none`.

    Raises `InvalidInput` if the text is not a rate.
    """
    if text is None or text == NO_LIMIT:
        return None
    found = _RATE_TEXT.fullmatch(text)
    if found is None:
        raise InvalidInput(
            "a rate must be a number per second, minute or hour, such as 50/s, 600/m or 1000/h, or `none`"
        )
    number = int(found[1])
    return Rate(number, number / _SECONDS[found[2]])


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
