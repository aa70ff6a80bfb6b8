"""Maintenance of a location: expiry, retention, orphans in object storage, and pending removals.

A server runs it hourly, in the process that leads. `retentive admin maintain` runs it at once.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from retentive.errors import Conflict, Locked, NotFound, RetentiveError
from retentive.opening import Retentive
from retentive.storage import capabilities
from retentive.store.location_records import LocationRecords

LOG = logging.getLogger("retentive.server.maintenance")
INTERVAL_S = 3_600
RETRY_S = 600
"""Seconds after a failed run until the next one."""
KIND, NAME = "maintenance", "last"


@dataclass(frozen=True, slots=True)
class MaintenanceRun:
    """Outcome of one run, with totals over all memory stores. Times are in seconds since 1970.

    - `stores`: memory stores that were maintained. A store whose key is missing is left out.
    - `failed`: memory stores for which storage failed. `code` is the code of the first error.
    - `waiting`: memory stores that were not swept because the clock of this host jumped.
    - `is_whole`: false if the server stopped before the last memory store.
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
        totals = ("stores", "expired", "pruned", "orphans", "waiting", "failed")
        return self.ending() | {name: getattr(self, name) for name in totals}


def last_run(records: LocationRecords) -> MaintenanceRun | None:
    """Return the outcome of the last run of any process, or None if there was none. Raises `RetentiveError`."""
    text = records.get(KIND, NAME)
    return None if text is None else MaintenanceRun(**json.loads(text))


def maintain(
    opened: Retentive, *, may_go_on: Callable[[], bool] = lambda: True, clock: Callable[[], float] = time.time
) -> MaintenanceRun:
    """Maintain all memory stores, and record the outcome.

    Each step is a transaction of its own, so a run may be interrupted, and two runs at once do no harm. If storage
    fails for one memory store, the others are maintained. Raises `RetentiveError` if the stores cannot be listed or
    the outcome cannot be recorded.
    """
    totals = dict.fromkeys(("stores", "expired", "pruned", "orphans", "waiting", "failed"), 0)
    started_at, code, is_whole = clock(), "", True
    for info in opened.stores():
        if not may_go_on():
            is_whole = False
            break
        try:
            swept = opened.store(info.id).sweep()
            totals["orphans"] += capabilities.collect(opened.backend, info.id)
        except (NotFound, Locked):  # erased meanwhile, or its key is missing
            continue
        except RetentiveError as error:
            totals["failed"] += 1
            code = code or error.code
            continue
        totals["stores"] += 1
        totals["expired"] += len(swept.expired)
        totals["pruned"] += swept.versions_pruned
        totals["waiting"] += swept.clock_jump is not None
    try:
        capabilities.purge(opened.backend)
    except RetentiveError as error:
        code = code or error.code
    run = MaintenanceRun(started_at, clock(), **totals, code=code, is_whole=is_whole)
    with suppress(Conflict):  # another process has just recorded a run
        opened.records.put(KIND, NAME, json.dumps(asdict(run)), expected=opened.records.get(KIND, NAME))
    LOG.log(logging.INFO if run.is_ok else logging.ERROR, "maintenance: %s", json.dumps(run.to_json()))
    return run


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
        wait = self._wait_s()
        if wait <= 0:
            run = maintain(self._opened, may_go_on=may_go_on, clock=self._clock)
            wait = INTERVAL_S if run.is_ok else RETRY_S
        self._next = self._monotonic() + wait

    def _wait_s(self) -> float:
        last = last_run(self._opened.records)
        since = 0.0 if last is None else self._clock() - last.finished_at
        return 0.0 if last is None or since < 0 else (INTERVAL_S if last.is_ok else RETRY_S) - since
