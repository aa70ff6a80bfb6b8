"""Sweeps a memory store: expires idle memories and prunes old versions."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from retentive.engine.context import StoreContext
from retentive.engine.idempotency import forget_old
from retentive.engine.operation import Invocation, ReadOperation, WriteOperation
from retentive.engine.writer import GuardedWriter
from retentive.errors import RetentiveError
from retentive.history import expiry_rules
from retentive.history.expiry_rules import EXPIRY
from retentive.storage.contract import Memory, Snapshot, Transaction
from retentive.values.paths import ROOT
from retentive.values.settings import Settings

T = TypeVar("T")
HISTORY, PRUNED = "history", "pruned_until"
SWEPT, LAST = "swept", "last"
AGAIN_AFTER_S = 3_600.0  # minimum between sweeps at opening, across all processes
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Expired:
    """A memory that exceeded its idle time."""

    path: str
    memory_id: str
    idle_days: float


@dataclass(frozen=True, slots=True)
class Swept:
    """Result of a sweep or of its preview.

    `kept_read_only` lists idle memories that the sweep may not delete.
    """

    expired: tuple[Expired, ...] = ()
    kept_read_only: tuple[Expired, ...] = ()
    versions_pruned: int = 0


@dataclass(frozen=True, slots=True)
class Expire(WriteOperation[tuple[Expired, ...]]):
    """Delete idle memories that were not changed meanwhile and may be deleted; return those deleted."""

    name = "expire"
    may_use_reserve = True
    idle: tuple[tuple[Memory, float], ...]

    def apply(self, tx: Transaction, writer: GuardedWriter) -> tuple[Expired, ...]:
        """Delete the memories whose version is unchanged since they were found idle."""
        going = []
        for memory, days in self.idle:
            now = tx.get(memory.path).memory
            if now is not None and now.version_id == memory.version_id and writer.may_change(memory.path):
                going.append((memory, days))
        writer.delete([memory for memory, _ in going])
        return tuple(_expired(memory, days) for memory, days in going)


@dataclass(frozen=True, slots=True)
class Prune(WriteOperation[int]):
    """Remove versions, each given with the time at which a newer one replaced it; return their number."""

    name = "prune"
    may_use_reserve = True
    under_review = "skip"
    old: tuple[tuple[str, int], ...]

    def facts(self, result: Any) -> Mapping[str, object]:
        """Number of pruned versions."""
        return {"pruned": result}

    def apply(self, tx: Transaction, writer: GuardedWriter) -> int:
        """Remove the versions, and record the time from which the history is complete."""
        tx.prune([version_id for version_id, _ in self.old])
        known_since = max(int(tx.get_record(HISTORY, PRUNED) or 0), *(until for _, until in self.old))
        tx.put_record(HISTORY, PRUNED, str(known_since))
        return len(self.old)


@dataclass(frozen=True, slots=True)
class FindIdle(ReadOperation["Found"]):
    """Find the idle memories and the versions to prune under the settings: the read half of a sweep, or its preview."""

    name = "expire.preview"
    accessed: Mapping[str, float]
    now: float

    def apply(self, snapshot: Snapshot, settings: Settings) -> Found:
        """Compare idle and version times with the settings."""
        idle = expiry_rules.expired(snapshot.memories(ROOT), self.accessed, settings, self.now)
        return Found(tuple(idle), tuple(_prunable(snapshot, settings, self.now)), settings)


@dataclass(frozen=True, slots=True)
class Found:
    """Idle memories with their idle days, versions to prune, and the settings applied."""

    idle: tuple[tuple[Memory, float], ...]
    prunable: tuple[tuple[str, int], ...]
    settings: Settings


def sweep(context: StoreContext, invocation: Invocation, *, dry_run: bool = False) -> Swept:
    """Expire idle memories and prune old versions, as the settings of the store say.

    The actor `job:expiry` deletes expired memories. They can be restored until their versions are pruned. A memory
    changed during the sweep is kept. `dry_run` only reports.
    """
    accessed = context.accesses.of(context.id)
    find = FindIdle(accessed, context.clock())
    if dry_run:
        found = context.run(find, invocation).value()
        kept = {memory.id for memory, _ in found.idle if GuardedWriter.is_read_only(found.settings, memory.path)}
        return _swept([_expired(*each) for each in found.idle], kept, len(found.prunable))
    return _swept_now(context, find, replace(invocation, actor=EXPIRY), is_asked=True)


def _swept_now(context: StoreContext, find: FindIdle, expiry: Invocation, *, is_asked: bool) -> Swept:
    """Delete idle memories, then prune old versions.

    A sweep that finds no idle memories writes an audit entry only if it was requested.
    """
    found, gone = context.read(lambda snapshot: find.apply(snapshot, context.settings_of(snapshot))), set[str]()
    if found.idle or is_asked:
        gone = {each.memory_id for each in context.run(Expire(found.idle), expiry).value()}
    pruned = context.read(lambda snapshot: _prunable(snapshot, context.settings_of(snapshot), find.now))
    for some in _parts(pruned):
        context.run(Prune(tuple(some)), expiry).value()
    accessed = find.accessed
    present = context.read(lambda snapshot: {memory.id for memory in snapshot.memories(ROOT)})
    context.accesses.forget(context.id, {key: None for key in accessed if key not in present})
    forget_old(context)
    expired = [_expired(*each) for each in found.idle]
    return _swept(expired, {one.memory_id for one in expired} - gone, len(pruned))


def _expired(memory: Memory, days: float) -> Expired:
    return Expired(memory.path, memory.id, round(days, 1))


def _swept(found: Sequence[Expired], kept: Container[str], pruned: int) -> Swept:
    gone, stayed = (tuple(one for one in found if (one.memory_id in kept) is stays) for stays in (False, True))
    return Swept(gone, stayed, pruned)


def sweep_at_opening(context: StoreContext) -> None:
    """Sweep if the settings require it and no process swept within the hour; a failure is logged and retried later."""
    try:
        now = context.clock()
        last = context.read(lambda found: found.get_record(SWEPT, LAST))
        swept_at = int(last) if last is not None and last.isdecimal() else 0
        if abs(now - swept_at) < AGAIN_AFTER_S:  # not just `now -`: the earlier clock may have been ahead
            return
        context.follow_up(lambda tx: tx.put_record(SWEPT, LAST, f"{now:.0f}"))
        _swept_now(context, FindIdle(context.accesses.of(context.id), now), Invocation(EXPIRY), is_asked=False)
    except RetentiveError as error:
        logging.getLogger("retentive").warning("the memory store was not swept: %s", error.code)


def _prunable(found: Snapshot, settings: Settings, now: float) -> list[tuple[str, int]]:
    if not settings.keep_versions_days:
        return []
    living = {memory.id: None for memory in found.memories(ROOT)}
    return expiry_rules.prunable(found.versions(), living, settings, now)


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))
