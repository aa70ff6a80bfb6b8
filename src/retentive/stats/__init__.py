"""Statistics of a memory store: sizes, daily activity, use of memories, active actors, limits and expiry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from heapq import nlargest, nsmallest
from operator import attrgetter
from typing import NamedTuple

from retentive.engine.guarded_writer import NEAR
from retentive.engine.operation import ReadOperation
from retentive.engine.trust.levels import described, is_used
from retentive.engine.trust.overlay import Assessment
from retentive.history import expiry_rules
from retentive.redaction.examiner import TextExaminer
from retentive.review.proposals import PROPOSAL
from retentive.storage.contract import Memory, Snapshot, StoreInfo, Version
from retentive.storage.paging import all_versions
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT
from retentive.values.settings import Settings
from retentive.values.text import decoded

DAYS = 30
SOON_DAYS = 7.0
TOP = 10
_MAX_DAYS = 36_600
_OPERATIONS = ("created", "modified", "deleted")


class Day(NamedTuple):
    """Activity of one day in UTC.

    `created`, `modified` and `deleted` are numbers of changes. `size_bytes` is the total size of all memories at the
    end of the day.
    """

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
    """Number of changes of a memory in the period of the statistics.

    If the memory was deleted, `path` is its last path.
    """

    path: str
    changes: int


class Flagged(NamedTuple):
    """Line in a memory that may contain a sensitive value. `kinds` names the kinds of values."""

    path: str
    line: int
    kinds: str


class Doubted(NamedTuple):
    """Memory that is not trusted: its level is `unconfirmed` or `quarantined`.

    `contributors` describes those writers of the text who are neither trusted nor confirmed.
    """

    level: str
    path: str
    contributors: str


class Used(NamedTuple):
    """Path of a memory, and the time when it was last viewed or changed. Times of views are exact to the hour."""

    path: str
    at: datetime


class Near(NamedTuple):
    """Limit that is at least 80 % used.

    `limit_name` is the name of the setting that defines the limit, and `present` is the current usage. `path` is the
    path of the memory if the limit is for one memory, else None.
    """

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
    """Statistics of one state of a memory store.

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


def stats(store: MemoryStore, *, days: int = DAYS) -> Stats:
    """Return the statistics of a memory store. Reads all its memories and all its versions once.

    Each of these lists has at most `TOP` entries: the largest, the least used, the most changed and the expiring
    memories, and the actors. Raises the errors of storage.
    """
    core = core_of(store)
    operation = ReadStats(
        core.info, core.accesses.of(core.id), core.clock(), min(max(days, 1), _MAX_DAYS), core.examiner
    )
    return core.result_of(operation)


@dataclass(frozen=True, slots=True)
class ReadStats(ReadOperation[Stats]):
    """Read operation that computes the statistics of a memory store.

    `accessed` has the time of the last view of each memory, by memory id. `now` is the current time. Both times are in
    Unix seconds. `window` is the number of days of the statistics.
    """

    name = "stats"
    sees_all = True
    info: StoreInfo
    accessed: Mapping[str, float]
    now: float
    window: int
    examiner: TextExaminer

    def apply(self, snapshot: Snapshot, settings: Settings) -> Stats:
        """Read all memories and versions, and return the statistics."""
        now = self.now
        memories = [memory for memory, _ in snapshot.list(ROOT)]
        past = _Past(datetime.fromtimestamp(now, UTC).date(), self.window)
        marked: set[str] = set()
        for version in all_versions(snapshot):
            past.add(version)
            if is_marked(version):
                marked.add(version.memory_id)
        size_bytes = sum(memory.size_bytes for memory in memories)
        biggest = nlargest(TOP, memories, key=attrgetter("size_bytes"))
        return Stats(
            store_id=self.info.id,
            key=self.info.key,
            at=datetime.fromtimestamp(now, UTC),
            window_days=self.window,
            memories=len(memories),
            size_bytes=size_bytes,
            versions=past.versions,
            versions_bytes=past.size_bytes,
            days=past.days(size_bytes),
            biggest=tuple(Sized(one.path, one.size_bytes) for one in biggest),
            least_used=tuple(nsmallest(TOP, _used(memories, self.accessed), key=lambda one: (one.at, one.path))),
            most_changed=past.most_changed({memory.id: memory.path for memory in memories}),
            actors=tuple(past.actors.most_common(TOP)),
            near=near_limits(len(memories), size_bytes, biggest, settings),
            expiring=tuple(_expiring(memories, self.accessed, settings, now)[:TOP]),
            proposals=sum(1 for _ in snapshot.records(PROPOSAL)),
            flagged=tuple(flagged(snapshot, settings, self.examiner, memories, marked)),
            doubted=tuple(_doubted(Assessment(snapshot, settings, None), memories)) if is_used(settings) else (),
        )


def is_marked(version: Version) -> bool:
    """Return whether a version has a flagged line. Its provenance is parsed only if necessary, because this is slow."""
    return '"flags"' in (version.provenance_text or "") and bool(version.provenance.flags)


def flagged(
    snapshot: Snapshot, settings: Settings, examiner: TextExaminer, memories: Iterable[Memory], marked: Container[str]
) -> Iterator[Flagged]:
    """Yield the lines of current texts that may contain sensitive values.

    `marked` contains the ids of memories that have a version with flags. Only the texts of these memories are examined.
    """
    for memory in memories:
        if memory.id in marked:
            text = decoded(snapshot.version(memory.version_id)[1])
            shown = examiner(settings, memory.path)[0]
            for line, kinds in examiner.examine(settings, text, path=memory.path).flagged:
                yield Flagged(shown, line, kinds)


def _doubted(assessed: Assessment, memories: Iterable[Memory]) -> Iterator[Doubted]:
    for memory in memories:
        if reasons := assessed.open_contributors(memory):
            yield Doubted(assessed.level(memory), memory.path, "; ".join(map(described, reasons)))


class _Oldest(NamedTuple):
    """Oldest version of a memory among the versions that were counted so far.

    If the version is redacted, `size_bytes` is an estimate.
    """

    day: date
    size_bytes: int
    version: Version


class _Past:
    """Counts the versions of a store by day, actor and memory. `add` must get the versions newest first."""

    def __init__(self, today: date, window_days: int) -> None:
        self.versions = self.size_bytes = 0
        self.actors: Counter[str] = Counter()
        self._today = today
        self._first = today - timedelta(days=window_days - 1)
        self._counts: Counter[tuple[date, str]] = Counter()
        self._growth: Counter[date] = Counter()
        self._changed: Counter[str] = Counter()
        self._oldest: dict[str, _Oldest] = {}

    def add(self, version: Version) -> None:
        """Count a version. It must be older than the versions counted before."""
        self.versions += 1
        self.size_bytes += version.size_bytes or 0
        day = min(version.created_at.date(), self._today)  # the clock of a writer may be ahead
        self._counts[day, version.operation] += 1
        if day >= self._first:
            self._changed[version.memory_id] += 1
            if version.actor is not None:
                self.actors[str(version.actor)] += 1
        self._grow(version, day)

    def _grow(self, version: Version, day: date) -> None:
        """Count how much a memory grew from this version to the next newer version.

        The growth is counted on the day of the newer version.
        """
        later = self._oldest.get(version.memory_id)
        size = version.size_bytes or 0
        if version.redacted_at is not None:  # the size is unknown; assume the size after the next change
            size = later.size_bytes if later is not None else 0
        if later is not None:
            self._growth[later.day] += later.size_bytes - size
            newer = later.version
            if newer.sha256 is not None and newer.sha256 == version.sha256 and newer.path != version.path:
                self.size_bytes -= later.size_bytes  # a rename stores no text
        self._oldest[version.memory_id] = _Oldest(day, size, version)

    def days(self, size_bytes: int) -> tuple[Day, ...]:
        """Return the activity of each day, oldest first. `size_bytes` is the current total size of all memories."""
        growth = Counter(self._growth)
        for first in self._oldest.values():
            if first.version.operation == "created":  # otherwise the memory is older than the known history
                growth[first.day] += first.size_bytes
        days: list[Day] = []
        day = self._today
        while day >= self._first:
            created, modified, deleted = (self._counts[day, operation] for operation in _OPERATIONS)
            days.append(Day(day, created, modified, deleted, size_bytes))
            size_bytes -= growth[day]
            day -= timedelta(days=1)
        return tuple(reversed(days))

    def most_changed(self, paths: Mapping[str, str]) -> tuple[Changed, ...]:
        """Return the memories with the most changes in the window. `paths` maps ids of memories to current paths."""
        return tuple(
            Changed(paths.get(memory_id) or self._oldest[memory_id].version.path, count)
            for memory_id, count in self._changed.most_common(TOP)
        )


def _used(memories: Iterable[Memory], accessed: Mapping[str, float]) -> Iterator[Used]:
    for memory in memories:
        viewed = datetime.fromtimestamp(accessed.get(memory.id, 0.0), UTC)
        yield Used(memory.path, max(memory.updated_at, viewed))


def near_limits(memories: int, size_bytes: int, biggest: Iterable[Memory], settings: Settings) -> tuple[Near, ...]:
    """Return all limits that are at least 80 % used. Checks the limits of the store and of the `biggest` memories."""
    present = [
        Near("max_memories", None, memories, settings.max_memories),
        Near("max_store_bytes", None, size_bytes, settings.max_store_bytes),
        *(Near("max_memory_bytes", one.path, one.size_bytes, settings.max_memory_bytes) for one in biggest),
    ]
    return tuple(one for one in present if one.limit and one.present >= one.limit * NEAR)


def _expiring(
    memories: Iterable[Memory], accessed: Mapping[str, float], settings: Settings, now: float
) -> list[Expiring]:
    left = ((memory.path, expiry_rules.days_left(memory, accessed, settings, now)) for memory in memories)
    found = [Expiring(path, days) for path, days in left if days is not None and days <= SOON_DAYS]
    return sorted(found, key=lambda one: (one.in_days, one.path))
