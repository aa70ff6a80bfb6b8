"""Trust levels of the memories that a search finds."""

from __future__ import annotations

from retentive.engine.contributors import contributors_of
from retentive.engine.trust.levels import QUARANTINED, TRUSTED, Level, Levels, check_level
from retentive.engine.visibility import CONFIRMED, Assessment, Filtered, marks_of
from retentive.search.results import Document
from retentive.storage.contract import Actor, Memory, Snapshot
from retentive.values.patterns import matches_actor
from retentive.values.settings import Settings

__all__ = ["CONFIRMED", "Assessment", "HiddenMemories", "SearchedLevels", "TrustedSnapshot", "marks_of"]
HiddenMemories = Assessment  # old, and goes


def TrustedSnapshot(inner: Snapshot, settings: Settings, actor: Actor | None) -> Snapshot:  # noqa: N802 - old, and goes
    """Return a snapshot without the memories hidden from an actor."""
    return Filtered(inner, Assessment(inner, settings, actor).shows, history=False)


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
        return level if self._has_source(found) else None

    def admits(self, found: Memory | Document) -> bool:
        """Return whether the search may find a memory."""
        return self.of(found) is not None

    def is_doubted(self, found: Document) -> bool:
        """Return whether the memory has a contributor that is not trusted. Confirmations and the actor are ignored."""
        return any(self._levels.of(each) != TRUSTED for each in contributors_of(self._snapshot, found))

    def _has_source(self, found: Memory | Document) -> bool:
        """Return whether a contributor to the text of `found` has a source that matches the wanted pattern."""
        source = self._source
        if source is None:
            return True
        contributors = contributors_of(self._snapshot, found)
        return any(each.source and matches_actor(source, each.source) for each in contributors)

    def at(self, path: str) -> Level | None:
        """Return the level of the memory at a path. None if there is no memory, or if the search may not find it."""
        found = next((each for each, _ in self._snapshot.list(path.rpartition("/")[0], start=path, limit=1)), None)
        return None if found is None or found.path != path else self.of(found)
