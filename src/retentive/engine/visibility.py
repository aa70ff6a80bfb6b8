"""Which memories an actor sees: the paths of its key, trust and quarantine, and its own proposals.

A caller whose access is limited to some paths (a *scope*, such as that of an API key) sees only memories that match its
patterns, in the past too. Memories of quarantined contributors are hidden from everybody, and unconfirmed ones from the
actors that the setting `hide_unconfirmed` names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Unpack

from retentive.engine.trust import QUARANTINED, TRUSTED, UNCONFIRMED, Level, Levels, contributors_of
from retentive.errors import NotFound
from retentive.search.results import Document
from retentive.storage.contract import Actor, Entry, Memory, Selection, Snapshot, Version
from retentive.storage.overlay import Overlay, shown
from retentive.values.listing import one_level as one_level_of
from retentive.values.paths import ROOT
from retentive.values.patterns import covers, matches_actor
from retentive.values.provenance import Contributor
from retentive.values.settings import Settings

CONFIRMED = "confirmed"
"""Kind of the records that contain confirmations. The key of a record is the id of a memory.

A record contains the marks (digests) of the confirmed contributions, the confirming actor and the time.
"""
_PAGE = 500


class Assessment:
    """Trust levels of the memories in one snapshot, and their visibility to one actor.

    Both depend on the settings, and on the confirmations that the snapshot contains.
    """

    def __init__(self, snapshot: Snapshot, settings: Settings, actor: Actor | None) -> None:
        self._snapshot = snapshot
        self._levels = Levels(settings)
        self._actor = "" if actor is None else str(actor)
        self._hides_unconfirmed = any(matches_actor(pattern, self._actor) for pattern in settings.hide_unconfirmed)
        self._confirmed: dict[str, frozenset[str]] | None = None

    def open_contributors(self, found: Memory | Version | Document) -> list[Contributor]:
        """Return the contributors to the text of `found` that are neither trusted nor confirmed."""
        doubted = [
            each for each in contributors_of(self._snapshot, found.provenance) if self._levels.of(each) != TRUSTED
        ]
        if not doubted:
            return []
        if self._confirmed is None:
            self._confirmed = {key: marks_of(value) for key, value in self._snapshot.records(CONFIRMED)}
        marks = self._confirmed.get(found.id if isinstance(found, Memory) else found.memory_id, frozenset())
        return [each for each in doubted if each.mark not in marks]

    def level(self, found: Memory | Version | Document) -> Level:
        """Return the trust level of a memory, or of the text of a version."""
        return self._levels.least(self.open_contributors(found))

    def shows(self, found: Memory | Version | Document) -> bool:
        """Return whether a memory is visible to the actor.

        Memories in quarantine are hidden. If `hide_unconfirmed` matches the actor, unconfirmed texts of other actors
        are hidden too.
        """
        doubted = self.open_contributors(found)
        level = self._levels.least(doubted)
        if level == UNCONFIRMED and self._hides_unconfirmed:
            return all(each.actor == self._actor for each in doubted)
        return level != QUARANTINED

    def blocks(self, path: str) -> bool:
        """Return whether a change to a path, or to anything below it, would affect a memory hidden from the actor."""
        entry = Entry(below=True) if path == ROOT else self._snapshot.get(path)
        memory = entry.memory if entry.above is None else self._snapshot.get(entry.above).memory
        if memory is not None and not self.shows(memory):
            return True
        return entry.below and not all(self.shows(each) for each, _ in self._snapshot.list(path))


def marks_of(value: str | None) -> frozenset[str]:
    """Return the marks (digests) of the contributions that a confirmation covers. Empty for a damaged record."""
    try:
        return frozenset() if value is None else frozenset(map(str, json.loads(value)["marks"]))
    except (ValueError, KeyError, TypeError):
        return frozenset()


class Filtered(Overlay):
    """Snapshot of the memories for which `shows` is true. Records and usage are not filtered.

    `history` leaves out the versions for which `shows` is false too. `scope` contains the patterns of all paths that
    the caller may name; a memory above such a path is not hidden, because nothing can be written below it.
    """

    def __init__(
        self, inner: Snapshot, shows: Callable[[Memory | Version], bool], *, history: bool, scope: tuple[str, ...] = ()
    ) -> None:
        super().__init__(inner)
        self._is_shown, self._hides_history, self._scope = shows, history, scope

    def shows(self, memory: Memory | Version) -> bool:
        return self._is_shown(memory)

    def get(self, path: str) -> Entry:
        entry = self._inner.get(path)
        if entry.memory is not None and not self.shows(entry.memory):
            return Entry()
        if entry.above is not None:
            above = self._inner.get(entry.above).memory
            is_shown = covers(self._scope, path) if self._scope else above is None or self.shows(above)
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
