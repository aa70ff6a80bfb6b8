"""Background threads of a server process: they elect the leader and do the work that only the leader does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Event, Thread

from retentive.errors import RetentiveError
from retentive.opening import Retentive
from retentive.server.deliveries import Deliverer
from retentive.server.leader import RENEWED, Leader
from retentive.server.maintenance import Maintenance
from retentive.server.options import ServeOptions

LOG = logging.getLogger("retentive.server")
Work = Callable[[Callable[[], bool]], None]
"""Function that runs one round of work. It gets a function that returns False when the round must end.

The round must end when this process no longer leads or when the server stops.
"""


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
