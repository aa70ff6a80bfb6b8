"""When memories were last viewed: noted coarsely, at most once an hour for each, and written in batches.

Who expires idle memories must know of views, and a view must not become a write. What a process noted in its last
minute is lost if it is killed.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from retentive.errors import RetentiveError, Unavailable
from retentive.storage import forking
from retentive.storage.contract import Backend, Clock, Memory

KIND = "accessed"
EVERY_S = 3_600.0  # what is known of a memory is this old at most
FLUSH_AFTER_S = 60.0
FLUSH_AT = 1_000  # memories
_MAX_KNOWN = 100_000
_A_TIME = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)


class Accesses:
    """The views of one process, of all memory stores of one backend. Threads may share it."""

    def __init__(self, backend: Backend, *, clock: Clock = time.time) -> None:
        self._backend = backend
        self._clock = clock
        self.forget_threads()
        forking.watch(self)
        self._known: dict[str, float] = {}  # memory -> when it was last noted
        self._seen: dict[str, float] = {}  # memory -> when it was last viewed here
        self._waiting: dict[str, dict[str, float]] = {}  # store -> memory -> when it was viewed
        self._read: set[str] = set()  # stores whose records were read once
        self._flushed_at = clock()

    def forget_threads(self) -> None:
        """Replace the lock in a forked child, where the thread that held it does not exist."""
        self._lock = threading.Lock()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Hold still, over a fork."""
        with self._lock:
            yield

    def note(self, store_id: str, memory: Memory) -> None:
        """A memory was viewed now."""
        self._seen[memory.id] = now = self._clock()
        known = now - self._known.get(memory.id, 0.0) < EVERY_S
        if known and not self._waiting:
            return
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

    def flush(self) -> None:
        """Write what waits. What cannot be written is let go: a view does not fail for it."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            self._flushed_at = self._clock()
        for store_id, seen in waiting.items():
            try:
                self._write(store_id, seen)
            except RetentiveError as error:
                import logging  # noqa: PLC0415 - every start would wait for it

                logging.getLogger("retentive").warning("views were not noted: %s", error.code)
                if isinstance(error, Unavailable):  # it would be waited for once for every store
                    return

    def of(self, store_id: str) -> dict[str, float]:
        """When the memories of a store were viewed last, or may have been: seconds since 1970, by memory.

        What this process viewed it knows. Others note at most one view an hour, so theirs count an hour more.
        """
        self.flush()
        now, noted = self._clock(), self._noted(store_id)
        return {key: max(at, self._seen.get(key, min(at + EVERY_S, now))) for key, at in noted.items()}

    def forget(self, store_id: str, memory_ids: Mapping[str, object]) -> None:
        """Remove what is known of memories that are no more."""
        if memory_ids:
            self._backend.put_side_records(store_id, KIND, dict.fromkeys(memory_ids))

    def _noted(self, store_id: str) -> dict[str, float]:
        """What rests of views. What is no time counts as none: no view, and no closing, fails for it."""
        noted = self._backend.side_records(store_id, KIND)
        return {key: float(at) if _A_TIME.fullmatch(at) else 0.0 for key, at in noted}

    def _write(self, store_id: str, seen: dict[str, float]) -> None:
        if store_id not in self._read:  # another process may have noted them within the hour
            kept = self._noted(store_id)
            seen = {key: at for key, at in seen.items() if at - kept.get(key, 0.0) >= EVERY_S}
            with self._lock:
                self._read.add(store_id)
                self._known |= {key: max(at, self._known.get(key, 0.0)) for key, at in kept.items()}
        if seen:
            self._backend.put_side_records(store_id, KIND, {key: f"{at:.0f}" for key, at in seen.items()})
