"""Replay of a history without writing it, to find memories at conflicting paths before an import begins."""

from __future__ import annotations

from retentive.errors import Damaged
from retentive.storage.contract import Memory, Version
from retentive.values.paths import ancestors, visible


class Replay:
    """The present paths after importing versions one by one, oldest first, as `versions.record_imported` does.

    A memory at, above or below the path of a later one is removed: its own deletion may be missing, where versions were
    removed. If no versions are missing, two such memories cannot be the history of a memory store.
    """

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}  # memory -> path
        self._at: dict[str, str] = {}  # path -> memory
        self._below: dict[str, set[str]] = {}  # directory -> memories
        self._revision = -1
        self._revisions = 0
        self._displaced: dict[str, str] = {}  # memory -> its path, in this revision
        self._conflict: str | None = None
        self._redacted = False

    def add(self, version: Version) -> None:
        """Replay the next version."""
        if version.revision != self._revision:
            self._end_revision()
            self._revision = version.revision
            self._revisions += 1
        # Within a revision, a deletion may follow the version that took its path.
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
        """Raise `Damaged` if a history without gaps up to `revision` had two memories at conflicting paths."""
        self._end_revision()
        if self._conflict is not None and not self._redacted and self._revisions == revision:
            raise Damaged(f"its history has another memory at, above or below {visible(self._conflict)}")

    def check_present(self, memory: Memory) -> None:
        """Raise `Damaged` if an import would remove a present memory because of another at a conflicting path."""
        if self._paths.get(memory.id) != memory.path:
            raise Damaged(f"it has another memory at, above or below {visible(memory.path)}")

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
