"""Reads of the history: log, texts of the past, blame, and pairs of versions for diffs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, TypeAlias, TypeVar, get_args

from retentive.engine.operation import Read, ReadOperation
from retentive.engine.queries import version_fact
from retentive.engine.trust.levels import Level, Levels, author_of, check_level, session_of
from retentive.errors import InvalidInput, NotFound
from retentive.history.past import check_zone, past_of, versions_of
from retentive.storage.contract import Operation, Snapshot, Version
from retentive.storage.lookup import find_version
from retentive.values.paths import MemoryPath
from retentive.values.patterns import check_actor_pattern, check_name_pattern, matches_actor
from retentive.values.settings import DEFAULTS, Settings
from retentive.values.text import decoded

R = TypeVar("R")
Side: TypeAlias = tuple[Version, str] | tuple[None, None]
"""A version and its text, or `(None, None)` if there was no memory."""
Sides: TypeAlias = tuple[Side, Side]
"""The old and the new side of a comparison."""


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Conditions on the versions of a log; None means any. Raises `InvalidInput`.

    `actor`, `source`, `session`, `integration` and `flag` are patterns; `trust` is the level of a change by itself.
    """

    actor: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    operation: Operation | None = None
    source: str | None = None
    session: str | None = None
    integration: str | None = None
    flag: str | None = None
    trust: Level | None = None

    def __post_init__(self) -> None:
        if self.actor is not None:
            check_actor_pattern(self.actor)
        for pattern in (self.source, self.session, self.integration, self.flag):
            if pattern is not None:
                check_name_pattern(pattern)
        check_level(self.trust)
        if self.operation is not None and self.operation not in get_args(Operation):
            raise InvalidInput(f"the operation must be one of {', '.join(get_args(Operation))}")
        for time in (self.since, self.until):
            check_zone(time)

    def chosen(self, versions: Iterable[Version], settings: Settings = DEFAULTS) -> Iterable[Version]:
        """The versions that match, from versions listed newest first. The settings give levels of trust."""
        since = self.since
        if since is not None:
            versions = takewhile(lambda version: version.created_at >= since, versions)
        found = filter(self.fits, versions)
        if self.trust is None:
            return found
        levels = Levels(settings)
        return (version for version in found if levels.of(author_of(version)) == self.trust)

    def fits(self, version: Version) -> bool:
        """Return whether a version matches, apart from `since` and `trust`."""
        return (
            (self.operation is None or version.operation == self.operation)
            and (self.until is None or version.created_at <= self.until)
            and (self.actor is None or matches_actor(self.actor, str(version.actor or "")))
            and self._fits_origin(version)
        )

    def _fits_origin(self, version: Version) -> bool:
        patterns = self.source, self.session, self.integration
        if all(pattern is None for pattern in (*patterns, self.flag)):
            return True
        made = version.provenance
        named = made.source, session_of(version), made.integration
        pairs = zip(patterns, named, strict=True)
        return all(pattern is None or (name and matches_actor(pattern, name)) for pattern, name in pairs) and (
            self.flag is None or any(matches_actor(self.flag, kind) for _, kind in made.flags)
        )


def log(
    path: MemoryPath | None,
    memory_id: str | None,
    only: LogFilter,
    limit: int | None,
    settings_of: Callable[[Snapshot], Settings],
) -> Read[list[Version]]:
    """List versions, newest first: of the store, of one memory across renames, or of all memories below a directory."""
    if limit is not None and limit < 0:
        raise InvalidInput("limit must be an integer of at least 0")

    def work(snapshot: Snapshot) -> list[Version]:
        return list(islice(only.chosen(versions_of(snapshot, path, memory_id), settings_of(snapshot)), limit))

    return Read("log", work, path, needs_external_edits=True, sees_all=True)


def text_at(path: MemoryPath, at: datetime | str) -> Read[tuple[Version, str]]:
    """Read the memory that was at a path at a moment, and its text. Raises `NotFound`."""

    def work(snapshot: Snapshot) -> tuple[Version, str]:
        memory = past_of(snapshot, at).get(path.text).memory
        if memory is None:
            raise NotFound(f"there was no memory at {path.written} at that moment")
        version, data = snapshot.version(memory.version_id)
        return version, decoded(data)

    return Read("text_at", work, path, lambda found: version_fact(found[0]))


def lineage(path: MemoryPath) -> Read[list[tuple[Version, str]]]:
    """Read all versions of the memory at a path with their texts, oldest first, for blame. Raises `NotFound`."""

    def work(snapshot: Snapshot) -> list[tuple[Version, str]]:
        memory = snapshot.get(path.text).memory
        if memory is None:
            raise NotFound(f"there is no memory at {path.written}")
        versions = reversed(list(snapshot.versions(memory_id=memory.id)))
        texts = ((version, snapshot.text(version.id)) for version in versions)
        return [(version, decoded(data)) for version, data in texts if data is not None]

    return Read("blame", work, path, sees_all=True)


def change(version_id: str, old: str | None = None) -> Read[Sides]:
    """Read a version, and the version it replaced or the one given as `old`. Raises `NotFound`, `InvalidInput`."""

    def work(snapshot: Snapshot) -> Sides:
        replaced = _replaced(snapshot, version_id) if old is None else old
        return _side(snapshot, replaced), _side(snapshot, version_id)

    return Read("diff", work, facts_of=_compared)


def changes_since(path: MemoryPath, since: datetime | str | None = None) -> Read[Sides]:
    """Read a memory, and its version at a moment (by default the previous version). Raises as `change` does."""

    def work(snapshot: Snapshot) -> Sides:
        memory = None if path.is_root else snapshot.get(path.text).memory
        past = None if since is None else past_of(snapshot, since)
        if memory is None:  # a memory that no longer exists is shown as deleted
            was = None if past is None or path.is_root else past.get(path.text).memory
            if was is None:
                raise NotFound(f"there is no memory at {path.written}")
            return _side(snapshot, was.version_id), (None, None)
        if past is None:
            old = _replaced(snapshot, memory.version_id)
        else:
            then = past.find(memory.id)
            old = None if then is None else then.version_id
        return _side(snapshot, old), _side(snapshot, memory.version_id)

    return Read("diff", work, path, _compared)


def _compared(sides: Sides) -> Mapping[str, object]:
    return {"compared": [None if version is None else version.id for version, _ in sides]}


def _replaced(found: Snapshot, version_id: str) -> str | None:
    """Id of the previous version of the same memory; None if the version created the memory."""
    version = find_version(found, version_id)
    before = next(found.versions(memory_id=version.memory_id, before=version.id, limit=1), None)
    if before is None and version.operation != "created":
        raise InvalidInput(f"{version_id} has no previous version: the retention settings pruned it")
    return None if before is None else before.id


def _side(found: Snapshot, version_id: str | None) -> Side:
    """A version and its text, which is empty for a deletion."""
    if version_id is None:
        return None, None
    version, data = found.version(version_id)
    if version.operation == "deleted":
        return version, ""
    if data is None or version.redacted_at is not None:
        raise InvalidInput(f"{version_id} was redacted; its text no longer exists")
    return version, decoded(data)


def without_deletions(sides: Sides) -> Sides:
    """The sides, with `(None, None)` in place of a deletion."""
    old, new = ((None, None) if side[0] is not None and side[0].operation == "deleted" else side for side in sides)
    return old, new


@dataclass(frozen=True, slots=True)
class AsOf(ReadOperation[R]):
    """Run another read on the store as of a moment."""

    inner: ReadOperation[R]
    at: datetime | str

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the other read, marked as a read of the past."""
        return f"{self.inner.name}.as_of"

    def paths(self) -> tuple[str, ...]:
        """Paths of the other read."""
        return self.inner.paths()

    def facts(self, result: Any) -> Mapping[str, object]:
        """Facts of the other read."""
        return self.inner.facts(result)

    def apply(self, snapshot: Snapshot, settings: Settings) -> R:
        """Run the other read on a past snapshot."""
        return self.inner.apply(past_of(snapshot, self.at), settings)
