"""Background threads of a server process: they elect the leader and do the work that only the leader does.

The leader is elected among the server processes of a location by compare-and-set on a stored record, which it renews
regularly. Another process takes over if the record has not changed for most of a lease. It measures this time with its
own monotonic clock, so clocks of hosts are never compared. By then, the old leader has stopped leading, because `VALID`
is less than `TAKEN`.

Maintenance of a location: expiry, retention, orphans in object storage, and pending removals. A server runs it hourly,
in the process that leads. `retentive admin maintain` runs it at once.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from threading import Event, Thread

from retentive.engine.core import StoreCore
from retentive.errors import Conflict, Locked, NotFound, RetentiveError
from retentive.opening import Retentive
from retentive.review.proposals import PROPOSAL
from retentive.server.authorization import remove_expired
from retentive.server.deliveries import Deliverer
from retentive.server.dreams import Dreamer, dreams_key
from retentive.server.metrics import sample
from retentive.server.options import ServeOptions
from retentive.storage.contract import Snapshot
from retentive.store import core_of
from retentive.store.location_records import LocationRecords
from retentive.values.records import time_in_id

LOG = logging.getLogger("retentive.server")
INTERVAL_S = 3_600
RETRY_S = 600
"""Seconds after a failed run until the next one."""
RUN_KIND, RUN_NAME = "maintenance", "last"
NEAR = 0.9
"""Part of a limit from which a memory store counts as near it."""
_NAMED = 20
"""Maximum number of ids in the log line about memory stores near a limit."""


@dataclass(slots=True)
class MaintenanceRun:
    """Outcome of one run, with totals over all memory stores. Times are in seconds since 1970.

    - `stores`: memory stores that were maintained. A store whose key is missing is left out.
    - `failed`: memory stores for which storage failed. `code` is the code of the first error.
    - `waiting`: memory stores that were not swept because the clock of this host jumped.
    - `is_whole`: false if the server stopped before the last memory store.
    - `succeeded_at`: end of the last run that succeeded, this one or an earlier one.
    - `near`, `full`: memory stores that use 90 %, and 100 %, of their limit of memories or bytes.
    - `proposals`: proposals that wait for review. The oldest is from `oldest_proposal_at`, or 0.
    """

    started_at: float
    finished_at: float = 0.0
    stores: int = 0
    expired: int = 0
    pruned: int = 0
    orphans: int = 0
    waiting: int = 0
    failed: int = 0
    code: str = ""
    is_whole: bool = True
    succeeded_at: float = 0.0
    near: int = 0
    full: int = 0
    proposals: int = 0
    oldest_proposal_at: float = 0.0

    @property
    def is_ok(self) -> bool:
        """True if the run reached all memory stores and no storage failed."""
        return self.is_whole and not self.failed and not self.code

    def ending(self) -> dict[str, object]:
        """Return when the run ended, and how. Anybody may see it: totals would tell of other workspaces."""
        ended = datetime.fromtimestamp(self.finished_at, UTC).isoformat().replace("+00:00", "Z")
        return {"finished_at": ended, "ok": self.is_ok, "code": self.code}

    def to_json(self) -> dict[str, object]:
        """Return the ending and the totals, for people who run the server."""
        totals = ("stores", "expired", "pruned", "orphans", "waiting", "failed", "near", "full", "proposals")
        return self.ending() | {name: getattr(self, name) for name in totals}


def last_run(records: LocationRecords) -> MaintenanceRun | None:
    """Return the outcome of the last run of any process, or None if there was none. Raises `RetentiveError`."""
    text = records.get(RUN_KIND, RUN_NAME)
    return None if text is None else MaintenanceRun(**json.loads(text))


def maintain(
    opened: Retentive, *, may_go_on: Callable[[], bool] = lambda: True, clock: Callable[[], float] = time.time
) -> MaintenanceRun:
    """Maintain all memory stores, and record the outcome.

    Each step is a transaction of its own, so a run may be interrupted, and two runs at once do no harm. If storage
    fails for one memory store, the others are maintained. Raises `RetentiveError` if the stores cannot be listed or
    the outcome cannot be recorded.
    """
    run, near = MaintenanceRun(clock()), list[str]()
    for info in opened.stores():
        if not may_go_on():
            run.is_whole = False
            break
        try:
            store = opened.store(info.id)
            swept = store.sweep()
            run.orphans += opened.backend.collect(info.id)
            if _look(run, core_of(store)) and len(near) < _NAMED:
                near.append(info.id)
        except (NotFound, Locked):  # erased meanwhile, or its key is missing
            continue
        except RetentiveError as error:
            run.failed += 1
            run.code = run.code or error.code
            continue
        run.stores += 1
        run.expired += len(swept.expired)
        run.pruned += swept.versions_pruned
        run.waiting += swept.clock_jump is not None
    try:
        opened.backend.purge()
    except RetentiveError as error:
        run.code = run.code or error.code
    remove_expired(opened.records, clock())
    run.finished_at, before = clock(), last_run(opened.records)
    run.succeeded_at = run.finished_at if run.is_ok else 0.0 if before is None else before.succeeded_at
    opened.records.put(RUN_KIND, RUN_NAME, json.dumps(asdict(run)))
    LOG.log(logging.INFO if run.is_ok else logging.ERROR, "maintenance: %s", json.dumps(run.to_json()))
    if near:
        LOG.warning("memory stores near a limit: %s", ", ".join(near) + (" ..." if run.near > len(near) else ""))
    return run


def _look(run: MaintenanceRun, core: StoreCore) -> bool:
    """Add the proposals of a memory store and its use of its limits to `run`. Return whether it is near a limit."""

    def look(view: Snapshot) -> tuple[float, list[str]]:
        settings, usage = core.settings_of(view), view.state.usage
        limits = (usage.memories, settings.max_memories), (usage.size_bytes, settings.max_store_bytes)
        return max(held / limit if limit else 0.0 for held, limit in limits), [key for key, _ in view.records(PROPOSAL)]

    use, proposals = core.read(look)
    run.near += use >= NEAR
    run.full += use >= 1
    run.proposals += len(proposals)
    if proposals:  # their ids sort by time
        oldest = (time_in_id(proposals[0]) or 0) / 1_000_000
        run.oldest_proposal_at = min(run.oldest_proposal_at or oldest, oldest)
    return use >= NEAR


class Maintenance:
    """Calls `maintain` when a run is due. Each call of the object is one round of the background work.

    Within a process, time is measured with the monotonic clock. The stored time of the last run delays the next one by
    at most `INTERVAL_S`, and not at all if it is in the future, because then a clock was wrong.
    """

    def __init__(
        self,
        opened: Retentive,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._opened = opened
        self._clock = clock
        self._monotonic = monotonic
        self._next = monotonic()

    def __call__(self, may_go_on: Callable[[], bool]) -> None:
        """Run maintenance if it is due. Raises `RetentiveError`."""
        if self._monotonic() < self._next:
            return
        self._next = self._monotonic() + RETRY_S  # if this round raises
        run = last_run(self._opened.records)
        since = 0.0 if run is None else self._clock() - run.finished_at
        if run is None or since < 0 or since >= _pause_after(run):
            run, since = maintain(self._opened, may_go_on=may_go_on, clock=self._clock), 0.0
        self._next = self._monotonic() + _pause_after(run) - since


def _pause_after(run: MaintenanceRun) -> int:
    return INTERVAL_S if run.is_ok else RETRY_S


KIND, NAME = "leader", "background"
LEASE_S = 30
RENEWED = 0.2
"""Time between two calls of `tick`, as a fraction of the lease.

At each call, the leader renews the record, and the other processes read it.
"""
VALID = 0.6
"""Fraction of the lease for which a process leads, counted from the start of its last renewal."""
TAKEN = 0.75
"""Fraction of the lease after which another process takes over, if the record has not changed."""
Work = Callable[[Callable[[], bool]], None]
"""Function that runs one round of work. It gets a function that returns False when the round must end.

The round must end when this process no longer leads or when the server stops.
"""


class Leader:
    """Represents this process in the election. Call `tick` every `RENEWED * lease_s` seconds."""

    def __init__(
        self, records: LocationRecords, *, lease_s: float = LEASE_S, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._records = records
        self._monotonic = monotonic
        self._holder = uuid.uuid4().hex
        self._beat = 0
        self._seen: str | None = None
        self._seen_at = monotonic()
        self._until = 0.0
        self.lease_s = lease_s

    @property
    def leads(self) -> bool:
        """True if this process leads now, by its own clock."""
        return self._monotonic() < self._until

    def tick(self) -> bool:
        """Renew the lease, or take it if it is free. Return whether this process leads.

        If storage cannot be reached, the leader keeps leading until its lease ends.
        """
        now = self._monotonic()
        with suppress(RetentiveError):
            present = self._records.get(KIND, NAME)
            if present != self._seen:
                self._seen, self._seen_at = present, now
            held_by = "" if present is None else json.loads(present)["holder"]
            if held_by in {"", self._holder} or now - self._seen_at >= TAKEN * self.lease_s:
                self._put(present, self._holder)
                self._seen_at, self._until = now, now + VALID * self.lease_s
            else:
                self._until = 0.0
        return self.leads

    def resign(self) -> None:
        """Release the lease, so that another process can lead at once."""
        self._until = 0.0
        with suppress(RetentiveError):
            present = self._records.get(KIND, NAME)
            if present is not None and json.loads(present)["holder"] == self._holder:
                self._put(present, "")

    def _put(self, present: str | None, holder: str) -> None:
        """Replace the record. Raises `Conflict` if another process has just done so; it leads then."""
        self._beat += 1
        text = json.dumps({"holder": holder, "by": self._holder, "beat": self._beat})
        try:
            self._records.put(KIND, NAME, text, expected=present)
        except Conflict:
            self._until = 0.0
            raise
        self._seen = text


class Background:
    """Threads that call each of `works` again and again, `every_s` seconds apart, while this process is the leader."""

    def __init__(
        self,
        leader: Leader,
        works: Sequence[Work],
        *,
        every_s: float = 1.0,
        on_tick: Callable[[bool], None] = lambda _: None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._leader = leader
        self._every_s = every_s
        self._on_tick = on_tick
        self._on_stop = on_stop
        self._stop = Event()
        self._threads = [Thread(target=self._elect, name="retentive-leader", daemon=True)]
        self._threads += [Thread(target=self._run, args=(work,), name="retentive-work", daemon=True) for work in works]
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Wait for the running rounds to end, then release the lease of the leader."""
        self._stop.set()
        for each in reversed(self._threads):
            each.join()
        self._on_stop()
        self._leader.resign()
        self._on_tick(False)

    def _may_go_on(self) -> bool:
        return self._leader.leads and not self._stop.is_set()

    def _elect(self) -> None:
        while not self._stop.is_set():
            was_leading = self._leader.leads
            if self._leader.tick() != was_leading:
                LOG.info("this process %s the leader", "is now" if self._leader.leads else "is no longer")
            self._on_tick(self._leader.leads)
            self._stop.wait(RENEWED * self._leader.lease_s)

    def _run(self, work: Work) -> None:
        while not self._stop.wait(self._every_s):
            if not self._leader.leads:
                continue
            try:
                work(self._may_go_on)
            except RetentiveError as error:
                LOG.warning("background work failed and is tried again: %s", error.code)
            except Exception:
                LOG.exception("background work failed")


def start(opened: Retentive, options: ServeOptions) -> Background:
    """Start the background work of a server process: webhooks, hourly maintenance and dreams."""
    console = f"{options.public_url}/console" if options.public_url and options.pages else ""
    deliverer = Deliverer(opened, to_private=options.webhooks_to_private, console=console)
    leader = Leader(opened.records, lease_s=options.lease_s)

    def on_tick(leads: bool) -> None:
        sample(opened.backend, leads=leads)

    works: list[Work] = [deliverer, Maintenance(opened)]
    if api_key := dreams_key():
        works.append(Dreamer(opened, api_key, options.gateway_upstream))
    return Background(leader, works, on_tick=on_tick, on_stop=deliverer.close)
