"""Snapshot of a store with changes that are not recorded: the proposals of an actor, or the changes of a batch so far.

The changes take precedence over the inner state. A memory that they place hides the memories at, above and below its
path.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import merge
from itertools import islice

from retentive.errors import PermissionDenied
from retentive.storage.contract import (
    Again,
    Change,
    Created,
    Deleted,
    Entry,
    Imported,
    Memory,
    Moved,
    Snapshot,
    State,
    Updated,
    Usage,
)
from retentive.storage.overlay import Overlay
from retentive.values.paths import ancestors
from retentive.values.records import EPOCH

NEW = "pending."
"""Prefix of the id of a memory that a change makes, before it is recorded. The number of the change follows."""


@dataclass(frozen=True, slots=True)
class Placed:
    """State of a memory after the changes. `memory` is None if they delete it."""

    memory: Memory | None
    data: Callable[[], bytes] = field(default=bytes, repr=False)


class Pending(Overlay):
    """Snapshot with changes on top. History, records and settings are those of the inner snapshot.

    `changes` are those that `add` got. Reads see each change at once. Change number 3 makes the memory `pending.3`.
    """

    def __init__(self, inner: Snapshot) -> None:
        super().__init__(inner)
        self.changes: list[Change] = []
        self._own: dict[str, Placed] = {}  # by memory id
        self._paths: dict[str, str] = {}  # path -> memory id
        self._directories: Counter[str] = Counter()
        self._more = (0, 0)  # memories and bytes that the changes add

    def add(self, changes: Iterable[Change]) -> None:
        """Put changes on top, in order."""
        for change in changes:
            version_id = f"{NEW}{len(self.changes)}"
            self.changes.append(change)
            match change:
                case Deleted(before):
                    self.place(before.id, Placed(None))
                case Moved(before, path, provenance):
                    known = self._own.get(before.id, Placed(None, self._reader(before)))
                    moved = replace(before, path=path, version_id=f"{version_id}.{before.version_id}")
                    self.place(before.id, Placed(replace(moved, provenance_text=provenance), known.data))
                case Created(path, text, provenance, again):
                    self._write(again or Again(version_id, EPOCH), path, text, version_id, provenance)
                case Updated(before, path, text, provenance):
                    self._write(before, path, text, version_id, provenance)
                case Imported():
                    raise PermissionDenied("an operation cannot import versions")

    def _write(self, of: Again | Memory, path: str, text: bytes, version_id: str, provenance: str | None) -> None:
        digest, times = hashlib.sha256(text).hexdigest(), (of.created_at, of.created_at)
        memory = Memory(of.id, path, len(text), digest, version_id, *times, None, provenance)
        self.place(of.id, Placed(memory, partial(bytes, text)))

    def place(self, memory_id: str, placed: Placed) -> None:
        """Set the state of one memory."""
        is_known = memory_id in self._own or memory_id.startswith(NEW)
        old = self._own.get(memory_id, Placed(None if is_known else self._inner.find(memory_id))).memory
        if old is not None:
            self._count(old, -1)
        if old is not None and self._paths.get(old.path) == memory_id:
            del self._paths[old.path]
            self._directories.subtract(ancestors(old.path))
        self._own[memory_id] = placed
        if placed.memory is not None:
            self._count(placed.memory, 1)
            self._paths[placed.memory.path] = memory_id
            self._directories.update(ancestors(placed.memory.path))

    def placed(self, memory_id: str) -> Placed | None:
        """Return the state of a memory after the changes, or None if no change concerns it."""
        return self._own.get(memory_id)

    @property
    def state(self) -> State:
        state = self._inner.state
        usage = Usage(state.usage.memories + self._more[0], state.usage.size_bytes + self._more[1])
        return state._replace(usage=usage)

    def _count(self, memory: Memory, sign: int) -> None:
        self._more = self._more[0] + sign, self._more[1] + sign * memory.size_bytes

    def get(self, path: str) -> Entry:
        if path in self._paths:
            placed = self._own[self._paths[path]]
            return Entry(placed.memory, placed.data())
        above = next((place for place in ancestors(path) if place in self._paths), None)
        if above is not None or self._directories[path] > 0:
            return Entry(above=above, below=above is None)
        entry = self._inner.get(path)
        if entry.memory is not None:
            return Entry() if entry.memory.id in self._own else entry
        if entry.above is not None:
            return Entry() if self.get(entry.above).memory is None else entry
        return Entry(below=entry.below and any(True for _ in self.list(path, limit=1)))

    def find(self, memory_id: str) -> Memory | None:
        placed = self._own.get(memory_id)
        return super().find(memory_id) if placed is None else placed.memory

    def list(
        self, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        present = super().list(under, start=start, limit=limit, one_level=one_level, texts=texts)
        if one_level:  # read through the list of all levels
            return present
        placed = (
            (each.memory, each.data() if texts else None)
            for each in (self._own[self._paths[path]] for path in sorted(self._paths) if path.startswith(f"{under}/"))
            if each.memory is not None and each.memory.path >= start
        )
        return islice(merge(present, placed, key=lambda pair: pair[0].path), limit)

    def shows(self, memory: Memory) -> bool:
        """Return whether no change concerns `memory`, a memory of the inner snapshot, or its path."""
        if memory.id in self._own or memory.path in self._paths or self._directories[memory.path] > 0:
            return False
        return not any(place in self._paths for place in ancestors(memory.path))

    def _reader(self, memory: Memory) -> Callable[[], bytes]:
        return lambda: self._inner.get(memory.path).data or b""
