"""Statistics of a memory store: sizes, changes of each day, the use of memories, and active actors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from heapq import nlargest, nsmallest
from typing import NamedTuple

from retentive.engine.operation import Read
from retentive.review.proposals import PROPOSAL
from retentive.storage.contract import Memory, Snapshot
from retentive.storage.paging import all_versions
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT

DAYS = 30
USED_DAYS = 30
"""A memory counts as used if it was viewed or changed within this number of days."""
TOP = 10
_PROGRESS_EVERY = 1_000  # memories
_MAX_DAYS = 36_600


class Day(NamedTuple):
    """Numbers of changes on one day (UTC)."""

    day: date
    created: int
    modified: int
    deleted: int


class Sized(NamedTuple):
    """Path and size of a memory."""

    path: str
    size_bytes: int


class Changed(NamedTuple):
    """Number of changes of a memory in the period of the statistics. A deleted memory has its last path."""

    path: str
    changes: int


class Used(NamedTuple):
    """Path of a memory, and the time when it was last viewed or changed. Times of views are exact to the hour."""

    path: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics of one memory store at the time `at`. Each list has at most `TOP` entries.

    `versions_bytes` is the size of the texts of all versions; a rename stores no text. `days` has an entry for each of
    the last `window_days` days; the last entry is today. Pruned versions are not counted. `actors` and `most_changed`
    count the changes of these days. `proposals` is the number of proposals that wait for review.
    """

    store_id: str
    key: str | None
    at: datetime
    window_days: int
    memories: int
    size_bytes: int
    versions: int
    versions_bytes: int
    days: tuple[Day, ...]
    biggest: tuple[Sized, ...]
    least_used: tuple[Used, ...]
    most_changed: tuple[Changed, ...]
    actors: tuple[tuple[str, int], ...]
    proposals: int


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Statistics about the use of the memories that the caller may see.

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
    """Return statistics about the use of the memories of a store. Raises the errors of storage.

    A caller that is limited to some paths gets only the statistics of the memories at these paths. `progress` is called
    repeatedly with the number of memories read so far. If it raises an error, the call ends with this error.
    """
    core = core_of(store)
    accessed, start = core.accesses.of(core.id), datetime.fromtimestamp(core.clock(), UTC) - timedelta(days=USED_DAYS)

    def work(snapshot: Snapshot) -> MemoryUse:
        memories = list[Memory]()
        for memory, _ in snapshot.list(ROOT):
            if progress is not None and len(memories) % _PROGRESS_EVERY == 0:
                progress(len(memories))
            memories.append(memory)
        idle = [used for used in _uses(memories, accessed) if used.at < start]
        return MemoryUse(
            memories=len(memories),
            size_bytes=sum(memory.size_bytes for memory in memories),
            used=len(memories) - len(idle),
            biggest=_biggest(memories),
            least_used=_least_used(idle),
        )

    return core.result_of(Read("memory_use", work))


def stats(store: MemoryStore, *, days: int = DAYS) -> Stats:
    """Return the statistics of a memory store. Reads all its memories and all its versions once.

    Raises the errors of storage.
    """
    core, window_days = core_of(store), min(max(days, 1), _MAX_DAYS)
    accessed, at = core.accesses.of(core.id), datetime.fromtimestamp(core.clock(), UTC)
    window = [at.date() - timedelta(days=ago) for ago in reversed(range(window_days))]

    def work(snapshot: Snapshot) -> Stats:
        memories = {memory.id: memory for memory, _ in snapshot.list(ROOT)}
        counts, changed, actors = Counter[tuple[date, str]](), Counter[str](), Counter[str]()
        paths, newer = {memory.id: memory.path for memory in memories.values()}, dict[str, str | None]()
        versions = versions_bytes = 0
        for version in all_versions(snapshot):  # newest first
            day = min(version.created_at.date(), window[-1])  # the clock of a writer may be ahead
            versions += 1
            if version.sha256 is None or newer.get(version.memory_id) != version.sha256:
                versions_bytes += version.size_bytes or 0
            newer[version.memory_id] = version.sha256
            paths.setdefault(version.memory_id, version.path)
            if day >= window[0]:
                counts[day, version.operation] += 1
                changed[version.memory_id] += 1
                if version.actor is not None:
                    actors[str(version.actor)] += 1
        return Stats(
            store_id=core.info.id,
            key=core.info.key,
            at=at,
            window_days=window_days,
            memories=len(memories),
            size_bytes=sum(memory.size_bytes for memory in memories.values()),
            versions=versions,
            versions_bytes=versions_bytes,
            days=tuple(Day(day, *(counts[day, kind] for kind in ("created", "modified", "deleted"))) for day in window),
            biggest=_biggest(memories.values()),
            least_used=_least_used(_uses(memories.values(), accessed)),
            most_changed=tuple(Changed(paths[memory_id], number) for memory_id, number in changed.most_common(TOP)),
            actors=tuple(actors.most_common(TOP)),
            proposals=sum(1 for _ in snapshot.records(PROPOSAL)),
        )

    return core.result_of(Read("stats", work, sees_all=True))


def _uses(memories: Iterable[Memory], accessed: Mapping[str, float]) -> Iterable[Used]:
    for memory in memories:
        viewed = datetime.fromtimestamp(accessed.get(memory.id, 0.0), UTC)
        yield Used(memory.path, max(memory.updated_at, viewed))


def _biggest(memories: Iterable[Memory]) -> tuple[Sized, ...]:
    found = nlargest(TOP, memories, key=lambda memory: memory.size_bytes)
    return tuple(Sized(memory.path, memory.size_bytes) for memory in found)


def _least_used(uses: Iterable[Used]) -> tuple[Used, ...]:
    return tuple(nsmallest(TOP, uses, key=lambda used: (used.at, used.path)))
