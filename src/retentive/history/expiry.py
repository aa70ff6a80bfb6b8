"""Sweeps a memory store: expires idle memories and prunes old versions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from retentive.engine.context import StoreContext
from retentive.engine.idempotency import forget_old
from retentive.engine.operation import Read, WriteOperation
from retentive.engine.writer import GuardedWriter
from retentive.errors import RetentiveError
from retentive.history import expiry_rules
from retentive.history.expiry_rules import EXPIRY
from retentive.storage.contract import Memory, Snapshot, Transaction
from retentive.values.paths import ROOT

HISTORY, PRUNED = "history", "pruned_until"
SWEPT, LAST = "swept", "last"
AGAIN_AFTER_S = 3_600.0  # minimum time between two sweeps at opening, across all processes
_AT_ONCE = 500


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

    `kept_read_only` lists idle memories that the sweep may not delete.
    """

    expired: tuple[Expired, ...] = ()
    kept_read_only: tuple[Expired, ...] = ()
    versions_pruned: int = 0


@dataclass(frozen=True, slots=True)
class Sweep(WriteOperation[Swept]):
    """Delete idle memories, and record the time since when the history is complete. `sweep` then removes the versions.

    `idle` contains memories with their idle days. `old` contains the ids of versions to prune, each with the time at
    which a newer version replaced it.
    """

    name = "sweep"
    may_use_reserve = True
    under_review = "skip"
    idle: tuple[tuple[Memory, float], ...]
    old: tuple[tuple[str, int], ...]

    def facts(self, result: Any) -> Mapping[str, object]:
        """Number of pruned versions."""
        return {"pruned": result.versions_pruned}

    def apply(self, tx: Transaction, writer: GuardedWriter) -> Swept:
        """Delete the memories that have not changed since they were found idle."""
        present = [(memory, days) for memory, days in self.idle if tx.get(memory.path).memory == memory]
        writer.delete([memory for memory, _ in present if writer.may_change(memory.path)])
        if self.old:
            until = max(int(tx.get_record(HISTORY, PRUNED) or 0), *(until for _, until in self.old))
            tx.put_record(HISTORY, PRUNED, str(until))
        return _swept(self, present, writer.may_change)


def _swept(found: Sweep, idle: Sequence[tuple[Memory, float]], may_change: Callable[[str], bool]) -> Swept:
    """The result for memories that are still idle."""
    gone = tuple(Expired.of(memory, days) for memory, days in idle if may_change(memory.path))
    kept = tuple(Expired.of(memory, days) for memory, days in idle if not may_change(memory.path))
    return Swept(gone, kept, len(found.old))


def sweep(context: StoreContext, *, dry_run: bool = False) -> Swept:
    """Expire idle memories and prune old versions, as the settings of the store say.

    The actor `job:expiry` deletes expired memories. They can be restored until their versions are pruned. A memory
    changed during the sweep is kept. `dry_run` only reports.
    """
    if dry_run:
        preview = partial(_preview, context, context.accesses.of(context.id), context.clock())
        return context.result_of(Read("sweep.preview", preview))
    return _sweep(context, is_asked=True)


def _preview(context: StoreContext, accessed: Mapping[str, float], now: float, snapshot: Snapshot) -> Swept:
    found, settings = find(context, accessed, now, snapshot), context.settings_of(snapshot)
    return _swept(found, found.idle, lambda path: not GuardedWriter.is_read_only(settings, path))


def find(context: StoreContext, accessed: Mapping[str, float], now: float, snapshot: Snapshot) -> Sweep:
    """Find the memories and versions that a sweep removes from one state of the store, under its settings."""
    settings, memories = context.settings_of(snapshot), list(snapshot.memories(ROOT))
    old: Sequence[tuple[str, int]] = ()
    if settings.keep_versions_days:
        old = expiry_rules.prunable(snapshot.versions(), {memory.id for memory in memories}, settings, now)
    return Sweep(tuple(expiry_rules.expired(memories, accessed, settings, now)), tuple(old))


def _sweep(context: StoreContext, *, is_asked: bool) -> Swept:
    """Run a sweep. If nobody asked for the sweep and it finds nothing, it writes no audit entry."""
    accessed = context.accesses.of(context.id)
    found = context.read(partial(find, context, accessed, context.clock()))
    swept = context.result_of(found, EXPIRY) if is_asked or found.idle or found.old else Swept()
    for start in range(0, len(found.old), _AT_ONCE):
        ids = [version_id for version_id, _ in found.old[start : start + _AT_ONCE]]
        context.follow_up(partial(_prune, ids=ids), may_use_reserve=True)
    present = context.read(lambda snapshot: {memory.id for memory in snapshot.memories(ROOT)})
    context.accesses.forget(context.id, {key: None for key in accessed if key not in present})
    forget_old(context)
    return swept


def _prune(tx: Transaction, *, ids: Sequence[str]) -> None:
    tx.prune(ids)


def sweep_at_opening(context: StoreContext) -> None:
    """Sweep if the settings require it and no process did within the hour. A failure is logged, and retried later."""
    try:
        now = context.clock()
        last = context.read(lambda found: found.get_record(SWEPT, LAST))
        swept_at = int(last) if last is not None and last.isdecimal() else 0
        if abs(now - swept_at) < AGAIN_AFTER_S:  # not only `now - swept_at`: an earlier clock may have been ahead
            return
        context.follow_up(lambda tx: tx.put_record(SWEPT, LAST, f"{now:.0f}"))
        _sweep(context, is_asked=False)
    except RetentiveError as error:
        logging.getLogger("retentive").warning("the memory store was not swept: %s", error.code)
