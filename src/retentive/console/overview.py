"""Figures for the list of memory stores. They are read for the stores on a page. The totals use cached figures."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from threading import Lock

from retentive.console.strips import changes_of_days, last_days
from retentive.engine.operation import Read
from retentive.errors import Damaged, Locked, NotFound
from retentive.review.proposals import PROPOSAL
from retentive.storage.contract import Snapshot, StoreInfo, Version
from retentive.store import MemoryStore, core_of
from retentive.store.location_records import LocationRecords
from retentive.values.settings import Settings

DAYS = 14
FRESH_S = 60.0
"""Age from which cached figures count as old. Each view of the list reads some of the old figures again."""
AT_ONCE = 40
"""Maximum number of stores whose figures one view reads only for the totals."""
_KEPT = 10_000
NEAR = 90
"""A store that uses at least this percentage of a limit counts as near the limit."""
SCANNED, VERIFIED = "console.scan", "console.audit"
"""Kinds of location records: the last scan of a store, and the last verification of its audit log."""


@dataclass(frozen=True, slots=True)
class StoreRow:
    """One store in the list. `full` is the used percentage of the limit that the store is closest to.

    `waiting` is the number of pending proposals. `days` has the number of changes on each of the last days, today last.
    It is empty if the key may see only some paths of the store. If the figures cannot be read, `problem` is the code of
    the error.
    """

    info: StoreInfo
    last: Version | None = None
    full: int = 0
    waiting: int = 0
    days: tuple[int, ...] = ()
    is_audited: bool = False
    problem: str = ""

    @property
    def at(self) -> datetime:
        """Time of the newest change."""
        return self.info.created_at if self.last is None else self.last.created_at

    @property
    def today(self) -> int:
        """Number of changes today."""
        return self.days[-1] if self.days else 0


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of the listed stores. `uncounted` is the number of stores left out: their figures were not read yet."""

    stores: int
    memories: int
    size_bytes: int
    waiting: int
    waiting_in: int
    near: int
    today: int
    audited: int
    uncounted: int


@dataclass(frozen=True, slots=True)
class LastCheck:
    """Last scan or verification of a store: its time, and the number of findings."""

    at: datetime
    findings: int


def fullness(info: StoreInfo, settings: Settings) -> int:
    """Return the used percentage of the limit that the store is closest to: number of memories, or total size."""
    pairs = (info.memories, settings.max_memories), (info.size_bytes, settings.max_store_bytes)
    return max((100 * used // limit for used, limit in pairs if limit), default=0)


def read_row(info: StoreInfo, store: MemoryStore, today: date) -> StoreRow:
    """Read the figures of a store."""
    core, days = core_of(store), last_days(DAYS, today)

    def work(snapshot: Snapshot) -> tuple[Version | None, tuple[int, ...]]:
        newest = next(iter(snapshot.versions(limit=1)), None)
        return newest, () if core.scope else tuple(changes_of_days(snapshot, days))

    try:
        last, counts = core.peek(Read("list", work))
        settings = store.settings()
        waiting = 0 if core.scope else number_waiting(store)
        return StoreRow(info, last, fullness(info, settings), waiting, counts, settings.audit)
    except (Locked, Damaged) as error:
        return StoreRow(info, problem=error.code)


def number_waiting(store: MemoryStore) -> int:
    """Return the number of pending proposals in a memory store."""
    return core_of(store).peek(Read("review.list", lambda snapshot: sum(1 for _ in snapshot.records(PROPOSAL))))


class Overview:
    """Cache of the figures of stores. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rows: OrderedDict[tuple[str, tuple[str, ...]], tuple[float, date, StoreRow]] = OrderedDict()
        self._lock = Lock()

    def known(self, info: StoreInfo, reach: tuple[str, ...]) -> StoreRow | None:
        """Return the cached figures of a store, or None if they are not from today."""
        with self._lock:
            _, day, row = self._rows.get((info.id, reach), (0.0, None, None))
        return row if day == _today() else None

    def is_fresh(self, info: StoreInfo, reach: tuple[str, ...]) -> bool:
        """Return whether the cached figures of a store are new enough for the totals."""
        with self._lock:
            at, day, row = self._rows.get((info.id, reach), (0.0, None, None))
        if row is None or day != _today() or self._clock() - at > FRESH_S:
            return False
        return (row.info.memories, row.info.size_bytes) == (info.memories, info.size_bytes)

    def read(self, info: StoreInfo, reach: tuple[str, ...], opened: Callable[[StoreInfo], MemoryStore]) -> StoreRow:
        """Read and cache the figures of a store. If the store was erased meanwhile, the row has no figures."""
        today = _today()
        try:
            row = read_row(info, opened(info), today)
        except NotFound:
            return StoreRow(info)
        with self._lock:
            self._rows[info.id, reach] = self._clock(), today, row
            self._rows.move_to_end((info.id, reach))
            while len(self._rows) > _KEPT:
                self._rows.popitem(last=False)
        return row

    def read_some(
        self, infos: Iterable[StoreInfo], reach: tuple[str, ...], opened: Callable[[StoreInfo], MemoryStore], count: int
    ) -> None:
        """Read the figures of up to `count` stores whose cached figures are missing or old."""
        for info in infos:
            if count <= 0:
                return
            if not self.is_fresh(info, reach):
                self.read(info, reach, opened)
                count -= 1


def totals(infos: Sequence[StoreInfo], rows: Mapping[str, StoreRow]) -> Totals:
    """Compute the totals of the stores `infos`. `rows` has the known rows by store id."""
    found = [rows[each.id] for each in infos if each.id in rows]
    return Totals(
        stores=len(infos),
        memories=sum(each.memories for each in infos),
        size_bytes=sum(each.size_bytes for each in infos),
        waiting=sum(each.waiting for each in found),
        waiting_in=sum(each.waiting > 0 for each in found),
        near=sum(each.full >= NEAR for each in found),
        today=sum(each.today for each in found),
        audited=sum(each.is_audited for each in found),
        uncounted=len(infos) - len(found),
    )


def note_check(records: LocationRecords, kind: str, store_id: str, findings: int) -> None:
    """For the list of stores, record that a scan or verification has ended. The record does not name any memory."""
    records.put(kind, store_id, json.dumps({"at": datetime.now(UTC).isoformat(), "findings": findings}))


def last_checks(records: LocationRecords, kind: str, infos: Iterable[StoreInfo]) -> dict[str, LastCheck]:
    """Return the last scans or verifications of the given stores, by store id."""
    wanted = {each.id for each in infos}
    return {name: check for name, check in _checks(records, kind) if name in wanted}


def _checks(records: LocationRecords, kind: str) -> Iterator[tuple[str, LastCheck]]:
    for name, text in records.list(kind):
        given = json.loads(text)
        yield name, LastCheck(datetime.fromisoformat(given["at"]), given["findings"])


def _today() -> date:
    return datetime.now(UTC).date()
