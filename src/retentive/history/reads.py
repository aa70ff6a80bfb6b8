"""Read operations on the history: log, earlier texts, versions for blame, and reads of an earlier state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, TypeVar, get_args

from retentive.engine.operation import Read, ReadOperation
from retentive.engine.queries import version_fact
from retentive.engine.trust.levels import Level, Levels, author_of, check_level, session_of
from retentive.errors import InvalidInput, NotFound
from retentive.history.changes import LoggedChange, Predecessors, grouped
from retentive.history.past import past_of
from retentive.history.revisions import Named, Revision, check_zone, one_version
from retentive.history.scope import versions_in
from retentive.storage.contract import Operation, Snapshot, Version
from retentive.values.paths import MemoryPath
from retentive.values.patterns import check_actor_pattern, check_name_pattern, matches_actor
from retentive.values.settings import DEFAULTS, Settings
from retentive.values.text import decoded

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Conditions that the versions of a log must meet. None means no condition. Raises `InvalidInput`.

    `actor`, `source`, `session`, `integration` and `flag` are patterns. `trust` is the trust level of the version's
    author; earlier contributors do not count.
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
        """Return the matching versions. `versions` must be newest first. `settings` determine the trust levels."""
        since = self.since
        if since is not None:
            versions = takewhile(lambda version: version.created_at >= since, versions)
        found = filter(self.fits, versions)
        if self.trust is None:
            return found
        levels = Levels(settings)
        return (version for version in found if levels.of(author_of(version)) == self.trust)

    def fits(self, version: Version) -> bool:
        """Return whether a version meets all conditions other than `since` and `trust`."""
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
    """Return an operation that lists versions, newest first.

    These are the versions of the store, of one memory across renames, or of all memories below a directory.
    """
    _check_limit(limit)

    def work(snapshot: Snapshot) -> list[Version]:
        versions = versions_in(snapshot, path, memory_id, needed=limit if only == LogFilter() else None)
        return list(islice(only.chosen(versions, settings_of(snapshot)), limit))

    return Read("log", work, path, needs_external_edits=True, sees_all=True)


def changes(
    path: MemoryPath | None, only: LogFilter, limit: int | None, settings_of: Callable[[Snapshot], Settings]
) -> Read[list[LoggedChange]]:
    """Return an operation that lists the versions of `log`, grouped into changes, newest first."""
    _check_limit(limit)

    def work(snapshot: Snapshot) -> list[LoggedChange]:
        known = Predecessors(snapshot)
        versions = known.watch(versions_in(snapshot, path))
        found = grouped(only.chosen(versions, settings_of(snapshot)), known, limit)
        if not found and path is not None and not path.is_root and next(versions_in(snapshot, path), None) is None:
            raise no_memory(path.text)
        return found

    return Read("log", work, path, needs_external_edits=True, sees_all=True)


def no_memory(path: str) -> NotFound:
    """Return the error for a path at which no memory is or was."""
    return NotFound(f"there is no memory at or below {path}, and there was none before")


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise InvalidInput("`limit` must be an integer of at least 0")


def show(revision: Revision, path: MemoryPath | None) -> Read[tuple[Version, str | None]]:
    """Return an operation that reads a version and its text. `revision` names the version.

    The revision must name exactly one version at or below `path`. The text is None for a deletion or a redacted
    version. The operation raises `NotFound` and `InvalidInput`.
    """

    def work(snapshot: Snapshot) -> tuple[Version, str | None]:
        version, data = snapshot.version(one_version(snapshot, revision, path).id)
        return version, None if data is None else decoded(data)

    return Read("show", work, path, facts_of=lambda found: version_fact(found[0]))


def text_at(path: MemoryPath, at: Revision) -> Read[tuple[Version, str]]:
    """Return an operation that reads the memory that was at a path at an earlier time: its version and its text.

    The operation raises `NotFound` if no memory was there.
    """

    def work(snapshot: Snapshot) -> tuple[Version, str]:
        memory = past_of(snapshot, at, path).get(path.text).memory
        if memory is None:
            raise NotFound(f"there was no memory at {path.written} at that time")
        version, data = snapshot.version(memory.version_id)
        return version, decoded(data)

    return Read("text_at", work, path, lambda found: version_fact(found[0]))


def lineage(path: MemoryPath) -> Read[list[tuple[Version, str]]]:
    """Return an operation that reads the versions of the memory at a path, oldest first, each with its text.

    Versions without a text are left out. `History.blame` uses this operation.
    """

    def work(snapshot: Snapshot) -> list[tuple[Version, str]]:
        memory = snapshot.get(path.text).memory
        if memory is None:
            raise NotFound(f"there is no memory at {path.written}")
        versions = reversed(list(snapshot.versions(memory_id=memory.id)))
        texts = ((version, snapshot.version(version.id)[1]) for version in versions)
        return [(version, decoded(data)) for version, data in texts if data is not None]

    return Read("blame", work, path, sees_all=True)


@dataclass(frozen=True, slots=True)
class AsOf(ReadOperation[R]):
    """Run the read operation `inner` on the state of the store at `at`."""

    inner: ReadOperation[R]
    at: Named

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the operation `inner` with the suffix `.as_of`."""
        return f"{self.inner.name}.as_of"

    @property
    def for_paths(self) -> bool:  # type: ignore[override]
        """True if callers that are limited to some paths may run `inner`."""
        return self.inner.for_paths

    def paths(self) -> tuple[str, ...]:
        """Return the paths of `inner`."""
        return self.inner.paths()

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the additional fields that `inner` returns for the audit entry."""
        return self.inner.facts(result)

    def apply(self, snapshot: Snapshot, settings: Settings) -> R:
        """Run `inner` on the earlier state. Raises the errors of `past_of`."""
        path = next(iter(self.inner.paths()), None)
        target = None if path is None else MemoryPath.known(path)
        return self.inner.apply(past_of(snapshot, self.at, target), settings)
