"""Sweeps of a memory store. A sweep deletes idle memories (expiry) and removes old versions (pruning)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from retentive.audit.chain import LISTED_CHANGES
from retentive.engine.access_times import KIND
from retentive.engine.context import StoreContext
from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.listings import HISTORY, PRUNED
from retentive.engine.operation import Read, WriteOperation
from retentive.errors import Unavailable
from retentive.history import clocks, expiry_rules
from retentive.history.clocks import CLOCK, SEEN, CheckedClock, ClockJump
from retentive.history.expiry_rules import EXPIRY
from retentive.storage.contract import Memory, Snapshot, Transaction, Version, to_datetime
from retentive.storage.lookup import locate
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT

SWEPT, LAST = "swept", "last"
AGAIN_AFTER_S = 86_400.0  # minimum time between two sweeps by open locations, across all processes
_EXPIRED_AT_ONCE, _PAGE = 100, 200  # a piece takes some 20 ms
_AT_ONCE = 500
_LOG = logging.getLogger("retentive")


@dataclass(frozen=True, slots=True)
class Expired:
    """Memory that was idle for too long."""

    path: str
    memory_id: str
    idle_days: float

    @classmethod
    def of(cls, memory: Memory, days: float) -> Expired:
        """Describe a memory that was idle for `days` days."""
        return cls(memory.path, memory.id, round(days, 1))


@dataclass(frozen=True, slots=True)
class Swept:
    """Result of a sweep or of its preview.

    `kept_read_only` lists idle memories that are read-only and were therefore kept. If `clock_jump` is set, the clock
    is not trusted and nothing was removed.
    """

    expired: tuple[Expired, ...] = ()
    kept_read_only: tuple[Expired, ...] = ()
    versions_pruned: int = 0
    clock_jump: ClockJump | None = None


@dataclass(frozen=True, slots=True)
class Sweep(WriteOperation[Swept]):
    """Delete idle memories, and record the time from which the history is complete. `sweep` then prunes the versions.

    `idle` lists the idle memories, each with its number of idle days. `old` lists the versions to prune, each with its
    id and the time at which a newer version replaced it. If `clock_jump` is set, the clock is not trusted and both
    lists are empty. `sighting` is the text of the clock record to write.
    """

    name = "sweep"
    allowed_when_archived = True
    may_use_reserve = True
    under_review = "skip"
    idle: tuple[tuple[Memory, float], ...]
    old: tuple[tuple[str, int], ...]
    clock_jump: ClockJump | None = None
    sighting: str | None = None

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the fields of the audit entry.

        They give the number of pruned versions, the ids of these versions if there are few, and the length of a clock
        jump.
        """
        facts: dict[str, object] = {"pruned": result.versions_pruned}
        if self.old and len(self.old) <= LISTED_CHANGES:
            facts["pruned_versions"] = [version_id for version_id, _ in self.old]
        if self.clock_jump is not None:
            facts["clock_jump_days"] = round(self.clock_jump.days)
        return facts

    def apply(self, tx: Transaction, writer: GuardedWriter) -> Swept:
        """Delete the idle memories, except those that changed after the search for them."""
        present = [(memory, days) for memory, days in self.idle if locate(tx, memory.path).memory == memory]
        writer.delete([memory for memory, _ in present if writer.may_change(memory.path)])
        if self.old:
            until = max(int(tx.get_record(HISTORY, PRUNED) or 0), *(until for _, until in self.old))
            tx.put_record(HISTORY, PRUNED, str(until))
        _note_clock(tx, self.sighting)
        return _swept(self, present, writer.may_change)


def _swept(found: Sweep, idle: Sequence[tuple[Memory, float]], may_change: Callable[[str], bool]) -> Swept:
    gone = tuple(Expired.of(memory, days) for memory, days in idle if may_change(memory.path))
    kept = tuple(Expired.of(memory, days) for memory, days in idle if not may_change(memory.path))
    return Swept(gone, kept, len(found.old), found.clock_jump)


def sweep(context: StoreContext, *, dry_run: bool = False, accept_clock: bool = False) -> Swept:
    """Delete idle memories and prune old versions, as the settings of the store say.

    Deletions are recorded with the actor `job:expiry`. A deleted memory can be restored until its versions are pruned.
    A memory that changes during the sweep is kept. With `dry_run`, nothing is removed. If the clock is far ahead,
    nothing is removed either, unless `accept_clock` is given (see `retentive.history.clocks`).
    """
    clock = clocks.check(context, accept=accept_clock)
    if dry_run:
        preview = partial(_preview, context, context.accesses.of(context.id, now=clock.now), clock)
        return context.result_of(Read("sweep.preview", preview))
    return _sweep(context, clock)


def _preview(context: StoreContext, accessed: Mapping[str, float], clock: CheckedClock, snapshot: Snapshot) -> Swept:
    if clock.jump is not None:
        return Swept(clock_jump=clock.jump)
    found, settings = find(context, accessed, clock.now, snapshot), context.settings_of(snapshot)
    return _swept(found, found.idle, lambda path: not GuardedWriter.is_read_only(settings, path))


def find(context: StoreContext, accessed: Mapping[str, float], now: float, snapshot: Snapshot) -> Sweep:
    """Find the memories and versions that a sweep of this snapshot must remove according to the settings."""
    settings, memories = context.settings_of(snapshot), [memory for memory, _ in snapshot.list(ROOT)]
    old: Sequence[tuple[str, int]] = ()
    if settings.keep_versions_days:
        old = expiry_rules.prunable(
            all_versions(snapshot), {memory.id: memory.path for memory in memories}, settings, now
        )
    return Sweep(tuple(expiry_rules.expired(memories, accessed, settings, now)), tuple(old))


def _sweep(context: StoreContext, clock: CheckedClock) -> Swept:
    accessed = context.accesses.of(context.id, now=clock.now)
    found = Sweep((), (), clock.jump)
    if clock.jump is None:
        found = context.read(partial(find, context, accessed, clock.now))
    swept = context.result_of(replace(found, sighting=clock.record), EXPIRY)
    if clock.jump is not None:
        return swept
    for start in range(0, len(found.old), _AT_ONCE):
        ids = [version_id for version_id, _ in found.old[start : start + _AT_ONCE]]
        context.follow_up(partial(_prune, ids=ids), may_use_reserve=True)
    _forget_views(context, clock.now)
    return swept


def _note_clock(tx: Transaction, sighting: str | None) -> None:
    if sighting is not None:
        tx.put_record(CLOCK, SEEN, sighting)


def _prune(tx: Transaction, *, ids: Sequence[str]) -> None:
    tx.prune(ids)


def sweep_of_today(context: StoreContext) -> Iterator[None]:
    """Sweep in short transactions, unless a process has swept within a day. Yield after each piece."""
    now = context.clock()
    if not context.read(partial(_is_to_sweep, now=now)):
        return
    yield from _while_locked(context)
    if not context.follow_up(partial(_begin, now=now)):
        return
    clock = clocks.check(context)
    context.follow_up(partial(_note_clock, sighting=clock.record), may_use_reserve=True)
    if clock.jump is not None:
        _LOG.warning("the memory store was not swept: %s", clock.jump)
        return
    memories = context.read(lambda snapshot: [memory for memory, _ in snapshot.list(ROOT)])
    while idle := _idle(context, memories, clock.now)[:_EXPIRED_AT_ONCE]:
        context.result_of(Sweep(tuple(idle), ()), EXPIRY)
        tried = {memory.id for memory, _ in idle}
        memories = [memory for memory in memories if memory.id not in tried]
        if len(idle) == _EXPIRED_AT_ONCE:
            yield
        yield from _while_locked(context)
    for old in _old_versions(context, clock.now):
        yield from _while_locked(context)
        if old:
            context.result_of(Sweep((), tuple(old)), EXPIRY)
            context.follow_up(partial(_prune, ids=[version_id for version_id, _ in old]), may_use_reserve=True)
        yield
    _forget_views(context, clock.now)


def _while_locked(context: StoreContext) -> Iterator[None]:
    """Yield as long as a piece would wait for another writer. Only side records can be tried without waiting."""
    while True:
        try:
            context.backend.put_side_records(context.id, KIND, {}, wait=False)
        except Unavailable:
            yield
        else:
            return


def _is_to_sweep(snapshot: Snapshot, *, now: float) -> bool:
    last = snapshot.get_record(SWEPT, LAST)
    swept_at = int(last) if last is not None and last.isdecimal() else 0
    return abs(now - swept_at) >= AGAIN_AFTER_S  # not only `now - swept_at`: an earlier clock may have been ahead


def _begin(tx: Transaction, *, now: float) -> bool:
    """Record that this process sweeps now. Return False if another process was faster."""
    if not _is_to_sweep(tx, now=now):
        return False
    tx.put_record(SWEPT, LAST, f"{now:.0f}")
    return True


def _idle(context: StoreContext, memories: Sequence[Memory], now: float) -> list[tuple[Memory, float]]:
    """Return the idle ones of `memories`. Settings and views may have changed since the last piece."""
    accessed = context.accesses.of(context.id, now=now)
    return list(expiry_rules.expired(memories, accessed, context.settings(), now))


def _old_versions(context: StoreContext, now: float) -> Iterator[list[tuple[str, int]]]:
    """Yield the versions to prune: of the memories on one page of the oldest versions, then of those on the next."""
    days, after, known = context.settings().keep_versions_days, "", set[str]()
    horizon = to_datetime(int((now - days * 86_400) * 1e6))

    def page(snapshot: Snapshot) -> list[Version]:
        return list(snapshot.versions(after=after, limit=_PAGE, oldest_first=True))

    while days and (found := [each for each in context.read(page) if each.created_at < horizon]):
        after, ids = found[-1].id, {each.memory_id for each in found} - known
        known |= ids
        yield context.read(partial(_prunable_of, context, sorted(ids), now))


def _prunable_of(
    context: StoreContext, memory_ids: Sequence[str], now: float, snapshot: Snapshot
) -> list[tuple[str, int]]:
    settings, old = context.settings_of(snapshot), list[tuple[str, int]]()
    for memory_id in memory_ids:
        memory = snapshot.find(memory_id)
        living = {} if memory is None else {memory_id: memory.path}
        old += expiry_rules.prunable(all_versions(snapshot, memory_id=memory_id), living, settings, now)
    return old


def _forget_views(context: StoreContext, now: float) -> None:
    """Remove the recorded views of memories that no longer exist."""
    present = context.read(lambda snapshot: {memory.id for memory, _ in snapshot.list(ROOT)})
    gone = {key: None for key in context.accesses.of(context.id, now=now) if key not in present}
    context.accesses.forget(context.id, gone)
