"""Routes of groups, and of the organization and its workspaces."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import Field

from retentive.errors import NotFound
from retentive.server.calls import ADMIN, RouteCall, Routes
from retentive.server.errors import forbidden, invalid
from retentive.server.people import Groups
from retentive.server.rights import SCOPES, unmatched
from retentive.server.webhooks import ORGANIZATION
from retentive.values.records import SYSTEM_STORE
from retentive.wire import base
from retentive.wire import people as wire
from retentive.wire.base import IdPage
from retentive.wire.stores import KeyObject

T = TypeVar("T", KeyObject, wire.GroupObject, wire.WorkspaceObject)
GROUPS = "/v1/organizations/groups"
GROUP = f"{GROUPS}/{{group_id}}"
WORKSPACES = "/v1/organizations/workspaces"
After = Annotated[str | None, Field(max_length=300, description="List the objects after this one")]
Before = Annotated[str | None, Field(max_length=300, description="List the objects before this one")]
Count = Annotated[int, Field(ge=1, le=1000, description="Objects in one page"), base.FROM_TEXT]
route = Routes()


@route("POST", GROUPS, ADMIN, conflicts=True)
def create_group(call: RouteCall, body: wire.GroupCreation) -> wire.GroupObject:
    """Create a group."""
    return _shown(call, _groups(call).create(call.caller.workspace_id, body, **call.logged))


@route("GET", GROUPS, ADMIN)
def list_groups(
    call: RouteCall, *, after_id: After = None, before_id: Before = None, limit: Count = 20
) -> IdPage[wire.GroupObject]:
    """List the groups of the workspace, by name."""
    found = _groups(call).all(call.caller.workspace_id)
    return IdPage[wire.GroupObject](**page_of(found, after_id, before_id, limit))


@route("GET", GROUP, ADMIN)
def retrieve_group(call: RouteCall) -> wire.GroupObject:
    """Retrieve a group."""
    return _shown(call, _groups(call).get(call.ids["group_id"], call.caller.workspace_id))


@route("POST", GROUP, ADMIN, conflicts=True)
def update_group(call: RouteCall, body: wire.GroupUpdate) -> wire.GroupObject:
    """Change the members or the grants of a group."""
    groups, group_id = _groups(call), call.ids["group_id"]
    return _shown(call, groups.change(group_id, call.caller.workspace_id, body, **call.logged))


@route("DELETE", GROUP, ADMIN)
def delete_group(call: RouteCall) -> base.DeletedObject:
    """Delete a group. Its members lose its grants within 5 seconds."""
    groups, group_id = _groups(call), call.ids["group_id"]
    groups.delete(group_id, call.caller.workspace_id, **call.logged)
    return base.DeletedObject(id=group_id, type="group_deleted")


def _groups(call: RouteCall) -> Groups:
    """Return the groups. Raises `HttpError` 403 unless the caller administers the workspace: it could add itself."""
    if not call.caller.record.is_admin:
        raise forbidden("this needs an API key with the scope admin for all memory stores")
    return call.location.keys.groups


def _shown(call: RouteCall, group: wire.GroupObject) -> wire.GroupObject:
    patterns = [pattern for grant in group.grants for pattern in grant.stores]
    return group.model_copy(update={"warnings": warnings_of(call, patterns)})


def page_of(found: Sequence[T], after_id: str | None, before_id: str | None, limit: int) -> dict[str, Any]:
    """Return the fields of a page of `found`: after or before the object with an id. Raises `HttpError`."""
    if after_id is not None and before_id is not None:
        raise invalid("before_id: cannot be combined with after_id")
    ids = [each.id for each in found]
    if before_id is None:
        rest = found[ids.index(after_id) + 1 if after_id in ids else 0 :]
        page = rest[:limit]
    else:  # the last ones before this object; none before an unknown one
        rest = found[: ids.index(before_id) if before_id in ids else 0]
        page = rest[-limit:]
    ends = {"first_id": page[0].id if page else None, "last_id": page[-1].id if page else None}
    return {"data": page, "has_more": len(rest) > limit, **ends}


def warnings_of(call: RouteCall, patterns: Sequence[str]) -> list[str]:
    """Return a warning for each pattern that matches no memory store that the caller sees."""
    infos = call.location.stores(call.caller.workspace_id, include_archived=True) if patterns else ()
    return unmatched(patterns, list(filter(call.caller.sees, infos)))


@route("GET", "/v1/organizations/me", SCOPES)
def retrieve_organization(call: RouteCall) -> wire.OrganizationObject:
    """Retrieve the organization of the caller."""
    return wire.OrganizationObject(id=ORGANIZATION, name="retentive")


@route("GET", WORKSPACES, SCOPES)
def list_workspaces(
    call: RouteCall,
    *,
    after_id: After = None,
    before_id: Before = None,
    limit: Count = 20,
    include_archived: Annotated[base.QueryFlag, Field(description="Has no effect: none is archived")] = False,
    include_default: Annotated[base.QueryFlag, Field(description="Has no effect: it is listed")] = True,
) -> IdPage[wire.WorkspaceObject]:
    """List the workspaces that the caller may see: that of its key."""
    return IdPage[wire.WorkspaceObject](**page_of([_workspace(call)], after_id, before_id, limit))


@route("GET", f"{WORKSPACES}/{{workspace_id}}", SCOPES)
def retrieve_workspace(call: RouteCall) -> wire.WorkspaceObject:
    """Retrieve a workspace."""
    if call.ids["workspace_id"] != call.caller.workspace_id:
        raise NotFound("no such workspace")
    return _workspace(call)


def _workspace(call: RouteCall) -> wire.WorkspaceObject:
    own, system = call.caller.workspace_id, call.location.opened.backend.get_store(SYSTEM_STORE)
    made = datetime.fromisoformat(call.caller.key.created_at) if system is None else system.created_at
    return wire.WorkspaceObject(id=own, name=own, compartment_id=own, created_at=made)  # as old as the location
