"""Which memories an actor sees: the paths of its key, trust and quarantine; and who contributed to a text.

A caller whose access is limited to some paths (a *scope*, such as that of an API key) sees only memories that match its
patterns, in the past too. Memories of quarantined contributors are hidden from everybody, and unconfirmed ones from the
actors that the setting `hide_unconfirmed` names.

A version names its newest contributors in its provenance, at most `_INLINE`. Older ones are in records, each with the
key of the one before it, so that a memory with many contributors does not store all of them with each version. None is
ever dropped: a rule that is set later may match it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, islice
from typing import Literal, TypeAlias, Unpack, cast

from retentive.errors import InvalidInput, NotFound
from retentive.search.results import Document
from retentive.storage.contract import Actor, Entry, Memory, Selection, Snapshot, Version
from retentive.storage.overlay import Overlay, shown
from retentive.values.listing import one_level as one_level_of
from retentive.values.paths import ROOT
from retentive.values.patterns import covers, matches_actor
from retentive.values.provenance import Contributor, Provenance, parse_provenance
from retentive.values.settings import TRUST_LEVELS, Settings

Level: TypeAlias = Literal["trusted", "unconfirmed", "quarantined"]
Hides: TypeAlias = Callable[[Snapshot, Memory], bool]
LEVELS = cast("tuple[Level, ...]", TRUST_LEVELS)
"""Trust levels, from most to least trusted."""
TRUSTED, UNCONFIRMED, QUARANTINED = LEVELS
CONFIRMED = "confirmed"
"""Kind of the records that contain confirmations. The key of a record is the id of a memory.

A record contains the marks (digests) of the confirmed contributions, the confirming actor and the time.
"""
OLDER = "contributors"
"""Kind of the records of older contributors. A record has contributions, and the key of the record before it."""
_SOURCE = "source:"  # prefix of the patterns that match sources; all others match actors and sessions
_INLINE = 16
_PAGE = 500


def is_used(settings: Settings) -> bool:
    """Return whether the settings distinguish trust levels."""
    return bool(settings.trust or settings.quarantine)


def trust_levels(settings: Settings) -> Callable[[Contributor], Level]:
    """Return the function that assigns a trust level to a contributor.

    A contributor is quarantined if it matches a pattern in the setting `quarantine`, or a pattern to which the setting
    `trust` assigns the level `quarantined`. For all other contributors, the patterns in `trust` are tried in this
    order: patterns for sources, and patterns for actors and sessions. Within each of these groups, longer patterns are
    tried before shorter ones. The first match decides. A contributor without a match is trusted.
    """
    ordered = sorted(settings.trust.items(), key=lambda rule: (not rule[0].startswith(_SOURCE), -len(rule[0]), rule[0]))
    hidden = [*settings.quarantine, *(pattern for pattern, level in ordered if level == QUARANTINED)]
    rules = [*((pattern, QUARANTINED) for pattern in hidden), *ordered]
    known: dict[tuple[str, str, str], Level] = {}

    def matches(pattern: str, name: str) -> bool:  # a pattern for actors never matches a source
        is_same_kind = pattern.startswith(_SOURCE) == name.startswith(_SOURCE)
        return is_same_kind and (pattern == name or matches_actor(pattern, name))

    def level_of(contributor: Contributor) -> Level:
        if contributor.names not in known:
            names = _names(contributor)
            matching = (level for pattern, level in rules if any(matches(pattern, name) for name in names))
            known[contributor.names] = cast("Level", next(matching, TRUSTED))
        return known[contributor.names]

    return level_of


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
    return Contributor("", str(version.actor or ""), made.session, made.source)


def check_level(level: object) -> None:
    """Raise `InvalidInput` for an unknown level. None is allowed and means any level."""
    if level is not None and level not in LEVELS:
        raise InvalidInput(f"a trust level must be one of {', '.join(LEVELS)}")


def described(contributor: Contributor) -> str:
    """Return a short description of a contributor: its actor, session and source."""
    actor, *names = _names(contributor)
    return " ".join([actor or "an actor without a name", *(name for name in names if name != actor)])


def _names(contributor: Contributor) -> list[str]:
    session, source = contributor.session, contributor.source
    return [contributor.actor, *([f"session:{session}"] if session else []), *([_SOURCE + source] if source else [])]


def joined_contributors(
    snapshot: Snapshot, earlier: Sequence[str | None], own: Contributor, records: dict[str, str]
) -> tuple[Sequence[Contributor], str]:
    """Return what the provenance of a change names: its newest contributors, and the key of the older ones.

    `earlier` are the stored provenances of the texts that the change builds on. `own` is the contribution of the change
    itself, the last one. Records of older contributors to write with the change are added to `records`.
    """
    made = [parse_provenance(text) for text in earlier if text is not None]
    older = made[0].older if len(made) == 1 else ""
    each_newest = (each.contributors if older else contributors_of(snapshot, each, records) for each in made)
    newest = _newest_of_each([*chain.from_iterable(each_newest), own])
    if len(newest) <= _INLINE:
        return newest, older
    kept = newest[:-1]
    while older:  # records that are not larger are joined, so that few records have all contributors
        before, others = _older(snapshot, older, records)
        if len(others) > len(kept):
            break
        older, kept = before, _newest_of_each([*others, *kept])
    key = os.urandom(8).hex()
    records[key] = json.dumps([older, kept], separators=(",", ":"))
    return [own], key


def contributors_of(
    snapshot: Snapshot, made: Provenance, records: Mapping[str, str] | None = None
) -> Sequence[Contributor]:
    """Return the contributions that a provenance names: the newest of each contributor, newest last.

    `records` are records of older contributors that are not in the snapshot yet.
    """
    found, older = list(made.contributors), made.older
    while older:
        older, others = _older(snapshot, older, records or {})
        found = [*others, *found]
    return _newest_of_each(found)


def _older(snapshot: Snapshot, key: str, records: Mapping[str, str]) -> tuple[str, list[Contributor]]:
    text = records.get(key) or snapshot.get_record(OLDER, key)
    before, others = ("", []) if text is None else json.loads(text)
    return before, [Contributor(*each) for each in others]


def _newest_of_each(contributors: Iterable[Contributor]) -> list[Contributor]:
    found: dict[tuple[str, str, str], Contributor] = {}
    for each in contributors:
        found.pop(each.names, None)
        found[each.names] = each
    return list(found.values())


def forgotten(snapshot: Snapshot, versions: Iterable[Version]) -> list[tuple[str, str, None]]:
    """Remove the records of older contributors of versions, which no other version may have: at an erasure."""
    keys: set[str] = set()
    for version in versions:
        key = version.provenance.older
        while key and key not in keys:
            keys.add(key)
            key = _older(snapshot, key, {})[0]
    return [(OLDER, key, None) for key in sorted(keys)]


def marks_of(value: str | None) -> frozenset[str]:
    """Return the marks (digests) of the contributions that a confirmation covers. Empty for a damaged record."""
    try:
        return frozenset() if value is None else frozenset(map(str, json.loads(value)["marks"]))
    except (ValueError, KeyError, TypeError):
        return frozenset()


class Assessment:
    """Trust levels of the memories in one snapshot, and their visibility to one actor.

    Both depend on the settings, and on the confirmations that the snapshot contains.
    """

    def __init__(self, snapshot: Snapshot, settings: Settings, actor: Actor | None, hides: Hides | None = None) -> None:
        self._hides = hides
        self._snapshot, self._level_of, self._actor = snapshot, trust_levels(settings), str(actor or "")
        self._hides_unconfirmed = any(matches_actor(pattern, self._actor) for pattern in settings.hide_unconfirmed)

    @cached_property
    def _confirmed(self) -> dict[str, frozenset[str]]:
        return {key: marks_of(value) for key, value in self._snapshot.records(CONFIRMED)}

    def open_contributors(self, found: Memory | Version | Document) -> list[Contributor]:
        """Return the contributors to the text of `found` that are neither trusted nor confirmed."""
        contributors = contributors_of(self._snapshot, found.provenance)
        doubted = [each for each in contributors if self._level_of(each) != TRUSTED]
        if not doubted:
            return []
        marks = self._confirmed.get(found.id if isinstance(found, Memory) else found.memory_id, frozenset())
        return [each for each in doubted if each.mark not in marks]

    def level(self, found: Memory | Version | Document) -> Level:
        """Return the trust level of a memory, or of the text of a version."""
        return max(map(self._level_of, self.open_contributors(found)), key=LEVELS.index, default=TRUSTED)

    def shows(self, found: Memory | Version | Document) -> bool:
        """Return whether a memory is visible to the actor.

        Memories in quarantine are hidden. If `hide_unconfirmed` matches the actor, unconfirmed texts of other actors
        are hidden too, and so are the memories that the caller is not to see.
        """
        if self._hides is not None and isinstance(found, Memory) and self._hides(self._snapshot, found):
            return False
        doubted = self.open_contributors(found)
        if any(self._level_of(each) == QUARANTINED for each in doubted):
            return False
        return not self._hides_unconfirmed or all(each.actor == self._actor for each in doubted)

    def blocks(self, path: str) -> bool:
        """Return whether a change to a path, or to anything below it, would affect a memory hidden from the actor."""
        entry = Entry(below=True) if path == ROOT else self._snapshot.get(path)
        memory = entry.memory if entry.above is None else self._snapshot.get(entry.above).memory
        if memory is not None and not self.shows(memory):
            return True
        return entry.below and not all(self.shows(each) for each, _ in self._snapshot.list(path))


def assessed(
    snapshot: Snapshot, settings: Settings, actor: Actor | None, hides: Hides | None = None
) -> Assessment | None:
    """Return the assessment of a snapshot for an actor. None if nothing can be hidden from anybody."""
    return Assessment(snapshot, settings, actor, hides) if is_used(settings) or hides is not None else None


class Filtered(Overlay):
    """Snapshot of the memories for which `shows` is true. Records and usage are not filtered.

    `history` leaves out the versions for which `shows` is false too. `scope` contains the patterns of all paths that
    the caller may name; a memory above such a path is not hidden, because nothing can be written below it.
    """

    def __init__(
        self, inner: Snapshot, shows: Callable[[Memory | Version], bool], *, history: bool, scope: tuple[str, ...] = ()
    ) -> None:
        super().__init__(inner)
        self._is_shown, self._hides_history, self.scope = shows, history, scope

    def shows(self, memory: Memory | Version) -> bool:
        return self._is_shown(memory)

    def get(self, path: str) -> Entry:
        entry = self._inner.get(path)
        if entry.memory is not None and not self.shows(entry.memory):
            return Entry()
        if entry.above is not None:
            above = self._inner.get(entry.above).memory
            is_shown = covers(self.scope, path) if self.scope else above is None or self.shows(above)
            return entry if is_shown else Entry()
        return replace(entry, below=entry.below and any(True for _ in self.list(path, limit=1)))

    def list_at(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version]:
        if one_level:
            walk = partial(self.list_at, before, under)
            return one_level_of(lambda at, size: walk(start=at, limit=size), under, start=start, limit=limit)

        def read(at: str, size: int) -> Iterator[Version]:
            return self._inner.list_at(before, under, start=at, limit=size)

        return shown(read, lambda version: version, self.shows, start, limit)

    def versions(self, **selection: Unpack[Selection]) -> Iterator[Version]:
        if not self._hides_history:
            yield from self._inner.versions(**selection)
            return
        left, bound = selection.get("limit"), "after" if selection.get("oldest_first") else "before"
        wanted = Selection(**selection)
        wanted["limit"] = _PAGE
        while left != 0:
            page = list(self._inner.versions(**wanted))
            for version in islice(filter(self.shows, page), left):
                yield version
                left = None if left is None else left - 1
            if len(page) < _PAGE:
                return
            wanted[bound] = page[-1].id  # type: ignore[literal-required]

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        found = self._inner.version(version_id)
        if self._hides_history and not self.shows(found[0]):
            raise NotFound(f"there is no version {version_id}")
        return found


def within(view: Snapshot, scope: tuple[str, ...]) -> Snapshot:
    """Return the snapshot limited to the paths of a scope. An empty scope is no limit."""
    return Filtered(view, lambda found: covers(scope, found.path), history=True, scope=scope) if scope else view


def scope_of(view: Snapshot) -> tuple[str, ...]:
    """Return the patterns of the paths to which `within` limited a snapshot. Empty if it is not limited."""
    return view.scope if isinstance(view, Filtered) else ()
