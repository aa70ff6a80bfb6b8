"""Sweeping a memory store: idle memories expire, and versions that are no longer kept go."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from retentive.engine.core import Engine
from retentive.engine.idempotency import forget_old
from retentive.engine.writer import GuardedWriter
from retentive.errors import RetentiveError
from retentive.history import retention
from retentive.history.retention import EXPIRY
from retentive.storage.contract import Memory, Snapshot, Transaction
from retentive.values.paths import ROOT
from retentive.values.settings import Settings

T = TypeVar("T")
HISTORY, PRUNED = "history", "pruned_until"
SWEPT, LAST = "swept", "last"
AGAIN_AFTER_S = 3_600.0  # at opening, by whichever process
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Expired:
    """A memory that was idle for too long."""

    path: str
    memory_id: str
    idle_days: float


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did, or would do: memories that went, memories that may not be changed, versions that went."""

    expired: tuple[Expired, ...] = ()
    kept_read_only: tuple[Expired, ...] = ()
    versions_pruned: int = 0


def sweep(store: Engine, *, dry_run: bool = False) -> Swept:
    """Let idle memories expire, and old versions go, as the settings of the store say.

    Expired memories are deleted by the actor `job:expiry`, and can be restored until their versions go. A memory that
    is used meanwhile stays. `dry_run` only tells.
    """
    settings, now, accessed = store.settings(), store.clock(), store.accesses.of(store.id)
    idle = store.read(lambda found: list(retention.expired(found.memories(ROOT), accessed, settings, now)))
    told = [Expired(memory.path, memory.id, round(days, 1)) for memory, days in idle]
    if dry_run:
        kept = {one.memory_id for one in told if GuardedWriter.is_read_only(settings, one.path)}
        pruned = store.read(lambda found: _prunable(found, settings, now))
        return _swept(told, kept, len(pruned))
    gone: set[str] = set()
    for part in _parts([memory for memory, _ in idle]):
        gone |= _expire(store, part)
    pruned = store.read(lambda found: _prunable(found, settings, now))
    for some in _parts(pruned):
        _prune(store, some)
    present = store.read(lambda found: {memory.id for memory in found.memories(ROOT)})
    store.accesses.forget(store.id, {key: None for key in accessed if key not in present})
    forget_old(store)
    return _swept(told, {one.memory_id for one in told} - gone, len(pruned))


def _swept(told: Sequence[Expired], kept: Container[str], pruned: int) -> Swept:
    gone, stayed = (tuple(one for one in told if (one.memory_id in kept) is stays) for stays in (False, True))
    return Swept(gone, stayed, pruned)


def sweep_at_opening(store: Engine) -> None:
    """Sweep, if something may expire and nobody swept within the hour. What fails is left for the next time."""
    try:
        now = store.clock()
        last = store.read(lambda found: found.get_record(SWEPT, LAST))
        swept_at = int(last) if last is not None and last.isdecimal() else 0
        if abs(now - swept_at) < AGAIN_AFTER_S:  # not just `now -`: a clock may have been ahead
            return
        store.backend.write(store.id, lambda tx: tx.put_record(SWEPT, LAST, f"{now:.0f}"))
        sweep(store)
    except RetentiveError as error:
        logging.getLogger("retentive").warning("the memory store was not swept: %s", error.code)


def _expire(store: Engine, idle: Sequence[Memory]) -> set[str]:
    """Delete memories that are as they were; the ids of those that went."""

    def work(tx: Transaction, write: GuardedWriter) -> set[str]:
        present = [tx.get(memory.path).memory for memory in idle]
        going = [
            memory
            for memory, now in zip(idle, present, strict=True)
            if now is not None and now.version_id == memory.version_id and write.may_change(memory.path)
        ]
        write.delete(going)
        return {memory.id for memory in going}

    return store.write(work, EXPIRY, may_use_reserve=True)


def _prunable(found: Snapshot, settings: Settings, now: float) -> list[tuple[str, int]]:
    if not settings.keep_versions_days:
        return []
    living = {memory.id: None for memory in found.memories(ROOT)}
    return retention.prunable(found.versions(), living, settings, now)


def _prune(store: Engine, old: Sequence[tuple[str, int]]) -> None:
    """Remove versions, and note since when what was is known as a whole."""

    def work(tx: Transaction) -> None:
        tx.prune([version_id for version_id, _ in old])
        known_since = max(int(tx.get_record(HISTORY, PRUNED) or 0), *(until for _, until in old))
        tx.put_record(HISTORY, PRUNED, str(known_since))

    store.backend.write(store.id, work, may_use_reserve=True)


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))
