"""Use of the memories of a store: the largest memories, and the memories whose last use is longest ago.

All memories are read once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import nlargest, nsmallest

from retentive.engine.operation import ReadOperation
from retentive.stats import TOP, Sized, Used
from retentive.storage.contract import Snapshot
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT
from retentive.values.records import to_us
from retentive.values.settings import Settings

USED_DAYS = 30
"""A memory counts as used if it was viewed or changed within this number of days."""
PROGRESS_MEMORIES = 1_000
"""Number of memories after which progress is reported."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Figures about the use of the memories that the caller may see.

    `used` is the number of memories that were viewed or changed in the last `USED_DAYS` days. Times of views can be
    wrong by an hour. `biggest` has the largest memories. `least_used` has memories that were not used in these days,
    sorted by the time of the last use, oldest first. Both lists have at most `TOP` entries.
    """

    memories: int
    size_bytes: int
    used: int
    biggest: tuple[Sized, ...]
    least_used: tuple[Used, ...]

    @property
    def used_percent(self) -> int:
        """Percentage of the memories that were used in the last `USED_DAYS` days. 100 if there are no memories."""
        return 100 * self.used // self.memories if self.memories else 100


def memory_use(store: MemoryStore, *, progress: Callable[[int], None] | None = None) -> MemoryUse:
    """Return figures about the use of the memories of a store. Raises the errors of storage.

    A caller that is limited to some paths gets only the figures of the memories at these paths. `progress` is called
    repeatedly with the number of memories read so far. If it raises an error, the call ends with this error.
    """
    core = core_of(store)
    start = datetime.fromtimestamp(core.clock(), UTC) - timedelta(days=USED_DAYS)
    return core.result_of(ReadUse(core.accesses.of(core.id), start, progress))


@dataclass(frozen=True, slots=True)
class ReadUse(ReadOperation[MemoryUse]):
    """Compute the use of memories. A memory counts as used if it was viewed or changed at or after `start`.

    `accessed` has the time of the last view of each memory, in seconds since 1970, by memory id.
    """

    name = "stats"
    for_paths = True
    accessed: Mapping[str, float]
    start: datetime
    progress: Callable[[int], None] | None = None

    def apply(self, snapshot: Snapshot, settings: Settings) -> MemoryUse:
        """Read all memories once, and return the figures."""
        start_us = to_us(self.start)
        sizes: list[tuple[int, str]] = []
        idle: list[tuple[int, str]] = []
        for number, (memory, _) in enumerate(snapshot.list(ROOT)):
            if self.progress is not None and number % PROGRESS_MEMORIES == 0:
                self.progress(number)
            sizes.append((memory.size_bytes, memory.path))
            at_us = max(to_us(memory.updated_at), int(self.accessed.get(memory.id, 0.0) * 1_000_000))
            if at_us < start_us:
                idle.append((at_us, memory.path))
        return MemoryUse(
            memories=len(sizes),
            size_bytes=sum(size for size, _ in sizes),
            used=len(sizes) - len(idle),
            biggest=tuple(Sized(path, size) for size, path in nlargest(TOP, sizes)),
            least_used=tuple(Used(path, datetime.fromtimestamp(at / 1e6, UTC)) for at, path in nsmallest(TOP, idle)),
        )
