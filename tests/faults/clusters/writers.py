"""Threads that edit one memory store until they are stopped, while nodes of a cluster fail."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import retentive
from support.network_load import Load, judge, prepare
from support.waiting import until

WORKERS = 6
COUNT = 2_000  # edits of a worker that nothing stops
PACE_S = 0.02  # pause between two edits: in an outage, a steady rate shows more than a flood
BACK_S = 30.0  # limit from the recovery of the cluster to 20 acknowledged edits of every client
EDITS = 20


@contextmanager
def writing(places: list[str], name: str) -> Iterator[Load]:
    """Run `WORKERS` clients, which use the URLs in turn, while the body runs. Then read the edits through each URL."""
    load, stop = Load([], WORKERS, COUNT, name=name), threading.Event()
    load.go_on = lambda: not stop.wait(PACE_S)
    prepare(places[0], load)
    with ExitStack() as stack:
        load.opened = [stack.enter_context(retentive.open(places[each % len(places)])) for each in range(WORKERS)]
        running = threading.Thread(target=load.run, kwargs={"deadline_s": 600.0})
        running.start()
        try:
            wait_for_edits(load)
            yield load
        finally:
            stop.set()
            running.join()
    for place in places:
        assert judge(place, load)[:20] == []


def wait_for_edits(load: Load) -> None:
    """Wait until every worker has 20 acknowledged edits that began after this call."""
    since = time.monotonic()

    def done() -> bool:
        found = [each for each in load.outcomes if each.code is None and each.began >= since]
        edits = Counter(each.token.split("-")[-2] for each in found)
        return len(edits) == load.workers and min(edits.values()) >= EDITS

    until(done, pause_s=0.2)


def continue_after(recovery: Callable[[], bool], load: Load) -> None:
    """Wait until the cluster itself works again, and fail if the clients do not follow soon."""
    until(recovery, pause_s=0.2)
    back = time.monotonic()
    wait_for_edits(load)
    assert time.monotonic() - back < BACK_S, load.codes
