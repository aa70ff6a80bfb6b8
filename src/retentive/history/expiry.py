"""Sweeps a memory store: expires idle memories and prunes old versions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from retentive.audit.chain import LISTED_CHANGES
from retentive.engine.context import StoreContext
from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.idempotency import forget_old
from retentive.engine.listings import HISTORY, PRUNED
from retentive.engine.operation import Read, WriteOperation
from retentive.errors import RetentiveError
from retentive.history import clocks, expiry_rules
from retentive.history.clocks import CLOCK, SEEN, CheckedClock, ClockJump
from retentive.history.expiry_rules import EXPIRY
from retentive.storage.contract import Memory, Snapshot, Transaction
from retentive.storage.lookup import locate
from retentive.values.paths import ROOT

SWEPT, LAST = "swept", "last"
AGAIN_AFTER_S = 3_600.0  # minimum time between two sweeps at opening, across all processes
_AT_ONCE = 500
_LOG = logging.getLogger("retentive")


@dataclass(frozen=True, slots=True)
class Expired:
    """A memory that was idle for too long."""

    path: str
    memory_id: str
    idle_days: float

    @classmethod
    def of(cls, memory: Memory, days: float) -> Expired:
        """Return the result for a memory that was idle for some days."""
        return cls(memory.path, memory.id, round(days, 1))


@dataclass(frozen=True, slots=True)
class Swept:
    """Result of a sweep or of its preview.

    `kept_read_only` lists idle memories that the sweep may not delete. If `clock_jump` is set, the sweep waits and
    nothing was removed.
    """

    expired: tuple[Expired, ...] = ()
    kept_read_only: tuple[Expired, ...] = ()
    versions_pruned: int = 0
    clock_jump: ClockJump | None = None


@dataclass(frozen=True, slots=True)
class Sweep(WriteOperation[Swept]):
    """Delete idle memories, and record the time from which the history is complete. `sweep` then prunes the versions.

    `idle` lists memories with their idle days. `old` lists the ids of versions, with the times at which newer versions
    replaced them. If `clock_jump` is set, both are empty and the sweep waits. `sighting` is the record of the clock.
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
        """Number of pruned versions, their ids if few, and the length of a clock jump that made the sweep wait."""
        facts: dict[str, object] = {"pruned": result.versions_pruned}
        if self.old and len(self.old) <= LISTED_CHANGES:
            facts["pruned_versions"] = [version_id for version_id, _ in self.old]
        if self.clock_jump is not None:
            facts["clock_jump_days"] = round(self.clock_jump.days)
        return facts

    def apply(self, tx: Transaction, writer: GuardedWriter) -> Swept:
        """Delete the memories that have not changed since they were found idle."""
        present = [(memory, days) for memory, days in self.idle if locate(tx, memory.path).memory == memory]
        writer.delete([memory for memory, _ in present if writer.may_change(memory.path)])
        if self.old:
            until = max(int(tx.get_record(HISTORY, PRUNED) or 0), *(until for _, until in self.old))
            tx.put_record(HISTORY, PRUNED, str(until))
        _note_clock(tx, self.sighting)
        return _swept(self, present, writer.may_change)


def _swept(found: Sweep, idle: Sequence[tuple[Memory, float]], may_change: Callable[[str], bool]) -> Swept:
    """The result for memories that are still idle."""
    gone = tuple(Expired.of(memory, days) for memory, days in idle if may_change(memory.path))
    kept = tuple(Expired.of(memory, days) for memory, days in idle if not may_change(memory.path))
    return Swept(gone, kept, len(found.old), found.clock_jump)


def sweep(context: StoreContext, *, dry_run: bool = False, accept_clock: bool = False) -> Swept:
    """Expire idle memories and prune old versions, as the settings of the store say.

    The actor `job:expiry` deletes expired memories. They can be restored until their versions are pruned. A memory
    changed during the sweep is kept. `dry_run` only reports. A clock far ahead of the time last seen makes the sweep
    wait, unless `accept_clock` is given (`retentive.history.clocks`).
    """
    clock = clocks.check(context, accept=accept_clock)
    if dry_run:
        preview = partial(_preview, context, context.accesses.of(context.id, now=clock.now), clock)
        return context.result_of(Read("sweep.preview", preview))
    return _sweep(context, clock, is_asked=True)


def _preview(context: StoreContext, accessed: Mapping[str, float], clock: CheckedClock, snapshot: Snapshot) -> Swept:
    if clock.jump is not None:
        return Swept(clock_jump=clock.jump)
    found, settings = find(context, accessed, clock.now, snapshot), context.settings_of(snapshot)
    return _swept(found, found.idle, lambda path: not GuardedWriter.is_read_only(settings, path))


def find(context: StoreContext, accessed: Mapping[str, float], now: float, snapshot: Snapshot) -> Sweep:
    """Find the memories and versions that a sweep removes from one state of the store, under its settings."""
    settings, memories = context.settings_of(snapshot), list(snapshot.memories(ROOT))
    old: Sequence[tuple[str, int]] = ()
    if settings.keep_versions_days:
        old = expiry_rules.prunable(snapshot.versions(), {memory.id: memory.path for memory in memories}, settings, now)
    return Sweep(tuple(expiry_rules.expired(memories, accessed, settings, now)), tuple(old))


def _sweep(context: StoreContext, clock: CheckedClock, *, is_asked: bool) -> Swept:
    """Run a sweep. If nobody asked for the sweep and it finds nothing, it writes no audit entry."""
    accessed = context.accesses.of(context.id, now=clock.now)
    found = Sweep((), (), clock.jump)
    if clock.jump is None:
        found = context.read(partial(find, context, accessed, clock.now))
    found = replace(found, sighting=clock.record)
    if is_asked or found.idle or found.old:
        swept = context.result_of(found, EXPIRY)
    else:
        swept = Swept(clock_jump=clock.jump)
        context.follow_up(partial(_note_clock, sighting=clock.record), may_use_reserve=True)
    if clock.jump is not None:
        return swept
    for start in range(0, len(found.old), _AT_ONCE):
        ids = [version_id for version_id, _ in found.old[start : start + _AT_ONCE]]
        context.follow_up(partial(_prune, ids=ids), may_use_reserve=True)
    present = context.read(lambda snapshot: {memory.id for memory in snapshot.memories(ROOT)})
    context.accesses.forget(context.id, {key: None for key in accessed if key not in present})
    forget_old(context, now=clock.now)
    return swept


def _note_clock(tx: Transaction, sighting: str | None) -> None:
    if sighting is not None:
        tx.put_record(CLOCK, SEEN, sighting)


def _prune(tx: Transaction, *, ids: Sequence[str]) -> None:
    tx.prune(ids)


def sweep_at_opening(context: StoreContext) -> None:
    """Sweep, unless a process started a sweep within the last hour. A failure is logged, and retried later."""
    try:
        now = context.clock()
        last = context.read(lambda found: found.get_record(SWEPT, LAST))
        swept_at = int(last) if last is not None and last.isdecimal() else 0
        if abs(now - swept_at) < AGAIN_AFTER_S:  # not only `now - swept_at`: an earlier clock may have been ahead
            return
        context.follow_up(lambda tx: tx.put_record(SWEPT, LAST, f"{now:.0f}"))
        swept = _sweep(context, clocks.check(context), is_asked=False)
        if swept.clock_jump is not None:
            _LOG.warning("the memory store was not swept: %s", swept.clock_jump)
    except RetentiveError as error:
        _LOG.warning("the memory store was not swept: %s", error.code)
