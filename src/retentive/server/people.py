"""Groups of people and agents: the records that are stored for them, and the rights that their members get."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import TypeAdapter

from retentive.errors import Conflict, Damaged, InvalidInput, NotFound
from retentive.server.rights import ALL_STORES, OF_PATHS, Grant, KeyRecord
from retentive.store.location_records import LocationRecords, LogEntry, entry_of
from retentive.values.patterns import check_name_pattern, matches_actor
from retentive.values.text import plain_name
from retentive.wire.stores import Role, Scope

KIND = "group"
ID_PREFIX = "group_"
CACHE_S: Final = 5.0
"""Maximum time until every process has noticed that a key was revoked, or a group changed."""
CLAIMED = "group:"
"""Prefix of the members that are groups of an identity provider, which tokens name."""
LOG = logging.getLogger("retentive.server")


ROLES: Mapping[Role, tuple[Scope, ...]] = {
    "read": ("read",), "write": ("read", "write"), "review": ("read", "review"), "admin": ("admin",),
}  # fmt: skip
"""Scopes of each role that a group can give."""
MEMBER_KINDS = ("user", "service_account", "api_key", "group")
_OF_PEOPLE = ("user", "group")
_RANDOM_BYTES = 8
MAX_MEMBERS, MAX_GRANTS = 1_000, 100
NO_GROUP = "there is no such group"


def granted(role: Role, stores: Sequence[str] = (), paths: Sequence[str] = ()) -> Grant:
    """Return the grant of a role in memory stores, by default in all. Raises `InvalidInput`."""
    if role not in ROLES:
        raise InvalidInput(f"a role must be one of {', '.join(ROLES)}")
    if paths and not OF_PATHS.issuperset(ROLES[role]):
        raise InvalidInput(f"the role {role} is for whole memory stores, so it cannot be limited to paths")
    return Grant(tuple(stores) or (ALL_STORES,), ROLES[role], tuple(paths)).checked()


def role_of(grant: Grant) -> Role:
    """Return the role that a grant of a group gives. Raises `Damaged` for other scopes."""
    for role, scopes in ROLES.items():
        if scopes == grant.scopes:
            return role
    raise Damaged("the record of a group has scopes of no role")


def check_member(pattern: str) -> str:
    """Return a pattern of members of a group. Raises `InvalidInput` if it is invalid or matches too much."""
    kind, colon, name = check_name_pattern(pattern).partition(":")
    if kind not in MEMBER_KINDS or not colon or not name:
        kinds = ", ".join(MEMBER_KINDS)
        raise InvalidInput(
            f"member {pattern[:80]!r} must be KIND:NAME, such as user:ann, service_account:ci-* or, for a group of an "
            f"identity provider, group:staff; the kinds are {kinds}"
        )
    if kind in _OF_PEOPLE and not name.strip("*?"):
        raise InvalidInput(f"member {pattern[:80]!r} matches everybody; name a {kind}, such as {kind}:team-*")
    return pattern


@dataclass(frozen=True, slots=True)
class AccessGroup:
    """Stored record of a group. `members` are patterns of actors, and of groups of an identity provider."""

    id: str
    name: str
    workspace_id: str
    created_at: str
    members: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()

    def has(self, names: Sequence[str]) -> bool:
        """Return whether one of the names, such as `user:ann` or `group:staff`, is a member."""
        if not set(names).isdisjoint(self.members):
            return True
        patterns = [each for each in self.members if "*" in each or "?" in each]
        return any(matches_actor(pattern, name) for pattern in patterns for name in names)


_RECORD = TypeAdapter(AccessGroup)


def parsed(text: str, group_id: str) -> AccessGroup:
    """Parse the stored record of a group. Raises `Damaged`."""
    try:
        return _RECORD.validate_json(text)
    except ValueError:
        raise Damaged(
            f"the record of the group {group_id} cannot be read; delete the group, and create it again"
        ) from None


def is_id(text: str) -> bool:
    """Return whether a text has the form of the id of a group."""
    return text.startswith(ID_PREFIX) and text.isascii() and text.replace("_", "").isalnum() and len(text) < 40


def described(role: str, stores: Sequence[str], paths: Sequence[str]) -> str:
    """Return a grant as a text, such as `write:team-*:/memories/notes`, for the command line and the audit log."""
    return ":".join([role, ",".join(stores), *([",".join(paths)] if paths else [])])


def _checked(group: AccessGroup) -> AccessGroup:
    """Return a group without repeated members and grants. Raises `InvalidInput`."""
    plain_name("the name of a group", group.name)
    if is_id(group.name):
        raise InvalidInput(f"the name of a group must not begin with {ID_PREFIX}, as its id does")
    members, grants = tuple(dict.fromkeys(map(check_member, group.members))), tuple(dict.fromkeys(group.grants))
    if len(members) > MAX_MEMBERS or len(grants) > MAX_GRANTS:
        raise InvalidInput(f"a group can have at most {MAX_MEMBERS} members and {MAX_GRANTS} grants")
    return replace(group, members=members, grants=grants)


def _named(present: Mapping[str, str], group: AccessGroup) -> AccessGroup | None:
    """Return another group with the same name in the same workspace."""
    for key, text in present.items():
        with suppress(Damaged):
            other = parsed(text, key)
            if key != group.id and (other.name, other.workspace_id) == (group.name, group.workspace_id):
                return other
    return None


def _facts(group: AccessGroup) -> dict[str, object]:
    grants = [described(role_of(each), each.stores, each.paths) for each in group.grants]
    return {"name": group.name, "members": list(group.members), "grants": grants}


def _text(group: AccessGroup) -> str:
    return _RECORD.dump_json(group).decode()


@dataclass
class _Known:
    """Groups as they were read, and the grants that callers get from them."""

    until: float = float("-inf")
    groups: Sequence[AccessGroup] = ()
    grants: dict[tuple[str, ...], tuple[Grant, ...]] = field(default_factory=dict)


class Groups:
    """Groups of a location. Threads may share it."""

    def __init__(
        self, records: LocationRecords, *, clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._records, self._clock, self._monotonic, self._known = records, clock, monotonic, _Known()

    @property
    def is_cached(self) -> bool:
        """True if `with_groups` needs no storage."""
        return self._known.until > self._monotonic()

    def all(self, workspace_id: str) -> list[AccessGroup]:
        """Return the groups of a workspace, by name. Raises `Damaged` if a record cannot be read."""
        found = (parsed(text, key) for key, text in self._records.list(KIND))
        return sorted((each for each in found if each.workspace_id == workspace_id), key=lambda each: each.name)

    def get(self, group_id: str, workspace_id: str) -> AccessGroup:
        """Return a group. Raises `NotFound` if it does not exist or is in another workspace."""
        text = self._records.get(KIND, group_id) if is_id(group_id) else None
        found = None if text is None else parsed(text, group_id)
        if found is None or found.workspace_id != workspace_id:
            raise NotFound(NO_GROUP)
        return found

    def save(
        self, group_id: str | None, workspace_id: str, changed: Callable[[AccessGroup], AccessGroup], *, by: str,
        integration: str,
    ) -> AccessGroup:  # fmt: skip
        """Store what `changed` returns for a group, or for an empty new one if `group_id` is None.

        Changes at the same time are all made. If a new group equals one with its name, that one is returned. Raises
        `NotFound`, `InvalidInput` or `Conflict`.
        """
        now = datetime.fromtimestamp(self._clock(), UTC).isoformat()
        new = AccessGroup(ID_PREFIX + secrets.token_hex(_RANDOM_BYTES), "", workspace_id, now)
        after = new if group_id is None else self.get(group_id, workspace_id)

        def work(present: Mapping[str, str]) -> tuple[Mapping[str, str], LogEntry | None]:
            nonlocal after
            if group_id not in {None, *present}:
                raise NotFound(NO_GROUP)
            before = new if group_id is None else parsed(present[group_id], group_id)
            after = _checked(changed(before))
            other = _named(present, after)
            if other is not None and (before is not new or _facts(other) != _facts(after)):
                raise Conflict(f"there is another group with the name {after.name!r}")
            after = other or after
            if after in {before, other}:
                return {}, None
            facts = {name: value for name, value in _facts(after).items() if value != _facts(before)[name]}
            operation = "group_created" if before is new else "group_changed"
            return {after.id: _text(after)}, self._entry(operation, by, integration, after, facts)

        self._change(work)
        return after

    def delete(self, group_id: str, workspace_id: str, *, by: str, integration: str) -> None:
        """Delete a group, also one whose record is damaged: in every workspace then. Raises `NotFound`."""

        def work(present: Mapping[str, str]) -> tuple[Mapping[str, None], LogEntry | None]:
            try:
                found = parsed(present.get(group_id, ""), group_id)
            except Damaged:
                found = AccessGroup(group_id, "", workspace_id, "")
            if group_id not in present or found.workspace_id != workspace_id:
                raise NotFound(NO_GROUP)
            return {group_id: None}, self._entry("group_deleted", by, integration, found, {"name": found.name})

        self._change(work)

    def _change(self, work: Callable[[Mapping[str, str]], tuple[Mapping[str, str | None], LogEntry | None]]) -> None:
        self._records.change(KIND, work)
        self._known = _Known()

    def _entry(
        self, operation: str, by: str, integration: str, group: AccessGroup, facts: Mapping[str, object]
    ) -> LogEntry:
        about: dict[str, Any] = {"workspace": group.workspace_id, "group": group.id, **facts}
        return entry_of(operation, by, integration=integration, clock=self._clock, **about)

    def with_groups(self, record: KeyRecord, claimed: Sequence[str] = ()) -> KeyRecord:
        """Return a record with the present grants of all groups that it belongs to.

        These are the groups of its actor, and of the groups `claimed` that the token of an identity provider names.
        They may be `CACHE_S` old. A damaged group gives no rights.
        """
        named = tuple(claimed) or record.claimed
        own = tuple(each for each in record.grants if not each.group)
        grants = own + (self._grants(record, named) if record.joins_groups else ())
        is_same = (grants, named) == (record.grants, record.claimed)
        return record if is_same else replace(record, grants=grants, claimed=named)

    def _grants(self, record: KeyRecord, claimed: tuple[str, ...]) -> tuple[Grant, ...]:
        known = self._known if self.is_cached else self._read()
        if not known.groups:
            return ()
        names = (str(record.actor), *(CLAIMED + each for each in claimed))
        found = known.grants.get((record.workspace_id, *names))
        if found is None:
            groups = (each for each in known.groups if each.workspace_id == record.workspace_id and each.has(names))
            found = tuple(  # none is for the workspace, whatever is stored
                replace(grant, stores=grant.stores or (ALL_STORES,), group=group.id)
                for group in groups
                for grant in group.grants
            )
            known.grants[(record.workspace_id, *names)] = found
        return found

    def _read(self) -> _Known:
        until, groups = self._monotonic() + CACHE_S, list[AccessGroup]()
        for key, text in self._records.list(KIND):
            try:
                groups.append(parsed(text, key))
            except Damaged:
                LOG.exception("the record of the group %s cannot be read, so the group gives no rights", key)
        self._known = _Known(until, groups)
        return self._known
