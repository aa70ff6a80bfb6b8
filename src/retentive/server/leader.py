"""Elects one leader among the server processes of a location, by compare-and-set on a stored record.

The leader renews the record regularly. Another process takes over if the record has not changed for most of a lease.
The other process measures this time with its own monotonic clock, so clocks of hosts are never compared. When another
process takes over, the old leader has already stopped leading, because `VALID` is less than `TAKEN`.
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
"""Time between two calls of `tick`, as a fraction of the lease.

At each call, the leader renews the record, and the other processes read it.
"""
VALID = 0.6
"""Fraction of the lease for which a process leads, counted from the start of its last renewal."""
TAKEN = 0.75
"""Fraction of the lease after which another process takes over, if the record has not changed."""


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
