"""Sweeps of a memory store. A sweep deletes idle memories (expiry) and removes old versions (pruning).

A sweep consists of pieces of some 20 ms, each in a transaction of its own. An open location does a few of them a day.

A host whose clock is years ahead would delete every memory as idle and prune the history. Therefore, each sweep records
its time. A clock is not trusted if it is more than 7 days ahead of this time and of all later changes. It becomes
trusted if an operator accepts it, or if it is still ahead a day later and nobody has swept at an earlier time since.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from time import perf_counter

from retentive.engine.access_times import KIND
from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard, is_read_only
from retentive.engine.lists import HISTORY, PRUNED
from retentive.engine.operation import Plan, Write, audit_only
from retentive.gateway import records as gateway_records
from retentive.history.packing import packing
from retentive.history.revisions import newest_at
from retentive.review.proposals import Proposal, closing, foundations, pending
from retentive.storage.contract import Actor, Memory, Snapshot, Transaction, Version, to_datetime
from retentive.storage.lookup import locate
from retentive.values.paths import ROOT
from retentive.values.patterns import covers
from retentive.values.records import to_us
from retentive.values.settings import Settings

EXPIRY = Actor("job", "expiry")
"""Actor of deletions by expiry."""
SWEPT, LAST, POSITION = "swept", "last", "position"
CLOCK, SEEN = "clock", "seen"
"""Kind and key of the record of the last check of a clock."""
AGAIN_AFTER_S = 86_400.0  # minimum time between two sweeps by open locations, across all processes
MAX_STEP_S = 7 * 86_400.0
CONFIRMED_AFTER_S = 86_400.0
_MEMORIES = 500  # number that a piece examines
_VERSIONS, _AT_ONCE = 200, 100  # versions that a piece examines and memories that it deletes, if it takes `_PIECE_S`
_PIECE_S, _SMALLEST = 0.02, 25  # seconds that a piece may take, as a write may wait for it; versions of a slow one
_FIRST_VERSION = "memver_"
_NEXT = "\x01"  # lower than each character of a path; PostgreSQL stores no NUL
_DAY_S = 86_400.0
_LOG = logging.getLogger("retentive")


@dataclass(frozen=True, slots=True)
class ClockJump:
    """Result of a check that found the clock too far ahead.

    `seen` is the last trusted time, and `now` is the time of the clock.
    """

    seen: datetime
    now: datetime

    @property
    def days(self) -> float:
        """Number of days that the clock is ahead."""
        return (self.now - self.seen).total_seconds() / 86_400

    def __str__(self) -> str:
        return (
            f"the clock is {self.days:.0f} days ahead of the last time that this memory store recorded"
            f" ({self.seen:%Y-%m-%d}); nothing expires and no version is removed. If the clock is right, run"
            " `retentive admin sweep --accept-clock`, or sweep again a day after the last sweep at an earlier time"
        )


@dataclass(frozen=True, slots=True)
class Expired:
    """Memory that was idle for too long."""

    path: str
    memory_id: str
    idle_days: float


@dataclass(frozen=True, slots=True)
class Swept:
    """Result of a sweep or of its preview.

    `kept_read_only` lists idle memories that are read-only and were therefore kept. `proposals` has the ids of the
    proposals that waited too long and were refused. If `clock_jump` is set, the clock is not trusted and nothing was
    removed.
    """

    expired: tuple[Expired, ...] = ()
    kept_read_only: tuple[Expired, ...] = ()
    versions_pruned: int = 0
    clock_jump: ClockJump | None = None
    proposals: tuple[str, ...] = ()


def sweep(context: StoreCore, *, dry_run: bool = False, accept_clock: bool = False) -> Swept:
    """Delete idle memories and prune old versions, as the settings of the store say.

    Deletions are recorded with the actor `job:expiry`. A deleted memory can be restored until its versions are pruned.
    A memory that changes during the sweep is kept. Proposals that waited too long are refused. With `dry_run`, nothing
    is removed. If the clock is far ahead, nothing is removed either, unless `accept_clock` is given. At the end,
    superseded texts are packed.
    """
    now, jump = _checked_clock(context, accept=accept_clock, is_recorded=not dry_run)
    swept = Swept(clock_jump=jump)
    for piece, _ in () if jump else _pieces(context, ROOT, now, dry_run=dry_run):
        expired, kept = swept.expired + piece.expired, swept.kept_read_only + piece.kept_read_only
        swept = Swept(expired, kept, swept.versions_pruned + piece.versions_pruned, proposals=piece.proposals)
    if dry_run:
        context.result_of(audit_only("sweep.preview"))
    elif swept == Swept(clock_jump=jump):  # otherwise the pieces have entries in the audit log
        context.result_of(_removal(clock_jump=jump), EXPIRY)
    for _ in () if dry_run else packing(context):  # last, so that an error in it keeps nothing from being removed
        pass
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
    now, jump = _checked_clock(context)
    if jump is not None:
        _LOG.warning("the memory store was not swept: %s", jump)
    is_noted = position != ROOT
    for _, following in () if jump else _pieces(context, position, now):
        is_full = following not in {_FIRST_VERSION, ""}
        if is_full or (is_noted and not following):
            is_noted = is_full
            value = following or None
            context.follow_up(lambda tx, value=value: tx.put_record(SWEPT, POSITION, value), may_use_reserve=True)  # type: ignore[misc]
        if is_full:
            yield
    yield from packing(context)


def _expired_proposals(context: StoreCore, now: float, *, dry_run: bool = False) -> tuple[str, ...]:
    """Refuse the proposals that have waited too long, unless a newer one builds on them. Return their ids."""

    def stale(view: Snapshot) -> list[Proposal]:
        settings = context.settings_of(view)
        if not settings.proposals_expire_days or settings.read_only:
            return []
        waiting, horizon = pending(view), now - settings.proposals_expire_days * _DAY_S
        below, fresh = foundations(waiting), {each.id for each in waiting if to_us(each.at) / 1e6 >= horizon}
        kept = fresh.union(*(below[each] for each in fresh))
        return [each for each in waiting if each.id not in kept]

    def work(view: Snapshot, guard: Guard) -> Plan[tuple[str, ...]]:
        closed = stale(view)
        ids, at = tuple(each.id for each in closed), to_datetime(int(now * 1e6))
        records = closing(view, closed, is_accepted=False, by=EXPIRY, at=at)
        return Plan(ids, records=records, event=("refused", ids) if ids else None)

    found = tuple(each.id for each in context.read(stale))
    if dry_run or not found:
        return found
    facts = lambda ids: {"proposals": ids}  # noqa: E731
    refusal = Write("sweep", work, facts=facts, under_review="skip", only_removes=True)
    return context.result_of(refusal, EXPIRY)


def parsed_times(text: str) -> tuple[float, float]:
    """Parse a record: the last trusted time, and the first time of a clock ahead of it, or 0. Raises `ValueError`."""
    seen, ahead = map(float, text.split())
    return seen, ahead


def _checked_clock(
    context: StoreCore, *, accept: bool = False, is_recorded: bool = True
) -> tuple[float, ClockJump | None]:
    """Read and check the clock for a sweep of a store, and record the result.

    Returns the time, and the jump if the clock is not trusted. With `accept`, the clock is always trusted.
    """
    now = context.clock()

    def last_known(found: Snapshot) -> tuple[float, float]:
        try:
            seen, ahead = parsed_times(found.get_record(CLOCK, SEEN) or "")
        except ValueError:  # missing or damaged
            seen, ahead = to_us(context.info.created_at) / 1e6, 0.0
        while True:  # changes up to the first long gap
            newest = newest_at(found, to_datetime(int((seen + MAX_STEP_S) * 1e6) - 1))
            if newest is None or to_us(newest.created_at) / 1e6 <= seen:
                return seen, ahead
            seen = to_us(newest.created_at) / 1e6

    seen, ahead = context.read(last_known)
    is_trusted = accept or now - seen <= MAX_STEP_S or 0 < ahead <= now - CONFIRMED_AFTER_S
    if is_recorded:
        text = f"{now} 0" if is_trusted else f"{seen} {min(ahead or now, now)}"
        context.follow_up(lambda tx: tx.put_record(CLOCK, SEEN, text), may_use_reserve=True)
    jump = ClockJump(to_datetime(int(seen * 1e6)), to_datetime(int(now * 1e6)))
    return now, None if is_trusted else jump


def _pieces(context: StoreCore, position: str, now: float, *, dry_run: bool = False) -> Iterator[tuple[Swept, str]]:
    """Do the pieces from a position on. Yield the result of each, and the position of the next one; empty at the end.

    The position is first the path of a memory, then the id of a version. A piece after one that took too long is
    smaller: how many rows can be removed in a time depends on the size of the store and on its disk. Records of the
    gateway that are too old go first, and proposals that waited too long last.
    """
    while not dry_run and context.read(lambda view: gateway_records.is_expired(view, now)):
        context.follow_up(lambda tx: gateway_records.expire(tx, now), may_use_reserve=True)
    limit = _VERSIONS
    while position:
        started = perf_counter()
        idle, old = list[tuple[Memory, float]](), list[tuple[Version, int]]()
        if position.startswith(ROOT):
            idle, position = _idle(context, position, now, at_once=max(limit * _AT_ONCE // _VERSIONS, 1))
        else:
            old, position = _prunable(context, position, now, limit=limit)
        swept = Swept()
        if idle or old:
            removal, expiry = _removal(idle, old), context.with_options(actor=EXPIRY)
            swept = expiry.peek(removal.dry_run()) if dry_run else context.result_of(removal, EXPIRY)
            size = int(limit * _PIECE_S / max(perf_counter() - started, 1e-6))  # a test may freeze the clock
            limit = min(max(size, limit // 2, _SMALLEST), limit * 2, _VERSIONS)
        yield swept, position
    yield Swept(proposals=_expired_proposals(context, now, dry_run=dry_run)), ""


def _idle(context: StoreCore, start: str, now: float, *, at_once: int) -> tuple[list[tuple[Memory, float]], str]:
    """Find the idle ones of the next memories, each with its idle days. Also return the next position."""

    def read(found: Snapshot) -> tuple[Settings, list[Memory]]:
        settings = context.settings_of(found)
        limit = _MEMORIES if settings.expires else 0
        return settings, [each for each, _ in found.list(ROOT, start=start, limit=limit)]

    (settings, memories), idle = context.read(read), list[tuple[Memory, float]]()
    for memory in memories:
        days, changed = days_allowed(memory.path, settings), to_us(memory.updated_at) / 1e6
        if days and now - changed > days * _DAY_S:
            used = max(changed, context.accesses.latest(context.id, memory.id, now=now))
            idle += [(memory, (now - used) / _DAY_S)] if now - used > days * _DAY_S else []
        if len(idle) == at_once:
            return idle, memory.path + _NEXT
    return idle, memories[-1].path + _NEXT if len(memories) == _MEMORIES else _FIRST_VERSION


def days_allowed(path: str, settings: Settings) -> int:
    """Return the number of days that a memory may be idle; 0 means no limit.

    If patterns in `expire_paths` match the path, the longest of their times applies. Otherwise `expire_after_days`
    applies.
    """
    named = [days for pattern, days in settings.expire_paths.items() if covers((pattern,), path)]
    if not named:
        return settings.expire_after_days
    return 0 if 0 in named else max(named)


def _prunable(context: StoreCore, after: str, now: float, *, limit: int) -> tuple[list[tuple[Version, int]], str]:
    """Find the prunable ones of the next versions, each with the time of the next version of its memory.

    Also return the next position. A version is kept if it was the current version at any time in the last
    `keep_versions_days` days. The store can therefore be read as of any time in these days. A version is also kept if
    it is one of the newest `keep_versions` versions of its memory, or if the memory is read-only. The last known path
    of a deleted memory determines whether it is read-only.
    """

    def read(snapshot: Snapshot) -> tuple[list[tuple[Version, int]], str]:
        settings, old = context.settings_of(snapshot), list[tuple[Version, int]]()
        horizon = (now - settings.keep_versions_days * _DAY_S) * 1e6
        if not settings.keep_versions_days or settings.read_only:
            return old, ""
        found = snapshot.versions(after=after, limit=limit, oldest_first=True)
        page = [version for version in found if to_us(version.created_at) < horizon]
        by_memory = defaultdict[str, list[Version]](list)
        for version in page:
            by_memory[version.memory_id].append(version)
        for memory_id, versions in by_memory.items():
            bound = _bound(snapshot, memory_id, settings)
            for version, newer in zip_longest(versions, versions[1:]):
                if version.id >= bound:
                    break
                if newer is None:
                    selected = snapshot.versions(memory_id=memory_id, after=version.id, limit=1, oldest_first=True)
                    newer = next(selected, None)  # noqa: PLW2901 - the one after the page
                if newer is None or to_us(newer.created_at) < horizon:
                    old.append((version, 0 if newer is None else to_us(newer.created_at)))
        return old, page[-1].id if len(page) == limit else ""

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


def _removal(
    idle: Sequence[tuple[Memory, float]] = (),
    old: Sequence[tuple[Version, int]] = (),
    clock_jump: ClockJump | None = None,
) -> Write[Swept]:
    """Delete the idle memories, except those that changed after the search for them, and prune the old versions.

    Each idle memory comes with its idle days, and each version with the time at which a newer version replaced it.
    Records the time from which the history is complete.
    """
    ids = [version.id for version, _ in old]

    def work(view: Snapshot, guard: Guard) -> Plan[Swept]:
        gone, expired, kept = list[Memory](), list[Expired](), list[Expired]()
        for memory, days in idle:
            if locate(view, memory.path).memory != memory:
                continue
            may_change = guard.may_change(memory.path)
            (expired if may_change else kept).append(Expired(memory.path, memory.id, round(days, 1)))
            gone += [memory] if may_change else []
        forgotten = [
            *(memory.id for memory in gone),
            *(each.memory_id for each, _ in old if each.operation == "deleted"),
        ]
        records: list[tuple[str, str, str | None]] = [(KIND, memory_id, None) for memory_id in forgotten]
        if old:
            until = max(int(view.get_record(HISTORY, PRUNED) or 0), *(until for _, until in old))
            records.append((HISTORY, PRUNED, str(until)))
        result = Swept(tuple(expired), tuple(kept), len(old), clock_jump)
        return Plan(result, guard.delete(view, gone), records=records, prune=ids)

    def facts(swept: Swept) -> Mapping[str, object]:
        named = {"pruned_versions": ids} if ids else {}
        jump = {} if clock_jump is None else {"clock_jump_days": round(clock_jump.days)}
        return {"pruned": swept.versions_pruned, **named, **jump}

    return Write("sweep", work, facts=facts, under_review="skip", only_removes=True)
