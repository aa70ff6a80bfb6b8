"""Pages of groups of people and agents, and of what an actor may see."""

from __future__ import annotations

from starlette.responses import Response

from retentive.console.rendering import BASE
from retentive.console.visits import Visit, page, redirect
from retentive.server.handlers import people as api
from retentive.server.people import ROLES
from retentive.storage.contract import Actor
from retentive.wire.people import GroupCreation, GroupUpdate

ROWS = 50


@page("GET", "/people", "admin", is_of_workspace=True)
@page("POST", "/people/create", "admin", is_of_workspace=True)
def list_people(visit: Visit) -> Response:
    """Show the groups of the workspace, and with `actor` what it may see. With POST, create a group."""
    if visit.is_post:
        grants = [_grant(visit)] if visit.given("stores").strip() else []
        body = {"name": visit.given("name").strip(), "members": visit.given("members").split(), "grants": grants}
        return _show(visit, api.create_group(visit.call(), GroupCreation.read(body)).id)
    query, actor = visit.query, visit.query.get("actor", "").strip()
    found = api.list_groups(visit.call(), limit=ROWS, after_id=query.get("after"))
    values: dict[str, object] = {"groups": found.data, "following": found.last_id if found.has_more else None}
    values |= {"roles": list(ROLES), "actor": actor, "claims": query.get("claims", "").strip()}
    if actor:
        of, page_of = Actor.parse(actor), query.get("page")
        values["access"] = api.list_access(visit.call(), of, claims=query.get("claims"), limit=ROWS, page=page_of)
        values["names"] = {each.id: each.name for each in api.list_groups(visit.call(), limit=1_000).data}
    return visit.page("people.html", "People", **values)


@page("GET", "/people/{group}", "admin", is_of_workspace=True)
def show_group(visit: Visit) -> Response:
    """Show the members and the roles of a group, and the forms that change it."""
    return _show(visit, visit.ids["group"])


@page("POST", "/people/{group}/change", "admin", is_of_workspace=True)
def change_group(visit: Visit) -> Response:
    """Rename or delete a group, add or remove a member or a role."""
    action, group_id, text = visit.given("action"), visit.ids["group"], visit.given("text").strip()
    call = visit.call(group_id=group_id)
    if action == "delete":
        api.delete_group(call)
        return redirect(f"{BASE}/people")
    bodies: dict[str, dict[str, object]] = {
        "rename": {"name": text},
        "add": {"add_members": [text]},
        "remove": {"remove_members": [text]},
        "give": {"add_grants": [_grant(visit)]},
        "take": {"remove_grants": [_grant(visit)]},
    }
    body = bodies.get(action, {"action": action})
    changed = api.update_group(call, GroupUpdate.read(body))
    return _show(visit, group_id) if changed.warnings else redirect(f"{BASE}/people/{group_id}")


def _grant(visit: Visit) -> dict[str, object]:
    """Return the grant in a form: with a pattern in each line, or with spaces between those that a person typed."""
    texts = {name: visit.given(name) for name in ("stores", "paths")}
    lists = {name: text.splitlines() if "\n" in text else text.split() for name, text in texts.items()}
    return {"role": visit.given("role"), **{name: list(filter(None, lines)) for name, lines in lists.items()}}


def _show(visit: Visit, group_id: str) -> Response:
    found = api.retrieve_group(visit.call(group_id=group_id))
    patterns = (pattern for grant in found.grants for pattern in grant.stores)
    warnings = api.warnings_of(visit.call(), patterns)
    return visit.page("group.html", found.name, group=found, roles=list(ROLES), warnings=warnings)
