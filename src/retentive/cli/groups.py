"""`groups`: groups of people and agents, and their roles in memory stores, at a location or on a server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import click

from retentive.cli import output
from retentive.cli.location import Location
from retentive.cli.options import Group, command
from retentive.cli.server import unknown_workspace
from retentive.errors import InvalidInput, NotFound
from retentive.opening import Retentive
from retentive.remote import is_remote
from retentive.server.calls import Caller, Route, RouteCall, ServedLocation
from retentive.server.handlers import people
from retentive.server.people import ROLES, described
from retentive.server.rights import KeyRecord
from retentive.storage.contract import DEFAULT_WORKSPACE, Actor
from retentive.wire.base import Fields
from retentive.wire.people import ChangedGroup, GroupObject

Ask = Callable[..., Any]
ROUTES = {route.handler: route for route in people.route}
_GRANT = re.compile(rf"(?P<role>{'|'.join(ROLES)}):(?P<stores>.+?)(?::(?P<paths>/memories.*))?")
_WORKSPACE = click.option(
    "--workspace", metavar="ID", default=DEFAULT_WORKSPACE, help="Workspace of the group; on a server, that of the key."
)
_MEMBER = "KIND:NAME, such as user:ann, service_account:ci-*, or group:NAME of an identity provider; may be repeated."
_ROLE = "ROLE:STORES, or ROLE:STORES:PATHS such as write:team-*:/memories/notes; may be repeated."


class _LocalCall(RouteCall):
    """Call of a handler of the HTTP API by a command, on an open location."""

    __slots__ = ()
    integration = "cli"


@contextmanager
def _server(location: Location, workspace: str, *, create: bool = False) -> Iterator[Ask]:
    """Open the location, and yield the function that calls a handler there, or its route on a server."""
    with location.opened(create=create) as found:
        if is_remote(found):
            if workspace != DEFAULT_WORKSPACE:
                raise InvalidInput("a server uses the workspace of the API key; omit --workspace")
            yield lambda handler, **given: _sent(found, location, ROUTES[handler], **given)
            return
        for each in unknown_workspace(found, workspace):
            output.note(f"Warning: {each}")
        owner = KeyRecord("", "", "", "", workspace, ("admin",), "")
        caller, served = Caller(owner, Actor.parse(location.actor_name)), ServedLocation(found)
        yield lambda handler, **given: _called(served, caller, ROUTES[handler], **given)


def _called(
    served: ServedLocation, caller: Caller, route: Route, *, body: Any = None, query: Any = None, **ids: str
) -> Any:
    call = _LocalCall(served, caller, route.method, route.path, ids)
    asked = (route.query or Fields).read(query or {})
    fields = {name: getattr(asked, name) for name in type(asked).model_fields}
    return route.handler(call, **fields, **({} if route.body is None else {"body": route.body.read(body or {})}))


def _sent(
    found: Retentive, location: Location, route: Route, *, body: Any = None, query: Any = None, **ids: str
) -> Any:
    path = route.path.format(**{name: quote(value, safe="") for name, value in ids.items()})
    actor = None if location.actor is None else location.actor_name
    return found.client.call(route.answer, route.method, path, body=body, query=query, actor=actor)  # type: ignore[attr-defined]


def _all(ask: Ask) -> list[GroupObject]:
    found, page = list[GroupObject](), None
    while page is None or page.has_more:
        page = ask(people.list_groups, query={"limit": 1_000, "after_id": page and page.last_id})
        found += page.data
    return found


def _found(ask: Ask, name: str) -> GroupObject:
    """Return the group with a name or id. Raises `NotFound`."""
    for each in _all(ask):
        if name in {each.name, each.id}:
            return each
    raise NotFound(f"there is no group {name!r}; `retentive groups` lists them")


def _grant(text: str) -> dict[str, object]:
    parts = _GRANT.fullmatch(text)
    if parts is None:
        raise click.BadParameter(f"{text!r} must be ROLE:STORES or ROLE:STORES:PATHS, with a role {', '.join(ROLES)}")
    given = {name: (parts[name] or "").split(",") if parts[name] else [] for name in ("stores", "paths")}
    return {"role": parts["role"], **given}


def _fields(group: GroupObject) -> dict[str, Any]:
    return group.model_dump(mode="json")


def _roles(group: GroupObject) -> list[str]:
    return [described(each.role, each.stores, each.paths) for each in group.grants]


def _report(group: ChangedGroup, done: str) -> None:
    output.emit(_fields(group), f"{done} {group.name}.\n", notes=[f"Warning: {each}" for each in group.warnings])


@click.group("groups", cls=Group, default="list")
def groups() -> None:
    """Give groups of people and agents roles in memory stores, in all of a store or for some paths.

    The roles are read, write (and read), review (and read) and admin (all, in these stores). A member gets them with
    each API key that has it as principal, and with its sign-ins. Changes hold within 5 seconds.
    """


@command("list", group=groups, json="Print a JSON list.")
@click.argument("name", required=False)
@_WORKSPACE
def list_groups(location: Location, *, name: str | None, workspace: str) -> None:
    """List the groups by name, or the group NAME, with their members, roles and ids."""
    with _server(location, workspace) as ask:
        found = _all(ask) if name is None else [_found(ask, name)]
    rows = [{**_fields(each), "roles": _roles(each)} for each in found]
    table = output.table(rows, {each: each for each in ("name", "members", "roles", "id")}, empty="No groups.")
    output.emit(list(map(_fields, found)), table)


@command("new", group=groups, json="Print a JSON object.")
@click.argument("name")
@click.option("--member", "members", metavar="MEMBER", multiple=True, help=_MEMBER)
@click.option("--role", "grants", metavar="ROLE", multiple=True, help=_ROLE)
@_WORKSPACE
def new(location: Location, *, name: str, members: Sequence[str], grants: Sequence[str], workspace: str) -> None:
    """Create a group.

    \b
    retentive groups new docs --member user:ann --role 'write:team-*:/memories/notes' --role 'read:team-*'
    """
    body = {"name": name, "members": list(members), "grants": list(map(_grant, grants))}
    with _server(location, workspace, create=True) as ask:
        _report(ask(people.create_group, body=body), "Created")


@command("set", group=groups, json="Print a JSON object.")
@click.argument("name")
@click.option("--rename", metavar="NAME", help="New name.")
@click.option("--add", metavar="MEMBER", multiple=True, help=f"Member to add: {_MEMBER}")
@click.option("--remove", metavar="MEMBER", multiple=True, help="Member to remove; may be repeated.")
@click.option("--role", metavar="ROLE", multiple=True, help=f"Role to give: {_ROLE}")
@click.option(
    "--no-role", metavar="ROLE", multiple=True, help="Role to take away, as `list` prints it; may be repeated."
)
@_WORKSPACE
def change(location: Location, /, *, name: str, workspace: str, rename: str | None, **given: Sequence[str]) -> None:
    """Rename a group, add and remove members, give and take away roles."""
    roles = {"add_grants": given["role"], "remove_grants": given["no_role"]}
    body: dict[str, object] = {
        "name": rename,
        "add_members": list(given["add"]),
        "remove_members": list(given["remove"]),
    }
    body |= {field: list(map(_grant, texts)) for field, texts in roles.items()}
    if not any(body.values()):
        raise click.UsageError("Say what to change: --rename, --add, --remove, --role or --no-role.")
    with _server(location, workspace) as ask:
        found = _found(ask, name)
        if absent := {*given["remove"], *given["no_role"]}.difference(found.members, _roles(found)):
            raise NotFound(f"the group {found.name!r} has no {min(absent)!r}; `retentive groups` prints what it has")
        _report(ask(people.update_group, group_id=found.id, body=body), "Changed")


@command("delete", group=groups, json="Print a JSON object.")
@click.argument("name")
@_WORKSPACE
def delete(location: Location, *, name: str, workspace: str) -> None:
    """Delete a group. Its members lose its roles within 5 seconds."""
    with _server(location, workspace) as ask:
        group_id = name if name.startswith("group_") else _found(ask, name).id
        ask(people.delete_group, group_id=group_id)
    output.emit({"id": group_id}, f"Deleted {name}.\n")


@command("access", group=groups, json="Print a JSON list.")
@click.argument("actor")
@click.option("--claim", "claims", metavar="GROUP", multiple=True, help="Group that an identity provider names.")
@_WORKSPACE
def access(location: Location, *, actor: str, claims: Sequence[str], workspace: str) -> None:
    """List the memory stores that an actor such as user:ann may see, by its groups and its keys."""
    rows, page = list[dict[str, Any]](), None
    with _server(location, workspace) as ask:
        while page is None or page.next_page is not None:
            query = {"actor": actor, "claims": ",".join(claims) or None, "limit": 100, "page": page and page.next_page}
            page = ask(people.list_access, query=query)
            rows += [each.model_dump(mode="json") for each in page.data]
    value = [dict(each) for each in rows]
    for each in rows:
        each["store"] = each["key"] or each["memory_store_id"]
        for name in ("read_paths", "write_paths"):
            each[name] = "-" if each[name] is None else each[name] or "all"
    columns = {"store": "store", "scopes": "scopes", "reads": "read_paths", "writes": "write_paths"}
    output.emit(value, output.table(rows, {**columns, "through": "through"}, empty="No memory store."))
