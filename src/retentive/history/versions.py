"""Selection of versions, and their grouping into changes: the versions that one command recorded."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, islice, takewhile

from retentive.storage.contract import Actor, Snapshot, Version
from retentive.storage.lookup import locate
from retentive.storage.paging import all_versions
from retentive.values.paths import MemoryPath


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
    """Lookup of the path that a memory had before a version renamed it.

    A version needs no query if its predecessor passed through `watch`. With `only`, other memories are not looked up.
    """

    def __init__(self, found: Snapshot, only: Container[str] | None = None) -> None:
        self._found, self._only = found, only
        self._later: dict[str, str] = {}
        self._before: dict[str, Version] = {}

    def watch(self, versions: Iterable[Version]) -> Iterator[Version]:
        """Yield `versions` and remember them. They must be newest first, and include every version of each memory."""
        for version in versions:
            later = self._later.get(version.memory_id)
            if later is not None:
                self._before[later] = version
            self._later[version.memory_id] = version.id
            yield version

    def moved_from(self, version: Version) -> str | None:
        """Return the path that the memory had before a version renamed it. None if the version is not a rename."""
        memory_id = version.memory_id
        if (
            version.operation != "modified"
            or not version.path
            or (self._only is not None and memory_id not in self._only)
        ):
            return None
        before = self._before.get(version.id) or next(
            self._found.versions(memory_id=memory_id, before=version.id, limit=1), None
        )
        return before.path if before is not None and before.path not in {"", version.path} else None


def grouped(versions: Iterable[Version], known: Predecessors, limit: int | None = None) -> list[LoggedChange]:
    """Group versions into at most `limit` changes. Both are newest first. `known` finds previous paths of memories."""
    groups = (tuple(group) for _, group in groupby(versions, key=lambda each: (each.revision, each.actor)))
    changes = []
    for group in list(islice(groups, limit)):  # read all versions first: `known` then needs fewer queries
        paths = {version.id: known.moved_from(version) for version in group}
        moved_from = {version_id: path for version_id, path in paths.items() if path is not None}
        changes.append(LoggedChange(group[0].revision, group[0].actor, group[0].created_at, group, moved_from))
    return changes


def versions_in(found: Snapshot, target: MemoryPath | None, memory_id: str | None = None) -> Iterator[Version]:
    """Return the versions that the log of `target` (or of the memory `memory_id`) lists, newest first.

    If no memory is at or below the path now, these are the versions of the last memory at the path. The versions of a
    directory include the renames that moved memories out of it.
    """
    memory_id = memory_id or memory_at(found, target)
    if memory_id is not None or target is None or target.is_root:
        return all_versions(found, memory_id=memory_id)
    below = target.text + "/"
    chosen: list[Version] = []
    later: dict[str, Version] = {}
    for version in _of_memories(found, {version.memory_id for version in found.versions(path=below)}):
        if version.path.startswith(below):
            after = later.get(version.memory_id)
            if after is not None and after.path and not after.path.startswith(below):
                chosen.append(after)
            chosen.append(version)
        later[version.memory_id] = version
    return iter(sorted(chosen, key=lambda version: version.id, reverse=True))


def _of_memories(found: Snapshot, memory_ids: set[str]) -> list[Version]:
    versions = (version for memory_id in memory_ids for version in found.versions(memory_id=memory_id))
    return sorted(versions, key=lambda version: version.id, reverse=True)


def versions_of(found: Snapshot, target: MemoryPath | None, memory_id: str | None = None) -> Iterator[Version]:
    """Return the versions of the memories at or below a path, or of one memory, newest first."""
    memory_id = memory_id or memory_at(found, target)
    if memory_id is not None or target is None or target.is_root:
        return all_versions(found, memory_id=memory_id)
    return found.versions(path=target.text + "/")


def memory_at(found: Snapshot, target: MemoryPath | None) -> str | None:
    """Return the id of the memory at a path; None for a directory.

    If no memory is at or below the path now, return the id of the last memory at the path.
    """
    if target is None or target.is_root:
        return None
    entry = locate(found, target.text)
    if entry.memory is not None:
        return entry.memory.id
    last = None if entry.below else next(found.versions(path=target.text, limit=1), None)
    return None if last is None else last.memory_id


def changed_between(
    found: Snapshot, after: str, before: str | None = None
) -> dict[str, tuple[Version | None, Version | None]]:
    """Return the memories that changed between two moments (bounds of version ids), by memory id.

    Each comes with its version at the first and at the second moment. The version is None if the memory did not exist.
    """
    newest: dict[str, Version] = {}
    oldest: dict[str, Version] = {}
    for version in takewhile(lambda each: each.id > after, all_versions(found, before=before)):
        newest.setdefault(version.memory_id, version)
        oldest[version.memory_id] = version
    changed: dict[str, tuple[Version | None, Version | None]] = {}
    for memory_id, version in newest.items():
        was: Version | None = None
        if oldest[memory_id].operation != "created":
            was = next(found.versions(memory_id=memory_id, before=after, limit=1), None)
        changed[memory_id] = _existing(was), _existing(version)
    return changed


def _existing(version: Version | None) -> Version | None:
    return None if version is None or version.operation == "deleted" else version
