"""Groups of people and agents, what an actor may see, the organization and its workspaces."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from retentive.errors import InvalidInput
from retentive.storage.contract import Actor
from retentive.wire import base
from retentive.wire.stores import Role, Scope

Members: TypeAlias = Annotated[list[base.NamePattern], Field(max_length=1_000)]
_MEMBERS = "Actors such as `user:ann`, patterns such as `service_account:ci-*`, and groups of tokens: `group:NAME`"
_GRANTS = "Roles in memory stores, for all paths or some"


class GrantFields(base.Fields):
    """Role in memory stores."""

    role: Role = Field(description="`write` and `review` include `read`; `admin` includes all, in these stores")
    stores: list[base.NamePattern] = Field(
        default_factory=list,
        max_length=100,
        description="Ids of memory stores, or patterns of their keys, else all",
    )
    paths: list[base.PathPattern] = Field(
        default_factory=list, max_length=100, description="Patterns of the only paths, for `read` and `write`"
    )


Grants: TypeAlias = Annotated[list[GrantFields], Field(max_length=100)]


class GroupCreation(base.Fields):
    """New group."""

    name: base.Name = Field(description="Name, unique in the workspace")
    members: Members = Field(default_factory=list, description=_MEMBERS)
    grants: Grants = Field(default_factory=list, description=_GRANTS)


class GroupUpdate(base.Fields):
    """Changes of a group. `members` and `grants` replace all; the others add and remove some."""

    name: base.Name | None = Field(None, description="Name, unique in the workspace")
    members: Members | None = Field(None, description=_MEMBERS)
    add_members: Members | None = Field(None, description="Members to add")
    remove_members: Members | None = Field(None, description="Members to remove")
    grants: Grants | None = Field(None, description=_GRANTS)
    add_grants: Grants | None = Field(None, description="Grants to add")
    remove_grants: Grants | None = Field(None, description="Grants to remove")


class GrantObject(base.Answer):
    """Role in memory stores. Without `paths`, for all paths."""

    role: Role
    stores: list[str]
    paths: list[str]


class GroupObject(base.Answer):
    """Group of people and agents."""

    id: str
    type: Literal["group"] = "group"
    name: str
    created_at: base.UtcTime
    members: list[str]
    grants: list[GrantObject]


class ChangedGroup(GroupObject):
    """Group after a change. `warnings` says which patterns match no memory store yet."""

    warnings: list[str]


class GroupDeleted(base.Answer):
    """Answer to the deletion of a group."""

    id: str
    type: Literal["group_deleted"] = "group_deleted"


class AccessObject(base.Answer):
    """What an actor may do in a memory store. Empty lists of paths mean all paths; null means none."""

    type: Literal["memory_store_access"] = "memory_store_access"
    memory_store_id: str
    key: str | None
    scopes: list[Scope]
    read_paths: list[str] | None
    write_paths: list[str] | None
    through: list[str]
    """Ids of the groups and the API keys that give these rights."""


class OrganizationObject(base.Answer):
    """Organization: the location that the server has."""

    id: str
    name: str
    type: Literal["organization"] = "organization"


_ANYWHERE = {"allowed_inference_geos": "unrestricted", "default_inference_geo": "global", "workspace_geo": "us"}


class WorkspaceObject(base.Answer):
    """Workspace, in the form of the hosted Admin API. A workspace exists when a key or a memory store names it."""

    id: str
    type: Literal["workspace"] = "workspace"
    name: str
    created_at: base.UtcTime
    archived_at: base.UtcTime | None = None
    compartment_id: str
    data_residency: dict[str, str] = Field(default_factory=lambda: dict(_ANYWHERE))
    display_color: str = "#6C5BB9"
    external_key_id: str | None = None
    tags: dict[str, str] = Field(default_factory=dict)
    user_profile_id: str | None = None


def _actor(text: object) -> object:
    actor = Actor.parse(text) if isinstance(text, str) else text
    if isinstance(actor, Actor) and actor.kind in {"user", "service_account", "api_key"}:
        return actor
    raise InvalidInput("must be user:NAME, service_account:NAME or api_key:ID")


ActorName = Annotated[Actor, base.converted(_actor), base.WithJsonSchema({"type": "string", "maxLength": 300})]
"""Actor such as `user:ann`, in a query."""
