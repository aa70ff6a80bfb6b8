"""`groups`: groups of people and agents, and their roles in memory stores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import click

from retentive.cli import output
from retentive.cli.location import Location
from retentive.cli.options import Group, command
from retentive.cli.parameters import option
from retentive.cli.server import warnings_of
from retentive.errors import NotFound
from retentive.opening import Retentive
from retentive.server.people import ID, ROLES, Groups
from retentive.storage.contract import DEFAULT_WORKSPACE
from retentive.wire.people import GroupCreation, GroupObject, GroupUpdate

_GRANT = re.compile(rf"(?P<role>{'|'.join(ROLES)}):(?P<stores>.+?)(?::(?P<paths>/memories.*))?")
_WORKSPACE = option("--workspace", "ID", "Workspace of the group.", default=DEFAULT_WORKSPACE)
_MEMBER = "KIND:NAME, such as user:ann, service_account:ci-*, or group:NAME of an identity provider; may be repeated."
_ROLE = "ROLE:STORES, or ROLE:STORES:PATHS such as write:team-*:/memories/notes; may be repeated."


def _id(name: str, workspace: str) -> str:
    return name if ID.fullmatch(name) else Groups.id_of(name, workspace)


def _grants(texts: Iterable[str]) -> list[dict[str, object]]:
    found = list[dict[str, object]]()
    for text in texts:
        parts = _GRANT.fullmatch(text)
        if parts is None:
            roles = ", ".join(ROLES)
            raise click.BadParameter(f"{text!r} must be ROLE:STORES or ROLE:STORES:PATHS, with a role {roles}")
        lists = {name: parts[name].split(",") for name in ("stores", "paths") if parts[name]}
        found.append({"role": parts["role"], **lists})
    return found


def _report(found: Retentive, workspace: str, group: GroupObject, done: str) -> None:
    warnings = warnings_of(found, workspace, [pattern for each in group.grants for pattern in each.stores])
    shown = group.model_copy(update={"warnings": warnings}).model_dump(mode="json")
    output.emit(shown, f"{done} {group.name}.\n", notes=[f"Warning: {each}" for each in warnings])


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
    with location.opened() as opened:
        known = Groups(opened.records)
        found = known.all(workspace) if name is None else [known.get(_id(name, workspace), workspace)]
    rows = [{**dict(each), "roles": list(map(str, each.grants))} for each in found]
    table = output.table(rows, {each: each for each in ("name", "members", "roles", "id")}, empty="No groups.")
    output.emit([each.model_dump(mode="json", exclude={"warnings"}) for each in found], table)


@command("new", group=groups, json="Print a JSON object.")
@click.argument("name")
@option("--member", "members", "MEMBER", _MEMBER, multiple=True)
@option("--role", "roles", "ROLE", _ROLE, multiple=True)
@_WORKSPACE
def new(location: Location, *, name: str, members: Sequence[str], roles: Sequence[str], workspace: str) -> None:
    """Create a group.

    \b
    retentive groups new docs --member user:ann --role 'write:team-*:/memories/a'
    """
    given = GroupCreation.read({"name": name, "members": list(members), "grants": _grants(roles)})
    with location.opened(create=True) as found:
        made = Groups(found.records).create(workspace, given, by=location.actor_name, integration="cli")
        _report(found, workspace, made, "Created")


@command("set", group=groups, json="Print a JSON object.")
@click.argument("name")
@option("--add", "MEMBER", f"Member to add: {_MEMBER}", multiple=True)
@option("--remove", "MEMBER", "Member to remove; may be repeated.", multiple=True)
@option("--role", "ROLE", f"Role to give: {_ROLE}", multiple=True)
@option("--no-role", "ROLE", "Role to take away, as `list` prints it; may be repeated.", multiple=True)
@_WORKSPACE
def change(location: Location, /, *, name: str, workspace: str, **given: Sequence[str]) -> None:
    """Add and remove members of a group, give and take away roles."""
    if not any(given.values()):
        raise click.UsageError("Say what to change: --add, --remove, --role or --no-role.")
    body: dict[str, Any] = {"add_members": list(given["add"]), "add_grants": _grants(given["role"])}
    body |= {"remove_members": list(given["remove"]), "remove_grants": _grants(given["no_role"])}
    changes = GroupUpdate.read(body)
    with location.opened() as found:
        known, group_id = Groups(found.records), _id(name, workspace)
        before = known.get(group_id, workspace)
        absent = [each for each in changes.remove_members if each not in before.members]
        absent += [str(each) for each in changes.remove_grants if each not in before.grants]
        if absent:
            raise NotFound(f"the group {before.name!r} has no {absent[0]!r}; `retentive groups` prints what it has")
        after = known.change(group_id, workspace, changes, by=location.actor_name, integration="cli")
        _report(found, workspace, after, "Changed")


@command("delete", group=groups, json="Print a JSON object.")
@click.argument("name")
@_WORKSPACE
def delete(location: Location, *, name: str, workspace: str) -> None:
    """Delete a group by its name or id. Its members lose its roles within 5 seconds."""
    with location.opened() as found:
        group_id = _id(name, workspace)
        Groups(found.records).delete(group_id, workspace, by=location.actor_name, integration="cli")
    output.emit({"id": group_id}, f"Deleted {name}.\n")
