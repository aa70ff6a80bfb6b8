"""Lookups that do not need the text of a memory or version. They work even if the text is damaged."""

from __future__ import annotations

from collections.abc import Iterator

from retentive.errors import Damaged, NotFound
from retentive.storage.contract import Entry, Memory, Snapshot, Version


def locate(snapshot: Snapshot, path: str) -> Entry:
    """Return the entry at a path, even if its text is damaged. The bytes of a damaged text are left out.

    Deletions and restores use this function, because they do not need the bytes.
    """
    try:
        return snapshot.get(path)
    except Damaged:
        memory, _ = next(snapshot.list(path.rpartition("/")[0], start=path, limit=1), (None, None))
        if memory is None or memory.path != path:
            raise
        return Entry(memory)


def in_the_way(snapshot: Snapshot, path: str) -> Iterator[Memory]:
    """Yield the memories at, above and below a path."""
    entry = locate(snapshot, path)
    above = None if entry.above is None else locate(snapshot, entry.above).memory
    yield from (memory for memory in (entry.memory, above) if memory is not None)
    if entry.below:
        yield from (memory for memory, _ in snapshot.list(path))


def find_version(snapshot: Snapshot, version_id: str) -> Version:
    """Return the version with this id, without its text. Raises `NotFound`."""
    for version in snapshot.versions(revision_of=version_id):
        if version.id == version_id:
            return version
    raise NotFound(f"there is no version {version_id}")
