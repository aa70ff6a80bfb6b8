"""One leader among the processes that serve a location, elected by compare-and-set on a record of the location.

The clocks of hosts are never compared. The leader renews the record. Another process takes over when it has seen the
record unchanged for most of a lease, by its own monotonic clock. The old leader has stopped leading before that.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from contextlib import suppress

from retentive.errors import Conflict, RetentiveError
from retentive.store.location_records import LocationRecords

KIND, NAME = "leader", "background"
LEASE_S = 30
RENEWED = 0.2
"""Interval, as a fraction of the lease, at which the leader renews the record and the others read it."""
VALID = 0.6
"""Fraction of the lease for which a process leads after it began its last renewal."""
TAKEN = 0.75
"""Fraction of the lease after which another process takes over a record that has not changed."""


class Leader:
    """Membership of a process in the election. `tick` must be called every `RENEWED * lease_s` seconds."""

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
        """Return whether this process leads now, by its own clock."""
        return self._monotonic() < self._until

    @property
    def holder(self) -> str:
        """Name of this process in the record."""
        return self._holder

    def tick(self) -> bool:
        """Renew the lease, or take it if it is free; return whether this process leads.

        While the storage is unreachable, a leader leads until its lease ends.
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
        """Give up the lease, so that another process can lead at once."""
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
