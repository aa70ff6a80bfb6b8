"""Selection of versions, and their grouping into changes: the versions that one command recorded."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, groupby, islice, pairwise, takewhile

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


def grouped(
    found: Snapshot, versions: Iterable[Version], limit: int | None = None, only: Container[str] | None = None
) -> list[LoggedChange]:
    """Group versions into at most `limit` changes. Both are newest first.

    If `only` is given, the previous paths of other memories are not looked up.
    """
    groups = (tuple(group) for _, group in groupby(versions, key=lambda each: (each.revision, each.actor)))
    chosen = list(islice(groups, limit))
    looked_up = (each for each in chain.from_iterable(chosen) if only is None or each.memory_id in only)
    before = previous_paths(found, looked_up)
    return [
        LoggedChange(
            group[0].revision,
            group[0].actor,
            group[0].created_at,
            group,
            {each.id: before[each.id] for each in group if each.id in before},
        )
        for group in chosen
    ]


def previous_paths(found: Snapshot, versions: Iterable[Version]) -> dict[str, str]:
    """Return the path that the memory had before, by version id, for those of `versions` that renamed a memory."""
    chosen: dict[str, list[Version]] = {}
    for version in versions:
        if version.operation == "modified" and version.path:
            chosen.setdefault(version.memory_id, []).append(version)
    before: dict[str, str] = {}
    for memory_id, own in chosen.items():
        ids = {version.id for version in own}
        history = all_versions(found, memory_id=memory_id, before=max(ids) + "!")
        pairs = takewhile(lambda pair: pair[0].id >= min(ids), pairwise(history))  # noqa: B023 - used at once
        before |= {new.id: old.path for new, old in pairs if new.id in ids and old.path not in {"", new.path}}
    return before


def versions_in(
    found: Snapshot, target: MemoryPath | None, memory_id: str | None = None, *, first: int | None = None
) -> Iterator[Version]:
    """Return the versions that the log of `target` (or of the memory `memory_id`) lists, newest first.

    `first` is the number of versions that the caller expects to need.

    If no memory is at or below the path now, these are the versions of the last memory at the path. The versions of a
    directory include the renames that moved memories out of it.
    """
    memory_id = memory_id or memory_at(found, target)
    if memory_id is not None or target is None or target.is_root:
        return all_versions(found, memory_id=memory_id, first=first)
    below = target.text + "/"
    chosen: list[Version] = []
    for each in {version.memory_id for version in found.versions(path=below)}:
        later: Version | None = None
        for version in found.versions(memory_id=each):
            if version.path.startswith(below):
                if later is not None and later.path and not later.path.startswith(below):
                    chosen.append(later)
                chosen.append(version)
            later = version
    return iter(sorted(chosen, key=lambda version: version.id, reverse=True))


def versions_of(found: Snapshot, target: MemoryPath) -> Iterator[Version]:
    """Return the versions of the memories at or below a path, newest first."""
    memory_id = memory_at(found, target)
    if memory_id is not None or target.is_root:
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
