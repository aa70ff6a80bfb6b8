"""Groups of people and agents: the records that are stored for them, and the rights that their members get."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from retentive.errors import Conflict, Damaged, InvalidInput, NotFound, RetentiveError
from retentive.server.rights import Grant, KeyRecord
from retentive.store.location_records import LocationRecords, entry_of
from retentive.values.patterns import matches_actor
from retentive.values.text import digest
from retentive.wire.people import MAX_GRANTS, MAX_MEMBERS, GroupCreation, GroupObject, GroupUpdate
from retentive.wire.stores import Role, Scope

T = TypeVar("T")
KIND = "group"
CACHE_S: Final = 5.0
"""Maximum time until every process has noticed that a key was revoked, or a group changed."""
LOG = logging.getLogger("retentive.server")
ROLES: Mapping[Role, tuple[Scope, ...]] = {
    "read": ("read",), "write": ("read", "write"), "review": ("read", "review"), "admin": ("admin",),
}  # fmt: skip
"""Scopes of each role that a group can give."""
ID = re.compile("group_[0-9a-f]{40}")


def _of_workspace(workspace_id: str) -> str:
    return f"group_{digest(workspace_id)[:24]}"


def _parsed(text: str, group_id: str) -> GroupObject:
    with suppress(ValueError, RetentiveError):
        found = GroupObject.model_validate_json(text)
        if found.id == group_id:
            return found
    raise Damaged(f"the record of the group {group_id} cannot be read; delete the group, and create it again")


def _has(group: GroupObject, names: Sequence[str]) -> bool:
    """Return whether one of the names, such as `user:ann` or `group:staff`, is a member."""
    if not set(names).isdisjoint(group.members):
        return True
    patterns = [each for each in group.members if "*" in each or "?" in each]
    return any(matches_actor(pattern, name) for pattern in patterns for name in names)


def _joined(present: Sequence[T], removed: Sequence[T], added: Sequence[T], most: int) -> list[T]:
    found = [each for each in present if each not in removed]
    for each in added:
        if each not in found:
            found.append(each)
    if len(found) > most:
        raise InvalidInput(f"a group can have at most {MAX_MEMBERS} members and {MAX_GRANTS} grants")
    return found


def _changed(group: GroupObject, given: GroupUpdate) -> GroupObject:
    members = _joined(group.members, given.remove_members, given.add_members, MAX_MEMBERS)
    grants = _joined(group.grants, given.remove_grants, given.add_grants, MAX_GRANTS)
    return group.model_copy(update={"members": members, "grants": grants})


@dataclass
class _Known:
    """Groups as they were read, and the grants that callers get from them."""

    until: float = float("-inf")
    groups: Sequence[GroupObject] = ()
    grants: dict[tuple[str, ...], tuple[Grant, ...]] = field(default_factory=dict)


class Groups:
    """Groups of a location. Threads may share it. The methods that change one get the actor to log as `by`."""

    def __init__(
        self, records: LocationRecords, *, clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._records, self._clock, self._monotonic, self._known = records, clock, monotonic, _Known()

    @staticmethod
    def id_of(name: str, workspace_id: str) -> str:
        """Return the id of the group with a name. It begins with digits that are those of the workspace."""
        return _of_workspace(workspace_id) + digest(name)[:16]

    @property
    def is_cached(self) -> bool:
        """True if `with_groups` needs no storage."""
        return self._known.until > self._monotonic()

    def all(self, workspace_id: str) -> list[GroupObject]:
        """Return the groups of a workspace, by name. Raises `Damaged` if a record cannot be read."""
        own = _of_workspace(workspace_id)
        found = (_parsed(text, key) for key, text in self._records.list(KIND) if key.startswith(own))
        return sorted(found, key=lambda each: each.name)

    def get(self, group_id: str, workspace_id: str) -> GroupObject:
        """Return a group. Raises `NotFound` if it does not exist or is in another workspace."""
        return _parsed(self._stored(group_id, workspace_id), group_id)

    def create(self, workspace_id: str, given: GroupCreation, *, by: str, integration: str) -> GroupObject:
        """Create a group. Raises `InvalidInput`, or `Conflict` if there is one with its name."""
        now, group_id = datetime.fromtimestamp(self._clock(), UTC), self.id_of(given.name, workspace_id)
        new = GroupObject(id=group_id, name=given.name, created_at=now, members=[], grants=[])
        adds = GroupUpdate(add_members=given.members, add_grants=given.grants)
        said = {"operation": "group_created", "actor": by, "integration": integration}
        try:
            return self._saved(None, new, adds, workspace=workspace_id, **said)
        except Conflict:
            raise Conflict(f"there is another group with the name {given.name!r}") from None

    def change(self, group_id: str, workspace_id: str, given: GroupUpdate, *, by: str, integration: str) -> GroupObject:
        """Change a group. Raises `NotFound`, `InvalidInput`, or `Conflict` if another change came between."""
        text = self._stored(group_id, workspace_id)
        said = {"operation": "group_changed", "actor": by, "integration": integration}
        return self._saved(text, _parsed(text, group_id), given, workspace=workspace_id, **said)

    def delete(self, group_id: str, workspace_id: str, *, by: str, integration: str) -> None:
        """Delete a group, also one whose record is damaged. Raises `NotFound`."""
        self._stored(group_id, workspace_id)
        about = {"integration": integration, "workspace": workspace_id, "group": group_id}
        entry = entry_of("group_deleted", by, clock=self._clock, **about)
        self._records.put(KIND, group_id, None, entry=entry)
        self._known = _Known()

    def _stored(self, group_id: str, workspace_id: str) -> str:
        is_own = ID.fullmatch(group_id) and group_id.startswith(_of_workspace(workspace_id))
        text = self._records.get(KIND, group_id) if is_own else None
        if text is None:
            raise NotFound("there is no such group")
        return text

    def _saved(self, stored: str | None, before: GroupObject, given: GroupUpdate, **said: Any) -> GroupObject:
        after = _changed(before, given)
        if stored is None or after != before:
            facts: dict[str, Any] = {name: list(map(str, values)) for name, values in given if values}
            entry = entry_of(clock=self._clock, group=after.id, name=after.name, **said, **facts)
            self._records.put(KIND, after.id, after.model_dump_json(), expected=stored, entry=entry)
            self._known = _Known()
        return after

    def with_groups(self, record: KeyRecord) -> KeyRecord:
        """Return a record with the present grants of all groups that it belongs to.

        These are the groups of its actor, and of the groups that the token of an identity provider names. They may be
        `CACHE_S` old. A damaged group gives no rights.
        """
        own = tuple(each for each in record.grants if not each.group)
        grants = own + (self._grants(record) if record.joins_groups else ())
        return record if grants == record.grants else replace(record, grants=grants)

    def _grants(self, record: KeyRecord) -> tuple[Grant, ...]:
        known = self._known if self.is_cached else self._read()
        if not known.groups:
            return ()
        names = (str(record.actor), *(f"group:{each}" for each in record.claimed))
        found = known.grants.get((record.workspace_id, *names))
        if found is None:
            own = _of_workspace(record.workspace_id)
            groups = (each for each in known.groups if each.id.startswith(own) and _has(each, names))
            found = tuple(  # none is for the workspace: a role without stores has the pattern *
                Grant(tuple(each.stores), ROLES[each.role], tuple(each.paths), group.id)
                for group in groups
                for each in group.grants
            )
            known.grants[(record.workspace_id, *names)] = found
        return found

    def _read(self) -> _Known:
        until, groups = self._monotonic() + CACHE_S, list[GroupObject]()
        for key, text in self._records.list(KIND):
            try:
                groups.append(_parsed(text, key))
            except Damaged:
                LOG.exception("the record of the group %s cannot be read, so the group gives no rights", key)
        self._known = _Known(until, groups)
        return self._known
