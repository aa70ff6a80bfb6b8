"""Location of the simulation: memory stores created in bulk, and the clients that use them."""

from __future__ import annotations

import gc
import os
import statistics
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from time import perf_counter_ns
from typing import TYPE_CHECKING, Self

import retentive
from candidates import memory_text
from retentive.errors import RetentiveError
from retentive.storage.contract import Created
from simulation_clients import Client, Length, Popularity, Slice, path, store_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHUNK = 500  # stores made, and then filled, at a time
FILLING_THREADS = 8
PAGE = 100
PAGES_TIMED = 50


class Place:
    """Opened location with memory stores of memories of 1 KB; encrypted if `keys` is given."""

    def __init__(self, at: str, *, keys: Path | None, clients: int, memories: int) -> None:
        try:
            self.opened = retentive.open(at, create_overwrites=True, keys=keys)
        except RetentiveError as error:
            raise SystemExit(f"the place cannot be opened: {error}") from None
        self.stores = 0
        self._errors: Counter[str] = Counter()
        self._clients = [Client(number, clients=clients, memories=memories) for number in range(clients)]
        self._changes = [Created(path(number), memory_text(number).encode()) for number in range(memories)]
        if self.opened.backend.list_stores(limit=1):
            self.opened.close()
            raise SystemExit("there are memory stores at this place already; the simulation needs an empty one")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.close()

    def grow(self, stores: int, step: Callable[[str], None]) -> float:
        """Add stores up to this number; returns the stores created per second."""
        start, before = perf_counter_ns(), self.stores
        with ThreadPoolExecutor(FILLING_THREADS) as pool:
            for at in range(before, stores, CHUNK):
                made = list(pool.map(self._make, range(at, min(at + CHUNK, stores))))
                list(pool.map(self._fill, made))  # apart from the making, so that writes can share commits
                step(f"fill to {stores:,}")
        self.stores = stores
        return (stores - before) * 1e9 / (perf_counter_ns() - start)

    def _make(self, number: int) -> str:
        return self.opened.backend.create_store(key=store_key(number), name=f"Agent {number}").id

    def _fill(self, store_id: str) -> None:
        self.opened.backend.write(store_id, lambda tx: tx.record(self._changes, None))

    def run(self, popular: Popularity, length: Length) -> Slice:
        """Run all clients concurrently for this length. Unwritten data is flushed first."""
        os.sync()
        gc.collect()
        gc.freeze()  # what the clients know of 100,000 stores is not to be looked through while they are timed
        gate = threading.Barrier(len(self._clients))

        def work(client: Client) -> Slice:
            gate.wait()
            return client.work(self.opened, popular, length)

        together = Slice()
        with ThreadPoolExecutor(len(self._clients)) as pool:
            for one in pool.map(work, self._clients):
                together.add(one)
        self._errors += together.errors
        return together

    def listing_ms(self) -> tuple[float, float]:
        """Median time to list all stores, and to get a page of 100 at a random position."""
        every = [_timed_ms(self.opened.stores) for _ in range(5)]
        ids = [store.id for store in self.opened.stores()]
        starts = Random(self.stores).choices(ids, k=PAGES_TIMED)
        pages = [_timed_ms(partial(self.opened.backend.list_stores, after=after, limit=PAGE)) for after in starts]
        return statistics.median(every), statistics.median(pages)

    def check(self) -> None:
        """Fail the run unless every command succeeded and every acknowledged change is stored."""
        if self._errors:
            raise SystemExit(f"commands that should have succeeded did not: {dict(self._errors)}")
        wrong = [each for client in self._clients for each in client.wrong(self.opened)]
        if wrong:
            raise SystemExit(f"{len(wrong)} memories differ from their expected state, the first is {wrong[0]}")


def _timed_ms(work: Callable[[], object]) -> float:
    start = perf_counter_ns()
    work()
    return (perf_counter_ns() - start) / 1e6
