"""Changes as the log shows them. A change consists of the versions that one command recorded."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, islice

from retentive.storage.contract import Actor, Snapshot, Version


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """One change: the versions that one actor recorded in one revision, newest first.

    In a filtered log, some of these versions may be missing. `moved_from` contains the previous paths of renamed
    memories, by version id.
    """

    number: int
    actor: Actor | None
    at: datetime
    versions: tuple[Version, ...]
    moved_from: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Short name of the change, such as `r1234`."""
        return f"r{self.number}"

    @property
    def cause(self) -> str:
        """Description of an undo or restore, such as `undo of r3`. Empty for other changes and after a redaction."""
        return next((each.provenance.cause for each in self.versions if each.provenance.cause), "")


class Predecessors:
    """Lookup of the version that precedes a version of the same memory.

    If the preceding version was passed to `watch` or `learn`, the lookup needs no query.

    If `only` is given, `moved_from` returns None for all memories whose ids are not in `only`.
    """

    def __init__(self, found: Snapshot, only: Container[str] | None = None) -> None:
        self._found, self._only = found, only
        self._later: dict[str, str] = {}
        self._before: dict[str, Version] = {}

    def watch(self, versions: Iterable[Version]) -> Iterator[Version]:
        """Yield `versions` and remember them. They must be newest first, and include every version of each memory."""
        for version in versions:
            self.learn((version,))
            yield version

    def learn(self, versions: Iterable[Version]) -> None:
        """Remember `versions`, which must be newest first."""
        for version in versions:
            later = self._later.get(version.memory_id)
            if later is not None:
                self._before[later] = version
            self._later[version.memory_id] = version.id

    def of(self, version: Version) -> Version | None:
        """Return the previous version of the memory; None for its first version."""
        known = self._before.get(version.id)
        if known is not None:
            return known
        return next(self._found.versions(memory_id=version.memory_id, before=version.id, limit=1), None)

    def moved_from(self, version: Version) -> str | None:
        """Return the path that the memory had before a version renamed it. None if the version is not a rename."""
        if version.operation != "modified" or not version.path:
            return None
        if self._only is not None and version.memory_id not in self._only:
            return None
        before = self.of(version)
        return before.path if before is not None and before.path not in {"", version.path} else None


def grouped(versions: Iterable[Version], known: Predecessors, limit: int | None = None) -> list[LoggedChange]:
    """Group versions into at most `limit` changes. Both are newest first. `known` finds previous paths of memories."""
    groups = (tuple(group) for _, group in groupby(versions, key=lambda each: (each.revision, each.actor)))
    taken = list(islice(groups, limit))  # read all versions first: `known` then needs fewer queries
    return [_logged(group, known) for group in taken]


def _logged(group: tuple[Version, ...], known: Predecessors) -> LoggedChange:
    newest, paths = group[0], {version.id: known.moved_from(version) for version in group}
    moved_from = {version: path for version, path in paths.items() if path is not None}
    return LoggedChange(newest.revision, newest.actor, newest.created_at, group, moved_from)
