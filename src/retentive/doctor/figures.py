"""Figures of a memory store: sizes, daily activity, use of memories, active actors, limits and expiry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from heapq import nlargest, nsmallest
from typing import NamedTuple

from retentive.engine.core import StoreCore
from retentive.engine.guard import NEAR
from retentive.engine.operation import Read
from retentive.engine.trust import described, is_used
from retentive.engine.visibility import Assessment
from retentive.history.expiry import days_left
from retentive.review.proposals import PROPOSAL
from retentive.storage.contract import Memory, Snapshot, Version
from retentive.storage.paging import all_versions
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT
from retentive.values.settings import Settings
from retentive.values.text import decoded

DAYS = 30
SOON_DAYS = 7.0
USED_DAYS = 30
"""A memory counts as used if it was viewed or changed within this number of days."""
TOP = 10
_PROGRESS_EVERY = 1_000  # memories
_MAX_DAYS = 36_600


class Day(NamedTuple):
    """Numbers of changes on one day (UTC), and the total size of all memories at its end."""

    day: date
    created: int
    modified: int
    deleted: int
    size_bytes: int

    @property
    def changes(self) -> int:
        """Number of changes on this day."""
        return self.created + self.modified + self.deleted


class Sized(NamedTuple):
    """Path and size of a memory."""

    path: str
    size_bytes: int


class Changed(NamedTuple):
    """Number of changes of a memory in the period of the figures. A deleted memory has its last path."""

    path: str
    changes: int


class Flagged(NamedTuple):
    """Line in a memory that may contain a sensitive value. `kinds` names the kinds of values."""

    path: str
    line: int
    kinds: str


class Doubted(NamedTuple):
    """Memory that is not trusted, its level, and the contributors that are neither trusted nor confirmed."""

    level: str
    path: str
    contributors: str


class Used(NamedTuple):
    """Path of a memory, and the time when it was last viewed or changed. Times of views are exact to the hour."""

    path: str
    at: datetime


class Near(NamedTuple):
    """Limit that is at least 80 % used: the setting, the memory if the limit is for one memory, usage and limit."""

    limit_name: str
    path: str | None
    present: int
    limit: int


class Expiring(NamedTuple):
    """Memory that is deleted in `in_days` days unless someone uses it. `in_days` is negative if deletion is overdue."""

    path: str
    in_days: float


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures of one state of a memory store.

    `versions_bytes` is the total size of the texts of all versions. A rename stores no text. `days` has an entry for
    each of the last `window_days` days; the last entry is today. If versions were pruned or redacted, the entries of
    earlier days are incomplete. `actors` and `most_changed` count the changes of the last `window_days` days.
    `proposals` is the number of proposals that wait for review.
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
    near: tuple[Near, ...]
    expiring: tuple[Expiring, ...]
    proposals: int
    flagged: tuple[Flagged, ...]
    doubted: tuple[Doubted, ...]


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
    accessed, start = core.accesses.of(core.id), datetime.fromtimestamp(core.clock(), UTC) - timedelta(days=USED_DAYS)

    def work(snapshot: Snapshot) -> MemoryUse:
        memories: list[Memory] = []
        for memory, _ in snapshot.list(ROOT):
            if progress is not None and len(memories) % _PROGRESS_EVERY == 0:
                progress(len(memories))
            memories.append(memory)
        used = [(_last_use(memory, accessed), memory.path) for memory in memories]
        idle = [each for each in used if each[0] < start]
        return MemoryUse(
            memories=len(memories),
            size_bytes=sum(memory.size_bytes for memory in memories),
            used=len(memories) - len(idle),
            biggest=_biggest(memories),
            least_used=_least_used(idle),
        )

    return core.result_of(Read("memory_use", work))


def stats(store: MemoryStore, *, days: int = DAYS) -> Stats:
    """Return the figures of a memory store. Reads all its memories and all its versions once.

    Each of these lists has at most `TOP` entries: the largest, the least used, the most changed and the expiring
    memories, and the actors. Raises the errors of storage.
    """
    core, window_days = core_of(store), min(max(days, 1), _MAX_DAYS)
    accessed, now = core.accesses.of(core.id), core.clock()

    def work(snapshot: Snapshot) -> Stats:
        settings = core.settings_of(snapshot)
        memories = {memory.id: memory for memory, _ in snapshot.list(ROOT)}
        size_bytes = sum(memory.size_bytes for memory in memories.values())
        past = _Past(datetime.fromtimestamp(now, UTC).date(), window_days)
        for version in all_versions(snapshot):
            past.add(version)
        changed = past.changed.most_common(TOP)
        left = [
            (days, memory.path)
            for memory in memories.values()
            if (days := days_left(memory, accessed.get(memory.id, 0.0), settings, now)) is not None
        ]
        flagged = [memory for memory in memories.values() if memory.id in past.flagged]
        return Stats(
            store_id=core.info.id,
            key=core.info.key,
            at=datetime.fromtimestamp(now, UTC),
            window_days=window_days,
            memories=len(memories),
            size_bytes=size_bytes,
            versions=past.versions,
            versions_bytes=past.size_bytes,
            days=past.days(size_bytes),
            biggest=_biggest(memories.values()),
            least_used=_least_used((_last_use(memory, accessed), memory.path) for memory in memories.values()),
            most_changed=tuple(Changed((memories.get(id_) or past.oldest[id_][0]).path, n) for id_, n in changed),
            actors=tuple(past.actors.most_common(TOP)),
            near=tuple(_near_limits(len(memories), size_bytes, _biggest(memories.values()), settings)),
            expiring=tuple(Expiring(path, days) for days, path in nsmallest(TOP, left) if days <= SOON_DAYS),
            proposals=sum(1 for _ in snapshot.records(PROPOSAL)),
            flagged=tuple(line for memory in flagged for line in _flagged_lines(snapshot, settings, core, memory)),
            doubted=tuple(_doubted(snapshot, settings, memories.values())),
        )

    return core.result_of(Read("stats", work, sees_all=True))


class _Past:
    """Counts the versions of a store by day, actor and memory. `add` must get the versions newest first.

    `flagged` has the ids of memories with a version that has flagged lines. `oldest` has the oldest version so far of
    each memory, with its size and day.
    """

    def __init__(self, today: date, window_days: int) -> None:
        self.versions = self.size_bytes = 0
        self.actors, self.changed = Counter[str](), Counter[str]()
        self.flagged = set[str]()
        self.oldest: dict[str, tuple[Version, int, date]] = {}
        self._today, self._first = today, today - timedelta(days=window_days - 1)
        self._counts = Counter[tuple[date, str]]()
        self._growth = Counter[date]()

    def add(self, version: Version) -> None:
        """Count a version, and how much its memory grew from this version to the next newer one."""
        day = min(version.created_at.date(), self._today)  # the clock of a writer may be ahead
        size = version.size_bytes or 0
        self.versions += 1
        self.size_bytes += size
        self._counts[day, version.operation] += 1
        if day >= self._first:
            self.changed[version.memory_id] += 1
            if version.actor is not None:
                self.actors[str(version.actor)] += 1
        if '"flags"' in (version.provenance_text or "") and version.provenance.flags:  # parsing is slow
            self.flagged.add(version.memory_id)
        if version.memory_id in self.oldest:
            newer, newer_size, newer_day = self.oldest[version.memory_id]
            if version.redacted_at is not None:  # the size is unknown; assume the size after the next change
                size = newer_size
            self._growth[newer_day] += newer_size - size
            if newer.sha256 is not None and newer.sha256 == version.sha256 and newer.path != version.path:
                self.size_bytes -= newer_size  # a rename stores no text
        self.oldest[version.memory_id] = version, size, day

    def days(self, size_bytes: int) -> tuple[Day, ...]:
        """Return the activity of each day, oldest first. `size_bytes` is the current total size of all memories."""
        for version, size, day in self.oldest.values():
            if version.operation == "created":  # otherwise the memory is older than the known history
                self._growth[day] += size
        days: list[Day] = []
        day = self._today
        while day >= self._first:
            created, modified, deleted = (self._counts[day, each] for each in ("created", "modified", "deleted"))
            days.append(Day(day, created, modified, deleted, size_bytes))
            size_bytes -= self._growth[day]
            day -= timedelta(days=1)
        return tuple(reversed(days))


def _last_use(memory: Memory, accessed: Mapping[str, float]) -> datetime:
    return max(memory.updated_at, datetime.fromtimestamp(accessed.get(memory.id, 0.0), UTC))


def _biggest(memories: Iterable[Memory]) -> tuple[Sized, ...]:
    return tuple(
        Sized(each.path, each.size_bytes) for each in nlargest(TOP, memories, key=lambda each: each.size_bytes)
    )


def _least_used(used: Iterable[tuple[datetime, str]]) -> tuple[Used, ...]:
    return tuple(Used(path, at) for at, path in nsmallest(TOP, used))


def _flagged_lines(snapshot: Snapshot, settings: Settings, core: StoreCore, memory: Memory) -> Iterator[Flagged]:
    text = decoded(snapshot.version(memory.version_id)[1])
    shown = core.examiner(settings, memory.path)[0]
    for line, kinds in core.examiner.examine(settings, text, path=memory.path).flagged:
        yield Flagged(shown, line, kinds)


def _doubted(snapshot: Snapshot, settings: Settings, memories: Iterable[Memory]) -> Iterator[Doubted]:
    assessed = Assessment(snapshot, settings, None)
    for memory in memories if is_used(settings) else ():
        if contributors := assessed.open_contributors(memory):
            yield Doubted(assessed.level(memory), memory.path, "; ".join(map(described, contributors)))


def _near_limits(memories: int, size_bytes: int, biggest: Iterable[Sized], settings: Settings) -> Iterator[Near]:
    yield from (
        near
        for near in (
            Near("max_memories", None, memories, settings.max_memories),
            Near("max_store_bytes", None, size_bytes, settings.max_store_bytes),
            *(Near("max_memory_bytes", each.path, each.size_bytes, settings.max_memory_bytes) for each in biggest),
        )
        if near.limit and near.present >= near.limit * NEAR
    )
