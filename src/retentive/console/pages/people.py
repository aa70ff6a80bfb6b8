"""Pages of groups of people and agents."""

from __future__ import annotations

from starlette.responses import Response

from retentive.console.rendering import BASE
from retentive.console.visits import Visit, page, redirect
from retentive.server.handlers import people as api
from retentive.server.people import ROLES
from retentive.wire.people import GroupCreation, GroupUpdate

ROWS = 50


@page("GET", "/people", "admin", is_of_workspace=True)
@page("POST", "/people/create", "admin", is_of_workspace=True)
def list_people(visit: Visit) -> Response:
    """Show the groups of the workspace. With POST, create one."""
    if visit.is_post:
        grants = [_grant(visit)] if visit.given("stores").strip() else []
        body = {"name": visit.given("name").strip(), "members": visit.given("members").split(), "grants": grants}
        return redirect(f"{BASE}/people/{api.create_group(visit.call(), GroupCreation.read(body)).id}")
    found = api.list_groups(visit.call(), limit=ROWS, after_id=visit.query.get("after"))
    following = found.last_id if found.has_more else None
    return visit.page("people.html", "People", groups=found.data, following=following, roles=list(ROLES))


@page("GET", "/people/{group}", "admin", is_of_workspace=True)
def show_group(visit: Visit) -> Response:
    """Show the members and the roles of a group, and the forms that change it."""
    found = api.retrieve_group(visit.call(group_id=visit.ids["group"]))
    return visit.page("group.html", found.name, group=found, roles=list(ROLES))


@page("POST", "/people/{group}/change", "admin", is_of_workspace=True)
def change_group(visit: Visit) -> Response:
    """Delete a group, add or remove a member or a role."""
    action, group_id, member = visit.given("action"), visit.ids["group"], [visit.given("member").strip()]
    call = visit.call(group_id=group_id)
    if action == "delete":
        api.delete_group(call)
        return redirect(f"{BASE}/people")
    is_member = action in {"add_members", "remove_members"}
    api.update_group(call, GroupUpdate.read({action: member if is_member else [_grant(visit)]}))
    return redirect(f"{BASE}/people/{group_id}")


def _grant(visit: Visit) -> dict[str, object]:
    """Return the grant in a form: with a pattern in each line, or with spaces between those that a person typed."""
    texts = {name: visit.given(name) for name in ("stores", "paths")}
    lists = {name: text.splitlines() if "\n" in text else text.split() for name, text in texts.items()}
    return {"role": visit.given("role"), **{name: list(filter(None, lines)) for name, lines in lists.items()}}
