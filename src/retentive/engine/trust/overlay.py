"""Snapshot without the memories hidden from an actor, and the guard that refuses changes to hidden memories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from retentive.engine.reach import ShownHistory
from retentive.engine.trust.levels import (
    QUARANTINED,
    UNCONFIRMED,
    Level,
    Levels,
    check_level,
    has_source,
    unconfirmed_in,
)
from retentive.search.results import Document
from retentive.storage.contract import Actor, Entry, Memory, Snapshot, Version
from retentive.storage.overlay import Overlay, earlier_shown, one_level_shown, walk_shown
from retentive.values.paths import ROOT
from retentive.values.patterns import matches_actor
from retentive.values.provenance import Contributor
from retentive.values.settings import Settings

CONFIRMED = "confirmed"
"""Kind of the records that contain confirmations. The key of a record is the id of a memory.

A record contains the marks (digests) of the confirmed contributions, the confirming actor and the time.
"""
_FEW = 8  # confirmations that are read one at a time; the next one causes all to be read


class Assessment:
    """Trust levels of the memories in one snapshot, and their visibility to one actor.

    Both depend on the settings, and on the confirmations that the snapshot contains.
    """

    def __init__(self, snapshot: Snapshot, settings: Settings, actor: Actor | None) -> None:
        self._snapshot = snapshot
        self._levels = Levels(settings)
        self._actor = "" if actor is None else str(actor)
        self._hides_unconfirmed = any(matches_actor(pattern, self._actor) for pattern in settings.hide_unconfirmed)
        self._confirmed: dict[str, frozenset[str]] = {}
        self._has_all = False

    def open_contributors(self, found: Memory | Version | Document) -> list[Contributor]:
        """Return the contributors to the text of `found` that are neither trusted nor confirmed."""
        doubted = unconfirmed_in(self._levels, found.provenance, ())
        if not doubted:
            return []
        memory_id = found.id if isinstance(found, Memory) else found.memory_id
        return unconfirmed_in(self._levels, found.provenance, self._marks(memory_id))

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

    def _marks(self, memory_id: str) -> frozenset[str]:
        if len(self._confirmed) < _FEW:
            if memory_id not in self._confirmed:
                self._confirmed[memory_id] = marks_of(self._snapshot.get_record(CONFIRMED, memory_id))
        elif not self._has_all:
            self._confirmed |= {key: marks_of(value) for key, value in self._snapshot.records(CONFIRMED)}
            self._has_all = True
        return self._confirmed.get(memory_id, frozenset())


def marks_of(value: str | None) -> frozenset[str]:
    """Return the marks (digests) of the contributions that a confirmation covers. Empty for a damaged record."""
    try:
        return frozenset() if value is None else frozenset(map(str, json.loads(value)["marks"]))
    except (ValueError, KeyError, TypeError):
        return frozenset()


class TrustedSnapshot(Overlay):
    """Snapshot without the memories that are hidden from an actor. History, records and usage are not filtered."""

    def __init__(self, inner: Snapshot, settings: Settings, actor: Actor | None) -> None:
        super().__init__(inner)
        self._assessed = Assessment(inner, settings, actor)

    def get(self, path: str) -> Entry:
        entry = self._inner.get(path)
        if entry.memory is not None:
            return entry if self._assessed.shows(entry.memory) else Entry()
        if entry.above is not None:
            above = self._inner.get(entry.above).memory
            return entry if above is None or self._assessed.shows(above) else replace(entry, above=None)
        return Entry(below=entry.below and any(True for _ in self.memories(path)))

    def memories(self, under: str) -> Iterator[Memory]:
        return filter(self._assessed.shows, self._inner.memories(under))

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return ((memory.path, memory.size_bytes) for memory in self.memories(under))

    def walk(
        self, under: str, *, start: str = "", limit: int | None = None, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        return walk_shown(self._inner, self._assessed.shows, under, start=start, limit=limit, texts=texts)

    def one_level(self, under: str, *, start: str = "", limit: int | None = None) -> Iterator[Memory]:
        return one_level_shown(self._inner, self._assessed.shows, under, start=start, limit=limit)

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        return (found for found in self._inner.texts(under) if self._assessed.shows(found[0]))

    def find(self, memory_id: str) -> Memory | None:
        memory = self._inner.find(memory_id)
        return memory if memory is not None and self._assessed.shows(memory) else None

    def as_of(self, before: str) -> Iterator[Version]:
        return filter(self._assessed.shows, self._inner.as_of(before))

    def earlier(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version] | None:
        shows = self._assessed.shows
        return earlier_shown(self._inner, shows, before, under, start=start, limit=limit, is_level=one_level)


class TrustedHistory(ShownHistory, TrustedSnapshot):
    """Snapshot without the memories that are hidden from an actor, and without their versions."""

    def _shows(self, found: Memory | Version) -> bool:
        return self._assessed.shows(found)


class HiddenMemories:
    """Guard against changes to hidden memories, and to paths above or below them."""

    def __init__(self, snapshot: Snapshot, settings: Settings, actor: Actor | None) -> None:
        self._snapshot = snapshot
        self._assessed = Assessment(snapshot, settings, actor)

    def blocks(self, path: str) -> bool:
        """Return whether a change to a path, or to anything below it, would affect a hidden memory."""
        if path == ROOT:
            return self._is_any_hidden(path)
        entry = self._snapshot.get(path)
        memory = entry.memory
        if entry.above is not None:
            memory = self._snapshot.get(entry.above).memory
        return (memory is not None and not self._assessed.shows(memory)) or (entry.below and self._is_any_hidden(path))

    def _is_any_hidden(self, under: str) -> bool:
        return not all(map(self._assessed.shows, self._snapshot.memories(under)))


def is_doubted(snapshot: Snapshot, settings: Settings, memory: Memory) -> bool:
    """Return whether a memory has contributors that are neither trusted nor confirmed. A view must mention them."""
    return bool(Assessment(snapshot, settings, None).open_contributors(memory))


class SearchedLevels:
    """Trust levels of the memories that a search by an actor may find.

    `only` limits the search to one level. `source` limits the search to memories with a contributor whose source
    matches. Memories in quarantine are found only if `only` is `quarantined`. Raises `InvalidInput` for an unknown
    level.
    """

    def __init__(
        self, snapshot: Snapshot, settings: Settings, actor: Actor | None, *, source: str | None, only: Level | None
    ) -> None:
        check_level(only)
        self._assessed = Assessment(snapshot, settings, actor)
        self._snapshot, self._source, self._only = snapshot, source, only
        self._levels = Levels(settings)
        self.is_limited = source is not None or only is not None
        self.rules = (*settings.quarantine, *sorted(settings.trust.items()))
        """Settings that determine the trust level of a contributor."""

    def of(self, found: Memory | Document) -> Level | None:
        """Return the level of a memory, or None if the search may not find the memory."""
        level = self._assessed.level(found)
        is_asked_for = self._only == level == QUARANTINED
        if self._only not in {None, level} or not (is_asked_for or self._assessed.shows(found)):
            return None
        return level if has_source(found, self._source) else None

    def admits(self, found: Memory | Document) -> bool:
        """Return whether the search may find a memory."""
        return self.of(found) is not None

    def is_doubted(self, found: Document) -> bool:
        """Return whether the memory has a contributor that is not trusted. Confirmations and the actor are ignored."""
        return found.provenance_text is not None and bool(unconfirmed_in(self._levels, found.provenance, ()))

    def at(self, path: str) -> Level | None:
        """Return the level of the memory at a path. None if there is no memory, or if the search may not find it."""
        found = next((each for each, _ in self._snapshot.walk(path.rpartition("/")[0], start=path, limit=1)), None)
        return None if found is None or found.path != path else self.of(found)
