"""Which memories stand where while a history is gone through, so that two in each other's way are found beforehand."""

from __future__ import annotations

from retentive.errors import Damaged
from retentive.storage.contract import Memory, Version
from retentive.values.paths import ancestors, visible


class Standing:
    """What taking over a history (`versions.take_over`) makes present, version by version, oldest first.

    A memory that is in the way of a later one goes: where versions were removed, its own end may be missing. Where none
    are missing it cannot have been in the way, and the history was never that of a memory store.
    """

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}  # memory -> path
        self._at: dict[str, str] = {}  # path -> memory
        self._below: dict[str, set[str]] = {}  # directory -> memories
        self._revision = -1
        self._revisions = 0
        self._displaced: dict[str, str] = {}  # memory -> its path, in this revision
        self._clash: str | None = None
        self._redacted = False

    def take(self, version: Version) -> None:
        """Go one version further."""
        if version.revision != self._revision:
            self._end_revision()
            self._revision = version.revision
            self._revisions += 1
        self._displaced.pop(version.memory_id, None)  # it went in the same revision, told after what took its place
        self._remove(version.memory_id)
        if version.redacted_at is not None:
            self._redacted = True
        elif version.operation != "deleted":
            for memory_id in self._in_the_way(version.path):
                self._displaced[memory_id] = self._paths[memory_id]
                self._remove(memory_id)
            self._put(version.memory_id, version.path)

    def check_history(self, revision: int) -> None:
        """Raise `Damaged` if two were in each other's way at some revision, and nothing is missing up to the last."""
        self._end_revision()
        if self._clash is not None and not self._redacted and self._revisions == revision:
            raise Damaged(f"its history has another memory at, above or below {visible(self._clash)}")

    def check_present(self, memory: Memory) -> None:
        """Raise `Damaged` if a memory would not be there in the end, since another stands in its way."""
        if self._paths.get(memory.id) != memory.path:
            raise Damaged(f"it has another memory at, above or below {visible(memory.path)}")

    def _end_revision(self) -> None:
        if self._displaced and self._clash is None:
            self._clash = min(self._displaced.values())
        self._displaced = {}

    def _in_the_way(self, path: str) -> list[str]:
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
