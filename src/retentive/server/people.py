"""Groups of people and agents: the records that are stored for them, and the rights that their members get."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import TypeAdapter

from retentive.errors import Damaged
from retentive.server.rights import Grant, KeyRecord
from retentive.store.location_records import LocationRecords
from retentive.values.patterns import matches_actor

KIND = "group"
ID_PREFIX = "group_"
CACHE_S: Final = 5.0
"""Maximum time until every process has noticed that a key was revoked, or a group changed."""
CLAIMED = "group:"
"""Prefix of the members that are groups of an identity provider, which tokens name."""
LOG = logging.getLogger("retentive.server")


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
        return any(matches_actor(pattern, name) for pattern in self.members for name in names)


_RECORD = TypeAdapter(AccessGroup)


def parsed(text: str) -> AccessGroup:
    """Parse the stored record of a group. Raises `Damaged`."""
    try:
        return _RECORD.validate_json(text)
    except ValueError:
        raise Damaged("the record of a group cannot be read") from None


@dataclass
class _Known:
    """Groups as they were read, and the grants that callers get from them."""

    until: float = float("-inf")
    groups: Sequence[AccessGroup] = ()
    grants: dict[tuple[str, ...], tuple[Grant, ...]] = field(default_factory=dict)


class Groups:
    """Groups of a location. Threads may share it."""

    def __init__(self, records: LocationRecords, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._records = records
        self._monotonic = monotonic
        self._known = _Known()

    @property
    def is_cached(self) -> bool:
        """True if `with_groups` needs no storage."""
        return self._known.until > self._monotonic()

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
            found = tuple(replace(grant, group=group.id) for group in groups for grant in group.grants)
            known.grants[(record.workspace_id, *names)] = found
        return found

    def _read(self) -> _Known:
        until, groups = self._monotonic() + CACHE_S, list[AccessGroup]()
        for key, text in self._records.list(KIND):
            try:
                groups.append(parsed(text))
            except Damaged:
                LOG.exception("the record of the group %s cannot be read, so the group gives no rights", key)
        self._known = _Known(until, groups)
        return self._known
