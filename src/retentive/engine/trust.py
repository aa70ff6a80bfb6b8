"""Trust: who contributed to the text of a memory, and the trust levels that the settings assign to contributors.

A version names its contributors in its provenance while they are at most `INLINE`. More are entries of a *set*: one
record for each contribution, in order. The provenance then names only the set and the number of its entries that count
for this version, so that a memory with many contributors does not store all of them with each version. An entry is
never changed or dropped: a rule that is set later may match it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from typing import Literal, TypeAlias, cast

from retentive.errors import InvalidInput
from retentive.storage.contract import Snapshot
from retentive.values.patterns import matches_actor
from retentive.values.provenance import (
    Contributor,
    ContributorSet,
    HasProvenance,
    Provenance,
    parse_provenance,
    provenance_of,
)
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
            matching = (level for pattern, level in rules if any(_fits(pattern, name) for name in names))
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


def _fits(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a name. A pattern for actors never matches a source."""
    return _is_source(pattern) == _is_source(name) and (pattern == name or matches_actor(pattern, name))


SETS = "contributors"
"""Kind of the records of all sets. The key is the name of the set, a dot, and the number of the entry."""
INLINE = 16
_RENEWED_AT = 4  # a set with this many times the entries that it began with is followed by a new one, of one entry each


def contributors_of(snapshot: Snapshot, found: HasProvenance) -> Sequence[Contributor]:
    """Return the contributions to the text of a version or memory: the newest of each contributor, newest last."""
    return _contributors(snapshot, provenance_of(found), {})


class Lineage:
    """Joins the contributors of the texts that a change builds on. `entries` are the records to write with it."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}

    @property
    def records(self) -> list[tuple[str, str, str]]:
        """Kind, key and value of each record."""
        return [(SETS, key, text) for key, text in self.entries.items()]

    def join(
        self, snapshot: Snapshot, earlier: Sequence[str | None], own: Contributor
    ) -> tuple[Sequence[Contributor], ContributorSet | None]:
        """Return what the provenance of a change names: the contributors of `earlier` and then `own`, or their set.

        `earlier` are stored provenances.
        """
        made = [parse_provenance(text) for text in earlier if text is not None]
        only = made[0].contributor_set if len(made) == 1 else None
        if only is not None and only.size < _RENEWED_AT * only.first_size:
            following = _key(only.name, only.size)
            is_newest = following not in self.entries and snapshot.get_record(SETS, following) is None
            if is_newest:
                return [own], self._added(
                    only, [*made[0].contributors[1:], own]
                )  # edits of plain files are not in the set
        every = chain.from_iterable(_contributors(snapshot, each, self.entries) for each in made)
        joined = {each.names: each for each in every if each.names != own.names} | {own.names: own}
        if len(joined) <= INLINE:
            return list(joined.values()), None
        begun = ContributorSet(os.urandom(8).hex(), 0, len(joined))
        return [own], self._added(begun, list(joined.values()))

    def _added(self, to: ContributorSet, contributors: Sequence[Contributor]) -> ContributorSet:
        for number, each in enumerate(contributors, to.size):
            self.entries[_key(to.name, number)] = json.dumps(each, separators=(",", ":"))
        return to._replace(size=to.size + len(contributors))


def forgotten(snapshot: Snapshot, versions: Iterable[HasProvenance]) -> list[tuple[str, str, None]]:
    """Return the records that remove the sets of versions. Use it only if no other version has them: at an erasure."""
    names = {found.name for each in versions if (found := provenance_of(each).contributor_set) is not None}
    return [(SETS, key, None) for name in sorted(names) for key, _ in _records(snapshot, name, None)]


def _contributors(snapshot: Snapshot, made: Provenance, entries: Mapping[str, str]) -> Sequence[Contributor]:
    found = made.contributor_set
    if found is None:
        return made.contributors
    new = {key: text for key, text in entries.items() if key.startswith(f"{found.name}.")}
    whole = dict(_records(snapshot, found.name, found.size)) | new
    counted = [Contributor(*json.loads(whole[key])) for key in sorted(whole)[: found.size]]
    counted += made.contributors[1:]
    return list({each.names: each for each in reversed(counted)}.values())[::-1]


def _records(snapshot: Snapshot, name: str, limit: int | None) -> Iterator[tuple[str, str]]:
    return takewhile(lambda each: each[0].startswith(f"{name}."), snapshot.records(SETS, after=f"{name}.", limit=limit))


def _key(name: str, number: int) -> str:
    return f"{name}.{number:08d}"
