"""Lookups that do not need the text of a memory or version. They work even if the text is damaged."""

from __future__ import annotations

from retentive.errors import Damaged, NotFound
from retentive.storage.contract import Entry, Snapshot, Version


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


def find_version(snapshot: Snapshot, version_id: str) -> Version:
    """Return the version with this id, without its text. Raises `NotFound`."""
    for version in snapshot.versions(revision_of=version_id):
        if version.id == version_id:
            return version
    raise NotFound(f"there is no version {version_id}")
