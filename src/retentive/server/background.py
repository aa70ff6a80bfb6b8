"""Background threads of a server process: they elect the leader and do the work that only the leader does.

The leader is elected among the server processes of a location by compare-and-set on a stored record, which it renews
regularly. Another process takes over if the record has not changed for most of a lease. It measures this time with its
own monotonic clock, so clocks of hosts are never compared. By then, the old leader has stopped leading, because `VALID`
is less than `TAKEN`.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Thread

from retentive.errors import Conflict, RetentiveError
from retentive.opening import Retentive
from retentive.server.deliveries import Deliverer
from retentive.server.maintenance import Maintenance
from retentive.server.options import ServeOptions
from retentive.store.location_records import LocationRecords

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
LOG = logging.getLogger("retentive.server")
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
            if held_by == self._holder or not held_by or now - self._seen_at >= TAKEN * self.lease_s:
                self._write(present, self._holder, now)
            else:
                self._until = 0.0
        return self.leads

    def resign(self) -> None:
        """Release the lease, so that another process can lead at once."""
        self._until = 0.0
        with suppress(RetentiveError):
            present = self._records.get(KIND, NAME)
            if present is not None and json.loads(present)["holder"] == self._holder:
                self._write(present, "", self._monotonic())
        self._until = 0.0

    def _write(self, present: str | None, holder: str, now: float) -> None:
        self._beat += 1
        text = json.dumps({"holder": holder, "by": self._holder, "beat": self._beat})
        try:
            self._records.put(KIND, NAME, text, expected=present)
        except Conflict:
            self._until = 0.0
            return
        self._seen, self._seen_at = text, now
        self._until = now + VALID * self.lease_s


class Background:
    """Threads that call each of `works` again and again, `every_s` seconds apart, while this process is the leader."""

    def __init__(
        self, leader: Leader, works: Sequence[Work], *, every_s: float = 1.0, on_stop: Callable[[], None] = lambda: None
    ) -> None:
        self._leader = leader
        self._every_s = every_s
        self._stop = Event()
        self._on_stop = on_stop
        self._threads = [Thread(target=self._elect, name="retentive-leader", daemon=True)]
        self._threads += [Thread(target=self._run, args=(work,), name="retentive-work", daemon=True) for work in works]

    def start(self) -> None:
        """Start the threads."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Wait for the running rounds to end, then release the lease of the leader."""
        self._stop.set()
        for each in reversed(self._threads):
            each.join()
        self._on_stop()
        self._leader.resign()

    def may_go_on(self) -> bool:
        """Return whether this process is still the leader and is not stopping."""
        return self._leader.leads and not self._stop.is_set()

    def _elect(self) -> None:
        while not self._stop.is_set():
            was_leading = self._leader.leads
            if self._leader.tick() != was_leading:
                LOG.info("this process %s the leader", "is now" if self._leader.leads else "is no longer")
            self._stop.wait(RENEWED * self._leader.lease_s)

    def _run(self, work: Work) -> None:
        while not self._stop.wait(self._every_s):
            if not self._leader.leads:
                continue
            try:
                work(self.may_go_on)
            except RetentiveError as error:
                LOG.warning("background work failed and is tried again: %s", error.code)
            except Exception:
                LOG.exception("background work failed")


def start(opened: Retentive, options: ServeOptions) -> Background:
    """Start the background work of a server process: webhooks and hourly maintenance."""
    leader = Leader(opened.records, lease_s=options.lease_s)
    deliverer = Deliverer(opened, to_private=options.webhooks_to_private)
    background = Background(leader, [deliverer, Maintenance(opened)], on_stop=deliverer.close)
    background.start()
    return background
