"""Expiry and retention in an open location, without a server, a thread or a schedule."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from itertools import islice

from retentive.engine.core import StoreCore
from retentive.errors import RetentiveError, StorageReadOnly
from retentive.history.expiry import sweep_of_today

_LOOK_EVERY_S = 3_600.0
PIECES_AT_CLOSE = 20
"""More pieces than a write does. Later openings do the rest."""


class DailySweep:
    """Sweeps one memory store of an open location, at most once a day across all processes. Thread-safe.

    It needs no thread and no schedule: each call does one small piece of the work. A failure is logged and not raised.
    """

    def __init__(self, context: StoreCore) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._looked_at: float | None = None
        self._pieces: Iterator[None] | None = None

    def go_on(self, most: int = 1) -> None:
        """Do some pieces of a sweep. Once an hour, look whether the sweep of today is still to be done."""
        now, last = self._context.clock(), self._looked_at
        if self._pieces is None and last is not None and abs(now - last) < _LOOK_EVERY_S:
            return
        if not self._lock.acquire(blocking=False):  # another thread sweeps, or this is a write of the sweep itself
            return
        try:
            if self._pieces is None:
                self._looked_at = now
                self._pieces = self._begun()
            if sum(1 for _ in islice(self._pieces, most)) < most:
                self._pieces = None
        except StorageReadOnly:  # another process sweeps
            self._pieces = None
        except RetentiveError as error:
            self._pieces = None
            logging.getLogger("retentive").warning("the memory store was not swept: %s", error.code)
        finally:
            self._lock.release()

    def _begun(self) -> Iterator[None]:
        try:
            settings = self._context.settings()
        except RetentiveError:  # the first command raises the same error
            return iter(())
        return sweep_of_today(self._context) if settings.expires or settings.keep_versions_days else iter(())
