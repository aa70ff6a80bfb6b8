"""Replays a history in RAM, to find memories with conflicting paths before an import writes anything."""

from __future__ import annotations

from retentive.errors import Damaged
from retentive.storage.contract import Memory, Version
from retentive.values.paths import ancestors, visible


class Replay:
    """Paths of the memories after versions were imported one by one, oldest first.

    Two paths conflict if they are equal or if one is below the other. If the path of a new memory conflicts with the
    path of an earlier memory, the earlier memory is removed, as in `versions.record_imported`. Such a
    conflict is possible if the version that deleted the earlier memory was removed from the history. A complete history
    has no such conflicts.
    """

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}  # memory id -> path
        self._at: dict[str, str] = {}  # path -> memory id
        self._below: dict[str, set[str]] = {}  # directory -> memory ids
        self._revision = -1
        self._revisions = 0
        self._displaced: dict[str, str] = {}  # memory id -> path of the memory, removed in this revision
        self._conflict: str | None = None
        self._redacted = False

    def add(self, version: Version) -> None:
        """Add the next version. Call this for the oldest version first."""
        if version.revision != self._revision:
            self._end_revision()
            self._revision = version.revision
            self._revisions += 1
        # In one revision, the version that deletes a memory may come after the version that uses its path.
        self._displaced.pop(version.memory_id, None)
        self._remove(version.memory_id)
        if version.redacted_at is not None:
            self._redacted = True
        elif version.operation != "deleted":
            for memory_id in self._conflicting(version.path):
                self._displaced[memory_id] = self._paths[memory_id]
                self._remove(memory_id)
            self._put(version.memory_id, version.path)

    def check_history(self, revision: int) -> None:
        """Raise `Damaged` if two memories had conflicting paths in a history that is complete up to `revision`."""
        self._end_revision()
        if self._conflict is not None and not self._redacted and self._revisions == revision:
            raise Damaged(f"the history has two memories with conflicting paths at {visible(self._conflict)}")

    def check_present(self, memory: Memory) -> None:
        """Raise `Damaged` if an import would remove a current memory because another memory has a conflicting path."""
        if self._paths.get(memory.id) != memory.path:
            raise Damaged(f"another memory is at, above or below the path of the memory {visible(memory.path)}")

    def _end_revision(self) -> None:
        if self._displaced and self._conflict is None:
            self._conflict = min(self._displaced.values())
        self._displaced = {}

    def _conflicting(self, path: str) -> list[str]:
        at_or_above = [self._at[each] for each in (path, *ancestors(path)) if each in self._at]
        return [*at_or_above, *self._below.get(path, ())]

    def _put(self, memory_id: str, path: str) -> None:
        self._paths[memory_id], self._at[path] = path, memory_id
        for above in ancestors(path):
            self._below.setdefault(above, set()).add(memory_id)

    def _remove(self, memory_id: str) -> None:
        path = self._paths.pop(memory_id, None)
        if path is None:
            return
        del self._at[path]
        for above in ancestors(path):
            self._below[above].discard(memory_id)
            if not self._below[above]:
                del self._below[above]
