"""Statistics of a memory store: sizes, changes of each day, the use of memories, and active actors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
_MAX_DAYS = 36_600


class Day(NamedTuple):
    """Numbers of changes on one day (UTC)."""

    day: date
    created: int
    modified: int
    deleted: int


class Used(NamedTuple):
    """Path of a memory, and the time when it was last viewed or changed. Times of views are exact to the hour."""

    path: str
    at: datetime


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Statistics about the memories that the caller may see. Each list has at most `TOP` entries.

    `used` is the number of memories that were viewed or changed in the last `USED_DAYS` days. Times of views can be
    wrong by an hour. `least_used` is sorted by the time of the last use, oldest first.
    """

    memories: int
    size_bytes: int
    used: int
    biggest: tuple[Memory, ...]
    least_used: tuple[Used, ...]

    @property
    def used_percent(self) -> int:
        """Percentage of the memories that were used in the last `USED_DAYS` days. 100 if there are no memories."""
        return 100 * self.used // self.memories if self.memories else 100


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics of one memory store at the time `at`. Each list has at most `TOP` entries.

    `versions_bytes` is the size of the texts of all versions; a rename stores no text. `history_bytes` is the size of
    the superseded ones among them, and `stored_bytes` what they take in the storage: consecutive texts are compressed
    together (None if the storage does not know it). `days` has an entry for each of
    the last `window_days` days; the last entry is today. Pruned versions are not counted. `actors` and `most_changed`
    count the changes of these days; a deleted memory has its last path. `proposals` is the number of proposals that
    wait for review.
    """

    store_id: str
    key: str | None
    at: datetime
    window_days: int
    use: MemoryUse
    versions: int
    versions_bytes: int
    history_bytes: int
    stored_bytes: int | None
    days: tuple[Day, ...]
    most_changed: tuple[tuple[str, int], ...]
    actors: tuple[tuple[str, int], ...]
    proposals: int


def memory_use(store: MemoryStore) -> MemoryUse:
    """Return statistics about the use of the memories of a store. Raises the errors of storage.

    A caller that is limited to some paths gets only the statistics of the memories at these paths.
    """
    core = core_of(store)
    viewed, now = core.accesses.of(core.id), datetime.fromtimestamp(core.clock(), UTC)
    read = Read("memory_use", lambda snapshot: [memory for memory, _ in snapshot.list(ROOT)])
    memories = core.result_of(read)
    return _use(memories, viewed, now, only_idle=True)


def stats(store: MemoryStore, *, days: int = DAYS) -> Stats:
    """Return the statistics of a memory store. Reads all its memories and all its versions once.

    Raises the errors of storage.
    """
    core, window_days = core_of(store), min(max(days, 1), _MAX_DAYS)
    viewed, at = core.accesses.of(core.id), datetime.fromtimestamp(core.clock(), UTC)
    window = [at.date() - timedelta(days=ago) for ago in reversed(range(window_days))]

    def work(snapshot: Snapshot) -> Stats:
        memories = [memory for memory, _ in snapshot.list(ROOT)]
        counts, changed, actors = Counter[tuple[date, str]](), Counter[str](), Counter[str]()
        paths, newer = {memory.id: memory.path for memory in memories}, dict[str, str | None]()
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
            use=_use(memories, viewed, at),
            versions=versions,
            versions_bytes=versions_bytes,
            history_bytes=versions_bytes - sum(memory.size_bytes for memory in memories),
            stored_bytes=None,
            days=tuple(Day(day, *(counts[day, kind] for kind in ("created", "modified", "deleted"))) for day in window),
            most_changed=tuple((paths[memory_id], number) for memory_id, number in changed.most_common(TOP)),
            actors=tuple(actors.most_common(TOP)),
            proposals=sum(1 for _ in snapshot.records(PROPOSAL)),
        )

    found = core.result_of(Read("stats", work, sees_all=True))
    return replace(found, stored_bytes=core.backend.history_bytes(core.id))


def _use(
    memories: Sequence[Memory], viewed: Mapping[str, float], now: datetime, *, only_idle: bool = False
) -> MemoryUse:
    """Return the use of memories, by the times of their views. With `only_idle`, `least_used` has no used ones."""
    uses = [
        Used(each.path, max(each.updated_at, datetime.fromtimestamp(viewed.get(each.id, 0.0), UTC)))
        for each in memories
    ]
    idle = [used for used in uses if used.at < now - timedelta(days=USED_DAYS)]
    return MemoryUse(
        memories=len(memories),
        size_bytes=sum(memory.size_bytes for memory in memories),
        used=len(memories) - len(idle),
        biggest=tuple(nlargest(TOP, memories, key=lambda memory: memory.size_bytes)),
        least_used=tuple(nsmallest(TOP, idle if only_idle else uses, key=lambda used: (used.at, used.path))),
    )
