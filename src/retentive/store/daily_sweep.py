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
_PIECES_AT_CLOSE = 20


class DailySweep:
    """Sweeps one memory store of an open location, at most once a day across all processes. Thread-safe.

    It needs no thread and no schedule: each call does one small piece of the work. A failure is logged and not raised.
    """

    def __init__(self, context: StoreCore) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._looked_at = 0.0
        self._pieces: Iterator[None] | None = None

    def at_opening(self) -> None:
        """Begin the sweep of today, unless a process has begun it."""
        self._go_on(1)

    def after_write(self) -> None:
        """Go on with a sweep. Once an hour, look whether the sweep of today is still to be done."""
        if self._is_due():
            self._go_on(1)

    def at_close(self) -> None:
        """Do more pieces than a write would. Later openings do the rest."""
        if self._is_due():
            self._go_on(_PIECES_AT_CLOSE)

    def _is_due(self) -> bool:
        return self._pieces is not None or abs(self._context.clock() - self._looked_at) >= _LOOK_EVERY_S

    def _go_on(self, most: int) -> None:
        if not self._lock.acquire(blocking=False):  # another thread sweeps, or this is a write of the sweep itself
            return
        try:
            if self._pieces is None:
                self._looked_at = self._context.clock()
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
