"""Sweeps of a memory store. A sweep deletes idle memories (expiry) and removes old versions (pruning).

A sweep consists of pieces of some 20 ms, each in a transaction of its own. An open location does a few of them a day.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

from retentive.engine.access_times import KIND
from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard, is_read_only
from retentive.engine.listings import HISTORY, PRUNED
from retentive.engine.operation import AuditOnly, DryRun, Plan, WriteOperation
from retentive.history import clocks
from retentive.history.clocks import ClockJump
from retentive.storage.contract import Actor, Memory, Snapshot, Transaction, Version
from retentive.storage.lookup import locate
from retentive.values.paths import ROOT
from retentive.values.patterns import covers
from retentive.values.records import to_us
from retentive.values.settings import Settings

EXPIRY = Actor("job", "expiry")
"""Actor of deletions by expiry."""
SWEPT, LAST, POSITION = "swept", "last", "position"
AGAIN_AFTER_S = 86_400.0  # minimum time between two sweeps by open locations, across all processes
_MEMORIES, _VERSIONS = 500, 200  # number that a piece examines
_AT_ONCE = 100  # memories that a piece deletes
_FIRST_VERSION, _FIRST_VIEW = "memver_", "mem_"
_NEXT = "\x01"  # lower than each character of a path; PostgreSQL stores no NUL
_DAY_S = 86_400.0
_LOG = logging.getLogger("retentive")


@dataclass(frozen=True, slots=True)
class Expired:
    """Memory that was idle for too long."""

    path: str
    memory_id: str
    idle_days: float


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


def sweep(context: StoreCore, *, dry_run: bool = False, accept_clock: bool = False) -> Swept:
    """Delete idle memories and prune old versions, as the settings of the store say.

    Deletions are recorded with the actor `job:expiry`. A deleted memory can be restored until its versions are pruned.
    A memory that changes during the sweep is kept. With `dry_run`, nothing is removed. If the clock is far ahead,
    nothing is removed either, unless `accept_clock` is given (see `retentive.history.clocks`).
    """
    now, jump = clocks.check(context, accept=accept_clock, is_recorded=not dry_run)
    swept = Swept(clock_jump=jump)
    for piece, _ in () if jump else _pieces(context, ROOT, now, dry_run=dry_run):
        expired, kept = swept.expired + piece.expired, swept.kept_read_only + piece.kept_read_only
        swept = Swept(expired, kept, swept.versions_pruned + piece.versions_pruned)
    if dry_run:
        context.result_of(AuditOnly("sweep.preview"))
    elif swept == Swept(clock_jump=jump):  # otherwise the pieces have entries in the audit log
        context.result_of(Sweep(clock_jump=jump), EXPIRY)
    return swept


def sweep_of_today(context: StoreCore) -> Iterator[None]:
    """Go on with the sweep of the store, unless a process has swept within a day. Yield after each full piece."""
    now, created_at = context.clock(), to_us(context.info.created_at) / 1e6

    def is_due(snapshot: Snapshot) -> bool:
        last = snapshot.get_record(SWEPT, LAST)
        swept_at = int(last) if last is not None and last.isdecimal() else created_at
        return abs(now - swept_at) >= AGAIN_AFTER_S  # not only `now - swept_at`: an earlier clock may have been ahead

    def begin(tx: Transaction) -> str:
        if not is_due(tx):
            return ""  # another process was faster
        tx.put_record(SWEPT, LAST, f"{now:.0f}")
        return tx.get_record(SWEPT, POSITION) or ROOT

    position = context.follow_up(begin) if context.read(is_due) else ""
    if not position:
        return
    now, jump = clocks.check(context)
    if jump is not None:
        _LOG.warning("the memory store was not swept: %s", jump)
        return
    is_noted = position != ROOT
    for _, following in _pieces(context, position, now):
        is_full = following not in {_FIRST_VERSION, _FIRST_VIEW, ""}
        if is_full or (is_noted and not following):
            is_noted = is_full
            context.follow_up(partial(_note, position=following), may_use_reserve=True)
        if is_full:
            yield


def _pieces(context: StoreCore, position: str, now: float, *, dry_run: bool = False) -> Iterator[tuple[Swept, str]]:
    """Do the pieces from a position on. Yield the result of each, and the position of the next one; empty at the end.

    The position is first the path of a memory, then the id of a version, then the id of a memory whose views are known.
    """
    while position.startswith((ROOT, _FIRST_VERSION)):
        find = _idle if position.startswith(ROOT) else _prunable
        found, position = find(context, position, now)
        swept = Swept()
        if found.idle or found.old:
            expiry = context.with_options(actor=EXPIRY)
            swept = expiry.peek(DryRun(found)) if dry_run else context.result_of(found, EXPIRY)
        yield swept, position
    while position and not dry_run:
        ids = context.read(partial(_viewed, position=position))
        if context.read(partial(_missing, ids)):
            context.follow_up(partial(_forget_views, ids=ids), may_use_reserve=True)
        position = ids[-1] if len(ids) == _MEMORIES else ""
        yield Swept(), position


def _viewed(snapshot: Snapshot, position: str) -> list[str]:
    return [key for key, _ in snapshot.records(KIND, after=position, limit=_MEMORIES)]


def _forget_views(tx: Transaction, ids: list[str]) -> None:
    for memory_id in _missing(ids, tx):
        tx.put_record(KIND, memory_id, None)


def _note(tx: Transaction, position: str) -> None:
    tx.put_record(SWEPT, POSITION, position or None)


def _missing(memory_ids: Sequence[str], snapshot: Snapshot) -> list[str]:
    return [each for each in memory_ids if snapshot.find(each) is None]


def _idle(context: StoreCore, start: str, now: float) -> tuple[Sweep, str]:
    """Find the idle ones of the next memories. Also return the next position."""

    def read(found: Snapshot) -> tuple[Settings, list[Memory]]:
        settings = context.settings_of(found)
        limit = _MEMORIES if settings.expires else 0
        return settings, [each for each, _ in found.list(ROOT, start=start, limit=limit)]

    (settings, memories), idle = context.read(read), []
    for memory in memories:
        left = days_left(memory, 0.0, settings, now)
        if left is not None and left < 0:
            viewed = context.accesses.latest(context.id, memory.id, now=now)
            left = days_left(memory, viewed, settings, now)
            idle += [] if left is None or left >= 0 else [(memory, days_allowed(memory.path, settings) - left)]
        if len(idle) == _AT_ONCE:
            return Sweep(tuple(idle)), memory.path + _NEXT
    return Sweep(tuple(idle)), memories[-1].path + _NEXT if len(memories) == _MEMORIES else _FIRST_VERSION


def days_allowed(path: str, settings: Settings) -> int:
    """Return the number of days that a memory may be idle; 0 means no limit.

    If patterns in `expire_paths` match the path, the longest of their times applies. Otherwise `expire_after_days`
    applies.
    """
    named = [days for pattern, days in settings.expire_paths.items() if covers((pattern,), path)]
    if not named:
        return settings.expire_after_days
    return 0 if 0 in named else max(named)


def days_left(memory: Memory, viewed_at: float, settings: Settings, now: float) -> float | None:
    """Return the number of days until an unused memory expires, or None if it never expires.

    The number is negative if the next sweep deletes the memory.
    """
    days = days_allowed(memory.path, settings)
    idle_s = now - max(to_us(memory.updated_at) / 1e6, viewed_at)
    return days - idle_s / _DAY_S if days else None


def _prunable(context: StoreCore, after: str, now: float) -> tuple[Sweep, str]:
    """Find the prunable ones of the next versions. Also return the next position.

    A version is kept if it was the current version at any time in the last `keep_versions_days` days. The store can
    therefore be read as of any time in these days. A version is also kept if it is one of the newest `keep_versions`
    versions of its memory, or if the memory is read-only. The last known path of a deleted memory determines whether it
    is read-only.
    """

    def read(snapshot: Snapshot) -> tuple[Sweep, str]:
        settings = context.settings_of(snapshot)
        horizon = (now - settings.keep_versions_days * _DAY_S) * 1e6
        if not settings.keep_versions_days or settings.read_only:
            return Sweep(), _FIRST_VIEW
        found = snapshot.versions(after=after, limit=_VERSIONS, oldest_first=True)
        page = [version for version in found if to_us(version.created_at) < horizon]
        by_memory = defaultdict[str, list[Version]](list)
        for version in page:
            by_memory[version.memory_id].append(version)
        old = list[tuple[str, int]]()
        for memory_id, versions in by_memory.items():
            bound = _bound(snapshot, memory_id, settings)
            for version, newer in zip_longest(versions, versions[1:]):
                if version.id >= bound:
                    break
                if newer is None:
                    selected = snapshot.versions(memory_id=memory_id, after=version.id, limit=1, oldest_first=True)
                    newer = next(selected, None)  # noqa: PLW2901 - the one after the page
                if newer is None or to_us(newer.created_at) < horizon:
                    old.append((version.id, 0 if newer is None else to_us(newer.created_at)))
        return Sweep((), tuple(old)), page[-1].id if len(page) == _VERSIONS else _FIRST_VIEW

    return context.read(read)


def _bound(snapshot: Snapshot, memory_id: str, settings: Settings) -> str:
    """Return the id below which versions of a memory may be pruned: that of the oldest one to keep, or "" or "~"."""
    if settings.read_only_paths:
        last = next((each.path for each in snapshot.versions(memory_id=memory_id) if each.path), "")
        memory = snapshot.find(memory_id)
        if is_read_only(settings, last if memory is None else memory.path):
            return ""
    keep = max(settings.keep_versions, 1)
    newest = list(snapshot.versions(memory_id=memory_id, limit=keep))
    if not settings.keep_versions and newest and newest[0].operation == "deleted":
        return "~"  # the deletion goes last: without it, an older version would look current
    return newest[-1].id if len(newest) == keep else ""


@dataclass(frozen=True, slots=True)
class Sweep(WriteOperation[Swept]):
    """Delete idle memories, prune versions, and record the time from which the history is complete.

    `idle` lists the idle memories, each with its number of idle days. `old` lists the versions to prune, each with the
    time at which a newer version replaced it.
    """

    name = "sweep"
    allowed_when_archived = True
    only_removes = True
    under_review = "skip"
    idle: tuple[tuple[Memory, float], ...] = ()
    old: tuple[tuple[str, int], ...] = ()
    clock_jump: ClockJump | None = None

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the fields of the audit entry.

        They give the number and the ids of pruned versions, and the length of a clock jump.
        """
        facts: dict[str, object] = {"pruned": result.versions_pruned}
        if self.old:
            facts["pruned_versions"] = [version_id for version_id, _ in self.old]
        if self.clock_jump is not None:
            facts["clock_jump_days"] = round(self.clock_jump.days)
        return facts

    def decide(self, view: Snapshot, guard: Guard) -> Plan[Swept]:
        """Delete the idle memories, except those that changed after the search for them. Prune the versions."""
        gone, expired, kept = list[Memory](), list[Expired](), list[Expired]()
        for memory, days in self.idle:
            if locate(view, memory.path).memory != memory:
                continue
            may_change = guard.may_change(memory.path)
            (expired if may_change else kept).append(Expired(memory.path, memory.id, round(days, 1)))
            gone += [memory] if may_change else []
        result, changes = Swept(tuple(expired), tuple(kept), len(self.old), self.clock_jump), guard.delete(view, gone)
        if not self.old:
            return Plan(result, changes)
        until = max(int(view.get_record(HISTORY, PRUNED) or 0), *(until for _, until in self.old))
        ids = [version_id for version_id, _ in self.old]
        return Plan(result, changes, records=[(HISTORY, PRUNED, str(until))], prune=ids)
