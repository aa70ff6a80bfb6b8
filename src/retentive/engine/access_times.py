"""Access times of memories, used for expiry.

The times of views are recorded in batches, and at most once an hour for each memory. This avoids a write for each view.
A view never waits for a writer: if the storage is locked, the times are recorded by a later view. If a process is
killed, the views that it has not recorded are lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from retentive.errors import Closed, RetentiveError, StorageReadOnly, Unavailable
from retentive.storage import forking
from retentive.storage.backoff import wait_until
from retentive.storage.contract import Backend, Clock, Memory, Transaction

KIND = "accessed"
EVERY_S = 3_600.0  # recorded times may be this much older than the last view
FLUSH_AFTER_S = 60.0
FLUSH_AT = 1_000  # memories
_MAX_SECONDS = 1e12
_CLOSE_S = 1.0
_MAX_KNOWN = 100_000


class Accesses:
    """Collects the times of views by this process, for all stores of one backend. Threads may share the object."""

    def __init__(self, backend: Backend, *, clock: Clock = time.time) -> None:
        self._backend = backend
        self._clock = clock
        self.renew_after_fork()
        forking.watch(self)
        self._known: dict[str, float] = {}  # memory id -> time last recorded
        self._seen: dict[str, float] = {}  # memory id -> time last viewed by this process
        self._waiting: dict[str, dict[str, float]] = {}  # store id -> memory id -> time of the view to record
        self._flushed_at = clock()

    def renew_after_fork(self) -> None:
        """Replace the lock in a forked child, where the thread that acquired the old lock does not exist."""
        self._lock = threading.Lock()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Hold the lock during a fork, so that no thread changes this object meanwhile."""
        with self._lock:
            yield

    def note(self, store_id: str, memory: Memory) -> None:
        """Remember that `memory` was viewed now. The time may be written to storage later."""
        self._seen[memory.id] = now = self._clock()
        known = now - self._known.get(memory.id, 0.0) < EVERY_S
        if known and (not self._waiting or now - self._flushed_at < FLUSH_AFTER_S):
            return  # nothing to add, and nothing to write yet
        with self._lock:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
                self._seen.clear()
            if not known:
                self._known[memory.id] = now
                self._waiting.setdefault(store_id, {})[memory.id] = now
            due = now - self._flushed_at >= FLUSH_AFTER_S or sum(map(len, self._waiting.values())) >= FLUSH_AT
        if due:
            self.flush()

    def flush(self) -> bool:
        """Write the pending view times to storage, without waiting for a lock.

        Returns False if some are still pending, because the storage is locked. If a write fails for another reason,
        drops its times, because a view must never fail.
        """
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            self._flushed_at = self._clock()
        for store_id, seen in waiting.items():
            try:
                kept = self._backend.write(store_id, partial(_record, seen=seen), wait=False)
                self._known |= kept
            except StorageReadOnly:  # nothing else was to be expected
                continue
            except RetentiveError as error:
                if isinstance(error, Unavailable) and not isinstance(error, Closed):
                    with self._lock:
                        self._waiting[store_id] = seen | self._waiting.get(store_id, {})
                else:
                    logging.getLogger("retentive").warning("view times were not recorded: %s", error.code)
        return not self._waiting

    def close(self) -> None:
        """Write the pending view times before the end of the process or the location. Waits at most a second."""
        with suppress(RetentiveError):
            wait_until(self.flush, "the storage is locked", deadline=time.monotonic() + _CLOSE_S)
        self._waiting = {}

    def of(self, store_id: str) -> dict[str, float]:
        """Return the latest time at which each memory may have been viewed, in seconds since 1970. Keys are memory ids.

        Times of views by this process are exact. Other processes record a view at most once an hour, so an hour is
        added to the times that they recorded. The sum is at most the current time in this process.
        """
        self.flush()
        noted = self._backend.read(store_id, lambda snapshot: dict(snapshot.records(KIND)))
        now, waiting = self._clock(), self._waiting.get(store_id, {})
        recorded = {key: _seconds(at) for key, at in noted.items()} | waiting
        return {key: self._latest(key, at, now) for key, at in recorded.items()}

    def latest(self, store_id: str, memory_id: str, *, now: float) -> float:
        """Return the latest time at which one memory may have been viewed, as `of` does. 0.0 if it never was."""
        at = self._waiting.get(store_id, {}).get(memory_id) or self.recorded(store_id, memory_id)
        return 0.0 if at is None else self._latest(memory_id, at, now)

    def _latest(self, memory_id: str, recorded: float, now: float) -> float:
        return max(recorded, self._seen.get(memory_id, min(recorded + EVERY_S, now)))

    def recorded(self, store_id: str, memory_id: str) -> float | None:
        """Return the recorded time of the last view of a memory, in seconds since 1970. None if no view is recorded.

        The last view may be later: views are recorded with a delay of about a minute, and at most once an hour.
        """
        found = self._backend.read(store_id, lambda snapshot: snapshot.get_record(KIND, memory_id))
        return None if found is None else _seconds(found)


def _record(tx: Transaction, seen: dict[str, float]) -> dict[str, float]:
    """Record views. Return the recorded times of the memories of which a process recorded a view within the hour."""
    kept = dict[str, float]()
    for memory_id, at in seen.items():
        if tx.find(memory_id) is None:  # deleted since; a removal must not leave its id behind
            continue
        text = tx.get_record(KIND, memory_id)
        if text is not None and at - _seconds(text) < EVERY_S:
            kept[memory_id] = _seconds(text)
        else:
            tx.put_record(KIND, memory_id, f"{at:.0f}")
    return kept


def _seconds(text: str) -> float:
    """Return a recorded time, or 0.0 for a text that is none: a view must never fail."""
    try:
        at = float(text)
    except ValueError:
        return 0.0
    return at if 0 <= at < _MAX_SECONDS else 0.0
