"""Trust: who contributed to the text of a memory, and the trust levels that the settings assign to contributors.

A version names its newest contributors in its provenance, at most `INLINE`. Older ones are in records, each with the
key of the one before it, so that a memory with many contributors does not store all of them with each version. None is
ever dropped: a rule that is set later may match it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal, TypeAlias, cast

from retentive.errors import InvalidInput
from retentive.storage.contract import Snapshot
from retentive.values.patterns import matches_actor
from retentive.values.provenance import Contributor, Provenance, parse_provenance
from retentive.values.records import Version
from retentive.values.settings import TRUST_LEVELS, Settings

Level: TypeAlias = Literal["trusted", "unconfirmed", "quarantined"]
LEVELS = cast("tuple[Level, ...]", TRUST_LEVELS)
"""Trust levels, from most to least trusted."""
TRUSTED, UNCONFIRMED, QUARANTINED = LEVELS
SOURCE = "source:"
"""Prefix of the patterns that match sources. All other patterns match actors and sessions."""


def is_used(settings: Settings) -> bool:
    """Return whether the settings distinguish trust levels."""
    return bool(settings.trust or settings.quarantine)


class Levels:
    """Trust levels that the settings of a store assign to contributors.

    A contributor is quarantined if it matches a pattern in the setting `quarantine`, or a pattern to which the setting
    `trust` assigns the level `quarantined`. For all other contributors, the patterns in `trust` are tried in this
    order: patterns for sources, and patterns for actors and sessions. Within each of these groups, longer patterns are
    tried before shorter ones. The first match decides. A contributor without a match is trusted.
    """

    def __init__(self, settings: Settings) -> None:
        self._rules = sorted(settings.trust.items(), key=lambda rule: (not _is_source(rule[0]), -len(rule[0]), rule[0]))
        self._hidden = [*settings.quarantine, *(pattern for pattern, level in self._rules if level == QUARANTINED)]
        self._known: dict[object, Level] = {}

    def of(self, contributor: Contributor) -> Level:
        """Return the trust level of one contributor."""
        if contributor.names not in self._known:
            names = list(_names(contributor))
            rules = [(pattern, QUARANTINED) for pattern in self._hidden] + self._rules
            # A pattern for actors never matches a source.
            matching = (
                level
                for pattern, level in rules
                for name in names
                if _is_source(pattern) == _is_source(name) and (pattern == name or matches_actor(pattern, name))
            )
            self._known[contributor.names] = cast("Level", next(matching, TRUSTED))
        return self._known[contributor.names]

    def least(self, contributors: Iterable[Contributor]) -> Level:
        """Return the least trusted level of several contributors; `trusted` if there are no contributors."""
        return max(map(self.of, contributors), key=LEVELS.index, default=TRUSTED)


def session_of(version: Version) -> str:
    """Return the session of a version; empty if there is none.

    This is the session that the application named. If it named none and the actor is a session, this is the
    id of the actor.
    """
    actor = version.actor
    return version.provenance.session or (actor.id if actor is not None and actor.kind == "session" else "")


def author_of(version: Version) -> Contributor:
    """Return the author of one version as a contributor."""
    made = version.provenance
    actor = "" if version.actor is None else str(version.actor)
    return Contributor("", actor, made.session, made.source)


def check_level(level: object) -> None:
    """Raise `InvalidInput` for an unknown level. None is allowed and means any level."""
    if level is not None and level not in LEVELS:
        raise InvalidInput(f"a trust level must be one of {', '.join(LEVELS)}")


def described(contributor: Contributor) -> str:
    """Return a short description of a contributor: its actor, session and source."""
    actor = contributor.actor or "an actor without a name"
    names = [name for name in _names(contributor) if name not in {contributor.actor, ""}]
    return " ".join([actor, *names])


def _names(contributor: Contributor) -> Iterator[str]:
    yield contributor.actor
    if contributor.session:
        yield f"session:{contributor.session}"
    if contributor.source:
        yield SOURCE + contributor.source


def _is_source(text: str) -> bool:
    return text.startswith(SOURCE)


OLDER = "contributors"
"""Kind of the records of older contributors. A record has contributions, and the key of the record before it."""
INLINE = 16


def contributors_of(snapshot: Snapshot, made: Provenance) -> Sequence[Contributor]:
    """Return the contributions that a provenance names: the newest of each contributor, newest last."""
    return Lineage().contributors(snapshot, made)


class Lineage:
    """Joins the contributors of the texts that a change builds on. `entries` are the records to write with it."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}

    @property
    def records(self) -> list[tuple[str, str, str]]:
        """Kind, key and value of each record."""
        return [(OLDER, key, text) for key, text in self.entries.items()]

    def join(
        self, snapshot: Snapshot, earlier: Sequence[str | None], own: Contributor
    ) -> tuple[Sequence[Contributor], str]:
        """Return what the provenance of a change names: its newest contributors, and the key of the older ones.

        `earlier` are stored provenances. `own` is the contribution of the change itself, the last one.
        """
        made = [parse_provenance(text) for text in earlier if text is not None]
        older = made[0].older if len(made) == 1 else ""
        each_newest = (each.contributors if older else self.contributors(snapshot, each) for each in made)
        newest = _newest_of_each([*chain.from_iterable(each_newest), own])
        if len(newest) <= INLINE:
            return newest, older
        kept = newest[:-1]
        while older:  # records that are not larger are joined, so that few records have all contributors
            before, others = self._record(snapshot, older)
            if len(others) > len(kept):
                break
            older, kept = before, _newest_of_each([*others, *kept])
        key = os.urandom(8).hex()
        self.entries[key] = json.dumps([older, kept], separators=(",", ":"))
        return [own], key

    def contributors(self, snapshot: Snapshot, made: Provenance) -> Sequence[Contributor]:
        """Return all contributors that a provenance names, the newest last."""
        found, older = list(made.contributors), made.older
        while older:
            older, others = self._record(snapshot, older)
            found = [*others, *found]
        return _newest_of_each(found)

    def _record(self, snapshot: Snapshot, key: str) -> tuple[str, list[Contributor]]:
        text = self.entries.get(key) or snapshot.get_record(OLDER, key)
        before, others = ("", []) if text is None else json.loads(text)
        return before, [Contributor(*each) for each in others]


def forgotten(snapshot: Snapshot, versions: Iterable[Version]) -> list[tuple[str, str, None]]:
    """Remove the records of older contributors of versions, which no other version may have: at an erasure."""
    keys: set[str] = set()
    for version in versions:
        key = version.provenance.older
        while key and key not in keys:
            keys.add(key)
            key = json.loads(snapshot.get_record(OLDER, key) or '[""]')[0]
    return [(OLDER, key, None) for key in sorted(keys)]


def _newest_of_each(contributors: Iterable[Contributor]) -> list[Contributor]:
    found: dict[tuple[str, str, str], Contributor] = {}
    for each in contributors:
        found.pop(each.names, None)
        found[each.names] = each
    return list(found.values())
