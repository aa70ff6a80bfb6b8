"""Read operations that several callers share."""

from __future__ import annotations

from collections.abc import Mapping

from retentive.engine.operation import Read
from retentive.errors import NotFound
from retentive.storage.contract import Memory, Snapshot, Version
from retentive.values.paths import MemoryPath
from retentive.values.text import decoded


def load(path: MemoryPath) -> Read[tuple[Memory, str]]:
    """Read the memory at a path, and its text. Raises `NotFound`."""

    def work(snapshot: Snapshot) -> tuple[Memory, str]:
        entry = None if path.is_root else snapshot.get(path.text)
        if entry is None or entry.memory is None:
            raise NotFound(f"there is no memory at {path.written}")
        return entry.memory, decoded(entry.data, path=entry.memory.path)

    return Read("load", work, path, lambda found: read_fact(found[0]))


def list_memories(under: MemoryPath, *, or_at: bool = False) -> Read[list[Memory]]:
    """List all memories below a directory, in byte order. With `or_at`, a memory at the path itself is listed too."""

    def work(snapshot: Snapshot) -> list[Memory]:
        found = [memory for memory, _ in snapshot.list(under.text)]
        if found or not or_at or under.is_root:
            return found
        memory = snapshot.get(under.text).memory
        return [] if memory is None else [memory]

    return Read("list", work, under)


def read_version(version_id: str) -> Read[tuple[Version, str | None]]:
    """Read a version and its text. The text is None for a deletion or a redacted version. Raises `NotFound`."""

    def work(snapshot: Snapshot) -> tuple[Version, str | None]:
        version, data = snapshot.version(version_id)
        return version, None if data is None else decoded(data)

    return Read("show", work, facts_of=lambda found: version_fact(found[0]))


def read_fact(memory: Memory | None) -> Mapping[str, object]:
    """Return a field for the audit entry of a read: the ids of `memory` and of its version. Empty for None."""
    return {} if memory is None else {"read": [memory.id, memory.version_id]}


def version_fact(version: Version) -> Mapping[str, object]:
    """Return a field for the audit entry of a read: the ids of `version` and of its memory."""
    return {"read": [version.memory_id, version.id]}
