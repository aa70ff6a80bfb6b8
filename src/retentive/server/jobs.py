"""Scheduled jobs: expiry and retention, collection of orphans, audit anchors, and backups.

Only the leader runs them.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

from retentive.errors import Conflict, Locked, NotFound, RetentiveError
from retentive.opening import Retentive
from retentive.server.leader import RENEWED
from retentive.server.schedule import ScheduledJob
from retentive.storage import capabilities
from retentive.storage.contract import StoreInfo
from retentive.store import MemoryStore
from retentive.store.location_records import LocationRecords

LOG = logging.getLogger("retentive.server.jobs")
KIND = "job"
RETRY_S = 600
"""Seconds after which a failed job runs again, unless its schedule is earlier."""
ORPHANS_HOURS = 24
BACKUPS = 30
MayGoOn = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class JobState:
    """Stored state of a job.

    `state` is waiting, running, succeeded or failed. `holder` names the process that runs the job. `beat` increases
    while the job runs.
    """

    name: str
    schedule: str
    state: str
    due_at: str
    holder: str = ""
    beat: int = 0
    started_at: str | None = None
    finished_at: str | None = None
    message: str = ""

    def to_text(self) -> str:
        """Return the state as JSON, in the form in which it is stored."""
        return json.dumps(asdict(self))


def job_states(records: LocationRecords) -> list[JobState]:
    """Return the states of all jobs that servers of this location have scheduled, sorted by name."""
    return [JobState(**json.loads(text)) for _, text in records.list(KIND)]


class Scheduler:
    """Runs the jobs that are due, one after another. Each call runs one round.

    Before a job starts, its record is marked as running by compare-and-set. While the job runs, a thread increases the
    `beat` in the record. Another process may take the job over only if the beat has not changed for the length of a
    lease. The other process measures this time with its own monotonic clock. Therefore, a job never runs in two
    processes at once, even if the process that runs the job is no longer the leader.
    """

    def __init__(
        self,
        opened: Retentive,
        jobs: Sequence[ScheduledJob],
        *,
        holder: str,
        lease_s: float,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._opened = opened
        self._records = opened.records
        self._jobs = jobs
        self._holder = holder
        self._lease_s = lease_s
        self._clock = clock
        self._monotonic = monotonic
        self._seen: dict[str, tuple[str, float]] = {}

    def __call__(self, may_go_on: MayGoOn) -> None:
        """Run the jobs that are due, until `may_go_on` returns False."""
        for job in self._jobs:
            if not may_go_on():
                return
            with suppress(Conflict):  # another process was faster
                begun = self._begun(job)
                if begun is not None:
                    self._run(job, begun, may_go_on)

    def _begun(self, job: ScheduledJob) -> JobState | None:
        """Mark a job as running if it is due, and return its new record.

        Returns None if the job is not due, or if it is already running.
        """
        now, text = self._now(), self._records.get(KIND, job.name)
        if text is None or (known := JobState(**json.loads(text))).schedule != job.schedule:
            first = now if job.at is None else job.due_after(now)
            known = JobState(job.name, job.schedule, "waiting", first.isoformat())
            if text is None or not self._is_alive(job, text):
                self._records.put(KIND, job.name, known.to_text(), expected=text)
                text = known.to_text()
        if self._is_alive(job, text) or (known.state != "running" and now < datetime.fromisoformat(known.due_at)):
            return None
        begun = replace(known, state="running", holder=self._holder, beat=0, started_at=now.isoformat(), message="")
        self._records.put(KIND, job.name, begun.to_text(), expected=text)
        return begun

    def _is_alive(self, job: ScheduledJob, text: str) -> bool:
        """Return whether a process runs the job: its record is marked as running and has changed within one lease."""
        if json.loads(text)["state"] != "running":
            return False
        seen, at = self._seen.get(job.name, ("", 0.0))
        if seen != text:
            at = self._monotonic()
            self._seen[job.name] = text, at
        return self._monotonic() - at < self._lease_s

    def _run(self, job: ScheduledJob, begun: JobState, may_go_on: MayGoOn) -> None:
        LOG.info("job %s begins", job.name)
        with self._beating(begun) as current:
            try:
                message = WORK[job.name](self._opened, job, lambda: may_go_on() and current() is not None)
                state = "succeeded" if may_go_on() else "failed"
                message = message if may_go_on() else f"interrupted: {message}"
            except (RetentiveError, OSError) as error:
                state, message = "failed", error.code if isinstance(error, RetentiveError) else type(error).__name__
            except Exception:
                LOG.exception("job %s failed", job.name)
                state, message = "failed", "error"
        present, now = current(), self._now()
        due = job.due_after(now if job.at is not None else datetime.fromisoformat(begun.started_at or ""))
        if state == "failed":
            due = min(due, now + timedelta(seconds=RETRY_S)) if may_go_on() else now
        LOG.log(logging.INFO if state == "succeeded" else logging.ERROR, "job %s %s: %s", job.name, state, message)
        if present is not None:
            done = replace(present, state=state, finished_at=now.isoformat(), due_at=due.isoformat(), message=message)
            self._records.put(KIND, job.name, done.to_text(), expected=present.to_text())

    @contextmanager
    def _beating(self, begun: JobState) -> Iterator[Callable[[], JobState | None]]:
        """Increase the beat in the record of a job until the block ends.

        Yields a function. It returns the current record, or None after another process has taken over the job.
        """
        ended, present = Event(), [begun]

        def beat() -> None:
            while not ended.wait(RENEWED * self._lease_s) and present:
                after = replace(present[0], beat=present[0].beat + 1)
                try:
                    self._records.put(KIND, begun.name, after.to_text(), expected=present[0].to_text())
                    present[0] = after
                except Conflict:
                    present.clear()
                except RetentiveError:
                    continue  # the storage is unreachable; the next beat tries again

        thread = Thread(target=beat, name="retentive-job", daemon=True)
        thread.start()
        try:
            yield lambda: present[0] if present else None
        finally:
            ended.set()
            thread.join()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def _stores(opened: Retentive, may_go_on: MayGoOn) -> Iterator[tuple[StoreInfo, MemoryStore]]:
    """Yield each memory store that can be opened. Stop when the job must end."""
    for info in opened.stores():
        if not may_go_on():
            return
        with suppress(NotFound, Locked):
            yield info, opened.store(info.id)


def _sweep(opened: Retentive, job: ScheduledJob, may_go_on: MayGoOn) -> str:
    """Delete expired memories and old versions."""
    stores = expired = pruned = jumps = 0
    for _, store in _stores(opened, may_go_on):
        swept = store.sweep()
        stores, expired, pruned = stores + 1, expired + len(swept.expired), pruned + swept.versions_pruned
        jumps += swept.clock_jump is not None
    waiting = f"; {jumps} memory stores skipped because the clock jumped" if jumps else ""
    return f"{stores} memory stores: {expired} memories expired, {pruned} versions removed{waiting}"


def _collect(opened: Retentive, job: ScheduledJob, may_go_on: MayGoOn) -> str:
    """Delete orphans from object storage. An orphan is an object that nothing refers to."""
    older_than_s = float(job.fields.get("older_than_hours", ORPHANS_HOURS)) * 3_600
    stores = deleted = 0
    for info, _ in _stores(opened, may_go_on):
        deleted += capabilities.collect(opened.backend, info.id, older_than_s=older_than_s)
        stores += 1
    return f"{stores} memory stores: {deleted} objects deleted"


def _anchor(opened: Retentive, job: ScheduledJob, may_go_on: MayGoOn) -> str:
    """Append an anchor of each audit log to a file. Each memory store with an audit log has its own file."""
    anchored = unchanged = 0
    for info, store in _stores(opened, may_go_on):
        if store.settings().audit:
            file = Path(str(job.fields["directory"])) / f"{info.id}.anchors"
            made = store.audit.anchor(str(file), str(job.fields["key"]))
            anchored, unchanged = anchored + (made is not None), unchanged + (made is None)
    return f"{anchored} audit logs anchored, {unchanged} unchanged"


def _back_up(opened: Retentive, job: ScheduledJob, may_go_on: MayGoOn) -> str:
    """Back up all memory stores to a new file, then delete all but the newest backup files."""
    from retentive.transfer.export import back_up  # noqa: PLC0415 - slow to import

    directory = Path(str(job.fields["directory"]))
    name = f"retentive-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}.tar.gz"
    done = back_up(opened.backend, str(directory / name))
    old = sorted(directory.glob("retentive-*Z.tar.gz"))[: -int(job.fields.get("keep", BACKUPS))]
    for each in old:
        each.unlink(missing_ok=True)
    return f"{len(done)} memory stores backed up to {name}, {len(old)} old backups removed"


WORK: Mapping[str, Callable[[Retentive, ScheduledJob, MayGoOn], str]] = {
    "sweep": _sweep,
    "collect": _collect,
    "anchor": _anchor,
    "backup": _back_up,
}
