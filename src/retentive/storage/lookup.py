"""Lookups that need no text, so they work even for memories and versions whose text is damaged."""

from __future__ import annotations

from retentive.errors import Damaged, NotFound
from retentive.storage.contract import Entry, Snapshot, Version


def locate(snapshot: Snapshot, path: str) -> Entry:
    """Entry at a path, as `get` returns it, but without the bytes if they are damaged.

    This is sufficient for deletions and restores, which do not need the bytes.
    """
    try:
        return snapshot.get(path)
    except Damaged:
        beside = snapshot.memories(path.rpartition("/")[0])
        memory = next((memory for memory in beside if memory.path == path), None)
        if memory is None:
            raise
        return Entry(memory)


def find_version(snapshot: Snapshot, version_id: str) -> Version:
    """Version without its text. Raises `NotFound`."""
    for version in snapshot.versions(revision_of=version_id):
        if version.id == version_id:
            return version
    raise NotFound(f"there is no version {version_id}")
