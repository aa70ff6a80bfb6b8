"""Selection of versions: of a memory across its renames, of a directory, or of the whole store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from retentive.storage.contract import Snapshot, Version
from retentive.storage.lookup import locate
from retentive.storage.paging import all_versions
from retentive.values.paths import MemoryPath


def versions_in(
    found: Snapshot, target: MemoryPath | None, memory_id: str | None = None, *, needed: int | None = None
) -> Iterator[Version]:
    """Return the versions that the log of `target` (or of the memory `memory_id`) lists, newest first.

    If no memory is at or below the path now, these are the versions of the last memory at the path. The versions of a
    directory include the renames that moved memories out of it. `needed` is the number of versions that the caller will
    use, if it is known.
    """
    if memory_id is None and target is not None and not target.is_root:
        memory_id = memory_at(found, target)
        if memory_id is None:
            return iter(_below(found, target.text + "/"))
    return all_versions(found, memory_id=memory_id, needed=needed)


def versions_of(found: Snapshot, target: MemoryPath | None, memory_id: str | None = None) -> Iterator[Version]:
    """Return the versions of the memories at or below a path, or of one memory, newest first."""
    if memory_id is not None or target is None or target.is_root:
        return all_versions(found, memory_id=memory_id)
    memory_id = memory_at(found, target)
    if memory_id is not None:
        return all_versions(found, memory_id=memory_id)
    below = target.text + "/"
    return (version for version in all_versions(found) if version.path.startswith(below))


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


def is_directory(found: Snapshot, target: MemoryPath) -> bool:
    """Return whether `target` is a directory: it is not the root, and `memory_at` finds no memory for it."""
    return not target.is_root and memory_at(found, target) is None


def memory_at(found: Snapshot, target: MemoryPath) -> str | None:
    """Return the id of the memory at a path.

    If no memory is at or below the path now, return the id of the last memory at the path.
    """
    entry = locate(found, target.text)
    if entry.memory is not None:
        return entry.memory.id
    last = None if entry.below else next(found.versions(path=target.text, limit=1), None)
    return None if last is None else last.memory_id


def _below(found: Snapshot, directory: str) -> list[Version]:
    chosen: list[Version] = []
    later: dict[str, Version] = {}
    for version in all_versions(found):
        if version.path.startswith(directory):
            after = later.get(version.memory_id)
            if after is not None and after.path and not after.path.startswith(directory):
                chosen.append(after)
            chosen.append(version)
        later[version.memory_id] = version
    return sorted(chosen, key=lambda version: version.id, reverse=True)
