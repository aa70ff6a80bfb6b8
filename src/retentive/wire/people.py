"""Groups of people and agents, the organization and its workspaces."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from retentive.errors import InvalidInput
from retentive.values.text import plain_name
from retentive.wire import base
from retentive.wire.stores import Role

MAX_MEMBERS, MAX_GRANTS = 1_000, 100
MEMBER_KINDS = ("user", "service_account", "api_key", "group")
_OF_PEOPLE = ("user", "group")


def check_member(pattern: str) -> None:
    """Raise `InvalidInput` if a pattern of members of a group is invalid or matches too much."""
    kind, colon, name = plain_name("a member", pattern).partition(":")
    if kind not in MEMBER_KINDS or not colon or not name or name != name.strip():
        kinds = ", ".join(MEMBER_KINDS)
        raise InvalidInput(
            f"member {pattern[:80]!r} must be KIND:NAME, such as user:ann, service_account:ci-* or, for a group of an "
            f"identity provider, group:staff; the kinds are {kinds}"
        )
    if kind in _OF_PEOPLE and not name.strip("*?"):
        raise InvalidInput(f"member {pattern[:80]!r} matches everybody; name a {kind}, such as {kind}:team-*")


class RoleGrant(base.Fields):
    """Role in memory stores."""

    role: Role = Field(description="`write` and `review` include `read`; `admin` includes all, in these stores")
    stores: Annotated[list[base.NamePattern], base.rule(lambda given: given or ["*"], keeps=False)] = Field(
        default_factory=list, max_length=100, description="Ids of memory stores, or patterns of their keys, else all"
    )
    paths: list[base.PathPattern] = Field(
        default_factory=list, max_length=100, description="Patterns of the only paths, for `read` and `write`"
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.paths and self.role not in {"read", "write"}:
            raise InvalidInput(f"the role {self.role} is for whole memory stores, so it cannot be limited to paths")
        return self

    def __str__(self) -> str:
        """Return the grant as a text, such as `write:team-*:/memories/notes`."""
        return ":".join([self.role, ",".join(self.stores), *([",".join(self.paths)] if self.paths else [])])


Members: TypeAlias = Annotated[
    list[Annotated[str, Field(min_length=1), base.rule(check_member)]],
    Field(
        max_length=MAX_MEMBERS,
        description="Actors such as `user:ann` or `service_account:ci-*`, and groups of tokens such as `group:staff`",
    ),
]
Grants: TypeAlias = Annotated[
    list[RoleGrant], Field(max_length=MAX_GRANTS, description="Roles in memory stores, for all paths or some")
]


class GroupUpdate(base.Fields):
    """Members and grants to add to a group, and to remove from it."""

    add_members: Members = Field(default_factory=list)
    remove_members: Members = Field(default_factory=list)
    add_grants: Grants = Field(default_factory=list)
    remove_grants: Grants = Field(default_factory=list)


class GroupCreation(base.Fields):
    """New group."""

    name: base.Name = Field(description="Name, unique in the workspace")
    members: Members = Field(default_factory=list)
    grants: Grants = Field(default_factory=list)


class GroupObject(base.Answer):
    """Group of people and agents. `warnings` says which patterns match no memory store yet; a list does not have it."""

    id: str
    type: Literal["group"] = "group"
    name: str
    created_at: base.UtcTime
    members: list[str]
    grants: list[RoleGrant]
    warnings: list[str] = Field(default_factory=list)


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
