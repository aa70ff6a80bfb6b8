"""Routes of groups, of what an actor may see, and of the organization and its workspaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import Field

from retentive.errors import NotFound
from retentive.server.calls import ADMIN, RouteCall, Routes
from retentive.server.errors import forbidden, invalid
from retentive.server.people import AccessGroup, granted, role_of
from retentive.server.requests import next_of, start_of
from retentive.server.rights import SCOPES, Grant, KeyRecord, unmatched
from retentive.server.webhooks import ORGANIZATION
from retentive.storage.contract import StoreInfo
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
def create_group(call: RouteCall, body: wire.GroupCreation) -> wire.ChangedGroup:
    """Create a group; if there is the same one already, return it."""
    grants = _grants(call, body.grants)
    return _saved(call, lambda new: replace(new, name=body.name, members=(*body.members,), grants=grants))


@route("GET", GROUPS, ADMIN)
def list_groups(
    call: RouteCall, *, after_id: After = None, before_id: Before = None, limit: Count = 20
) -> IdPage[wire.GroupObject]:
    """List the groups of the workspace, by name."""
    _check_admin(call)
    found = [wire.GroupObject(**_shown(each)) for each in call.location.keys.groups.all(call.caller.workspace_id)]
    return IdPage[wire.GroupObject](**page_of(found, after_id, before_id, limit))


@route("GET", GROUP, ADMIN)
def retrieve_group(call: RouteCall) -> wire.GroupObject:
    """Retrieve a group."""
    _check_admin(call)
    return wire.GroupObject(**_shown(call.location.keys.groups.get(call.ids["group_id"], call.caller.workspace_id)))


@route("POST", GROUP, ADMIN, conflicts=True)
def update_group(call: RouteCall, body: wire.GroupUpdate) -> wire.ChangedGroup:
    """Change the name, the members or the grants of a group."""
    sets, adds, removes = (_grants(call, each) for each in (body.grants, body.add_grants, body.remove_grants))

    def changed(group: AccessGroup) -> AccessGroup:
        members = group.members if body.members is None else body.members
        grants = group.grants if body.grants is None else sets
        return replace(
            group,
            name=body.name or group.name,
            members=(*(each for each in members if each not in (body.remove_members or ())), *(body.add_members or ())),
            grants=(*(each for each in grants if each not in removes), *adds),
        )

    return _saved(call, changed)


@route("DELETE", GROUP, ADMIN)
def delete_group(call: RouteCall) -> wire.GroupDeleted:
    """Delete a group. Its members lose its grants within 5 seconds."""
    _check_admin(call)
    group_id = call.ids["group_id"]
    call.location.keys.groups.delete(group_id, call.caller.workspace_id, **call.logged)
    return wire.GroupDeleted(id=group_id)


def _check_admin(call: RouteCall) -> None:
    """Raise `HttpError` 403 unless the caller administers the workspace. Otherwise, it could raise its own rights."""
    if not call.caller.record.is_admin:
        raise forbidden("this needs an API key with the scope admin for all memory stores")


def _grants(call: RouteCall, given: Sequence[wire.GrantFields] | None) -> tuple[Grant, ...]:
    _check_admin(call)
    return tuple(granted(each.role, each.stores, each.paths) for each in given or ())


def _shown(group: AccessGroup) -> dict[str, Any]:
    grants = [{"role": role_of(each), "stores": each.stores, "paths": each.paths} for each in group.grants]
    about = {"id": group.id, "name": group.name, "created_at": group.created_at}
    return {**about, "members": group.members, "grants": grants}


def _saved(call: RouteCall, changed: Callable[[AccessGroup], AccessGroup]) -> wire.ChangedGroup:
    groups, own = call.location.keys.groups, call.caller.workspace_id
    group = groups.save(call.ids.get("group_id"), own, changed, **call.logged)
    patterns = (pattern for grant in group.grants for pattern in grant.stores)
    return wire.ChangedGroup(**_shown(group), warnings=warnings_of(call, patterns))


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


def warnings_of(call: RouteCall, patterns: Iterable[str]) -> list[str]:
    """Return a warning for each pattern that matches no memory store that the caller sees."""
    given = tuple(patterns)
    seen = [info for info in call.location.opened.stores() if call.caller.sees(info)] if any(given) else []
    return unmatched(given, seen)


@route("GET", "/v1/organizations/access", ADMIN)
def list_access(
    call: RouteCall,
    actor: Annotated[wire.ActorName, Field(description="Actor such as `user:ann`")],
    *,
    claims: Annotated[
        str | None, Field(max_length=2_000, description="Groups that an identity provider names, with commas")
    ] = None,
    limit: base.Limit = 20,
    page: base.Cursor = None,
) -> base.AnswerPage[wire.AccessObject]:
    """List the memory stores that an actor may see: through its groups, and with active keys that belong to it."""
    _check_admin(call)
    of = f"{call.path} {actor} {claims}"
    chosen: dict[str, Any] = {"workspace": call.caller.workspace_id, "after": start_of(page, of) or None}
    found = call.location.opened.list_stores(include_archived=True, limit=limit, **chosen)
    rights = _rights(call, str(actor), [each.strip() for each in (claims or "").split(",") if each.strip()])
    data = [_access(rights, info) for info in found.items if call.caller.sees(info) and rights.sees(info.id, info.key)]
    return base.AnswerPage[wire.AccessObject](data=data, next_page=next_of(found.next, of))


def _rights(call: RouteCall, actor: str, claims: Sequence[str]) -> KeyRecord:
    keys, own = call.location.keys, call.caller.workspace_id
    now = keys.now()
    nobody = KeyRecord("", "", "", "", own, (), now.isoformat(), principal=actor)
    mine = (each for each in keys.all(own) if str(each.actor) == actor and each.status_at(now) == "active")
    of_keys = (Grant(each.stores, each.scopes, each.paths, each.id) for each in mine)
    return replace(nobody, grants=(*keys.groups.with_groups(nobody, claims).grants, *of_keys))


def _access(rights: KeyRecord, info: StoreInfo) -> wire.AccessObject:
    there = rights.within(info.id, info.key)
    assert there is not None  # `sees` says so
    through = dict.fromkeys(each.group for each in rights.grants if each.covers(info.id, info.key))
    return wire.AccessObject(
        memory_store_id=info.id,
        key=info.key,
        scopes=list(there.scopes),
        read_paths=list(there.paths) if there.allows("read") else None,
        write_paths=None if there.write_paths is None else list(there.write_paths),
        through=list(through),
    )


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
    own = call.caller.workspace_id
    times = [datetime.fromisoformat(each.created_at) for each in (call.caller.key, *call.location.keys.all(own))]
    times += [each.created_at for each in call.location.opened.stores() if each.workspace_id == own]
    return wire.WorkspaceObject(id=own, name=own, compartment_id=own, created_at=min(times))
