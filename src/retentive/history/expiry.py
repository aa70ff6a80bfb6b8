"""Sweeps of a memory store. A sweep deletes idle memories (expiry) and removes old versions (pruning).

A sweep consists of pieces of some 20 ms, each in a transaction of its own. An open location does a few of them a day.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

from retentive.audit.chain import LISTED_CHANGES
from retentive.engine.access_times import KIND
from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard, Rules
from retentive.engine.listings import HISTORY, PRUNED
from retentive.engine.operation import AuditOnly, DryRun, Plan, Write
from retentive.errors import Unavailable
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
_KNOWN = 20_000  # memories whose oldest version to keep a sweep remembers
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
    swept, position, known = Swept(clock_jump=jump), "" if jump else ROOT, dict[str, str]()
    while position:
        piece, position = _piece(context, position, now, known, dry_run=dry_run)
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

    def note(tx: Transaction) -> None:
        tx.put_record(SWEPT, POSITION, position or None)

    if not context.read(is_due):
        return
    yield from _while_locked(context)
    position = context.follow_up(begin)
    now, jump = clocks.check(context) if position else (now, None)
    if jump is not None:
        _LOG.warning("the memory store was not swept: %s", jump)
    is_noted, known = position != ROOT, dict[str, str]()
    while position and jump is None:
        _, position = _piece(context, position, now, known)
        is_full = position not in {_FIRST_VERSION, _FIRST_VIEW, ""}
        if is_full or (is_noted and not position):
            is_noted = is_full
            context.follow_up(note, may_use_reserve=True)
        if is_full:
            yield
            yield from _while_locked(context)


def _while_locked(context: StoreCore) -> Iterator[None]:
    """Yield as long as a piece would wait for another writer. Only side records can be tried without waiting."""
    while True:
        try:
            context.backend.put_side_records(context.id, KIND, {}, wait=False)
        except Unavailable:
            yield
        else:
            return


def _piece(
    context: StoreCore, position: str, now: float, known: dict[str, str], *, dry_run: bool = False
) -> tuple[Swept, str]:
    """Do the piece at a position. Return its result, and the position of the next piece; empty at the end.

    The position is first the path of a memory, then the id of a version, then the id of a memory whose views are known.
    `known` is what the sweep remembers: for each memory, the id of its oldest version to keep.
    """
    if position.startswith(ROOT):
        idle, following = _idle(context, position, now)
        return _removed(context, Sweep(idle), dry_run=dry_run), following
    if position.startswith(_FIRST_VERSION):
        old, following = context.read(partial(_prunable, context, position, now, known))
        return _removed(context, Sweep((), old), dry_run=dry_run), following
    if dry_run:
        return Swept(), ""
    ids = [key for key, _ in context.backend.side_records(context.id, KIND, after=position, limit=_MEMORIES)]
    gone = context.read(lambda snapshot: [each for each in ids if snapshot.find(each) is None])
    if gone:
        context.backend.put_side_records(context.id, KIND, dict.fromkeys(gone))
    return Swept(), ids[-1] if len(ids) == _MEMORIES else ""


def _idle(context: StoreCore, start: str, now: float) -> tuple[tuple[tuple[Memory, float], ...], str]:
    """Return the idle ones of the next memories, each with its number of idle days, and the next position."""

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
            return tuple(idle), memory.path + _NEXT
    return tuple(idle), memories[-1].path + _NEXT if len(memories) == _MEMORIES else _FIRST_VERSION


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


def _prunable(
    context: StoreCore, after: str, now: float, known: dict[str, str], snapshot: Snapshot
) -> tuple[tuple[tuple[str, int], ...], str]:
    """Return the prunable ones of the next versions, and the next position.

    Each version comes with the time at which a newer version replaced it, in microseconds. A version is kept if it was
    the current version at any time in the last `keep_versions_days` days. The store can therefore be read as of any
    time in these days. A version is also kept if it is one of the newest `keep_versions` versions of its memory, or if
    the memory is read-only. The last known path of a deleted memory determines whether it is read-only.
    """
    settings = context.settings_of(snapshot)
    horizon = (now - settings.keep_versions_days * _DAY_S) * 1e6
    if not settings.keep_versions_days or settings.read_only:
        return (), _FIRST_VIEW
    found = snapshot.versions(after=after, limit=_VERSIONS, oldest_first=True)
    page = [version for version in found if to_us(version.created_at) < horizon]
    by_memory = defaultdict[str, list[Version]](list)
    for version in page:
        by_memory[version.memory_id].append(version)
    if len(known) > _KNOWN:
        known.clear()
    old = []
    for memory_id, versions in by_memory.items():
        if memory_id not in known:
            known[memory_id] = _bound(snapshot, memory_id, settings)
        for version, newer in zip_longest(versions, versions[1:]):
            if version.id >= known[memory_id]:
                break
            if newer is None:
                selected = snapshot.versions(memory_id=memory_id, after=version.id, limit=1, oldest_first=True)
                newer = next(selected, None)  # noqa: PLW2901 - the one after the page
            if newer is None or to_us(newer.created_at) < horizon:
                old.append((version.id, 0 if newer is None else to_us(newer.created_at)))
    return tuple(old), page[-1].id if len(page) == _VERSIONS else _FIRST_VIEW


def _bound(snapshot: Snapshot, memory_id: str, settings: Settings) -> str:
    """Return the id below which versions of a memory may be pruned: that of the oldest one to keep, or "" or "~"."""
    if settings.read_only_paths:
        last = next((each.path for each in snapshot.versions(memory_id=memory_id) if each.path), "")
        memory = snapshot.find(memory_id)
        if Rules.is_read_only(settings, last if memory is None else memory.path):
            return ""
    keep = max(settings.keep_versions, 1)
    newest = list(snapshot.versions(memory_id=memory_id, limit=keep))
    if not settings.keep_versions and newest and newest[0].operation == "deleted":
        return "~"  # the deletion goes last: without it, an older version would look current
    return newest[-1].id if len(newest) == keep else ""


@dataclass(frozen=True, slots=True)
class Sweep(Write[Swept]):
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

        They give the number of pruned versions, the ids of these versions if there are few, and the length of a clock
        jump.
        """
        facts: dict[str, object] = {"pruned": result.versions_pruned}
        if 0 < len(self.old) <= LISTED_CHANGES:
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


def _removed(context: StoreCore, found: Sweep, *, dry_run: bool) -> Swept:
    if not (found.idle or found.old):
        return Swept()
    if dry_run:
        return context.with_options(actor=EXPIRY).peek(DryRun(found))
    return context.result_of(found, EXPIRY)
