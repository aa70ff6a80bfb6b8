"""Object storage: concurrent writers of one large memory store, as threads and as processes, and views.

    python benchmarks/objects.py --url 's3://bucket/prefix?endpoint=http://127.0.0.1:9000&allow_http=true' [--json FILE]

Every writer replaces the text (1 KB) of a memory of its own choice in one shared memory store, one after the other, and
counts a write when it returned. At the end every version that was answered must be in the history, or the run fails.
`memory://` measures threads alone. Everything is written below a new prefix of the place and stays there.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING

from figures import Figures, Sheet, announce, duration, figures, judged, parser, rate, surroundings, write_json
from retentive.storage.contract import Change, Snapshot, Transaction
from retentive.storage.objects.backend import open_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from retentive.storage.contract import Backend

BARS = {("write", "processes", 16): 60.0, ("write", "threads", 16): 200.0}  # per second, with 10,000 memories


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Number of memories, length of a measurement and numbers of clients."""

    memories: int
    turn_s: float
    callers: tuple[int, ...]


SCALES = {
    "full": Scale(memories=10_000, turn_s=10.0, callers=(1, 16)),
    "quick": Scale(memories=1_000, turn_s=3.0, callers=(1, 16)),
    "tiny": Scale(memories=20, turn_s=0.1, callers=(2,)),
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Work of all clients of one turn."""

    what: str
    way: str
    callers: int
    found: Figures


def path_of(number: int) -> str:
    """Path of a memory."""
    return f"/memories/topic-{number % 97:02d}/note-{number:05d}.md"


def text_of(number: int) -> bytes:
    """Text of 1 KB."""
    return f"{number} {os.urandom(8).hex()}\n".encode().ljust(1_024, b"x")


def fill(backend: Backend, memories: int) -> str:
    """Memory store filled with the memories."""
    store_id = backend.create_store(key="measured", name="measured").id
    for start in range(0, memories, 500):
        changes = [Change(None, path_of(at), text_of(at)) for at in range(start, min(start + 500, memories))]
        backend.write(store_id, partial(record, changes=changes))
    return store_id


def record(tx: Transaction, changes: Sequence[Change]) -> None:
    """Record the changes of all memories."""
    tx.record(changes, None)


def write(backend: Backend, store_id: str, number: int) -> None:
    """Replace the text of a memory."""

    def work(tx: Transaction) -> None:
        tx.record([Change(tx.get(path_of(number)).memory, path_of(number), text_of(number))], None)

    backend.write(store_id, work)


def view(backend: Backend, store_id: str, number: int) -> None:
    """Read a memory and its text."""

    def work(snapshot: Snapshot) -> None:
        assert snapshot.get(path_of(number)).memory is not None

    backend.read(store_id, work)


CALLS: dict[str, Callable[[Backend, str, int], None]] = {"write": write, "view": view}


def until(call: Callable[[int], None], memories: int, turn_s: float) -> list[int]:
    """Times of calls on random memories until the time is over."""
    times: list[int] = []
    before = perf_counter_ns()
    end = before + int(turn_s * 1e9)
    while before < end:
        call(random.randrange(memories))
        now = perf_counter_ns()
        times.append(now - before)
        before = now
    return times


def by_threads(url: str, store_id: str, what: str, callers: int, scale: Scale) -> list[int]:
    """Times of all threads on one backend."""
    backend = open_objects(url)
    call = partial(CALLS[what], backend, store_id)
    until(call, scale.memories, scale.turn_s / 5)  # fills the caches before the measurement
    gate = threading.Barrier(callers)

    def caller(_: int) -> list[int]:
        gate.wait()
        return until(call, scale.memories, scale.turn_s)

    with ThreadPoolExecutor(callers) as pool:
        times = [one for each in pool.map(caller, range(callers)) for one in each]
    backend.close()
    return times


def _attend(gate: threading.Barrier) -> None:
    _GATE.append(gate)


_GATE: list[threading.Barrier] = []


def process(url: str, store_id: str, what: str, scale: Scale) -> list[int]:
    """Times of one process."""
    backend = open_objects(url)
    call = partial(CALLS[what], backend, store_id)
    call(0)
    _GATE[0].wait()
    times = until(call, scale.memories, scale.turn_s)
    backend.close()
    return times


def by_processes(url: str, store_id: str, what: str, callers: int, scale: Scale) -> list[int]:
    """Times of all processes."""
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(callers)
    with context.Pool(callers, _attend, (gate,)) as pool:
        every = pool.starmap(process, [(url, store_id, what, scale)] * callers, chunksize=1)
    return [one for each in every for one in each]


def measure(url: str, scale: Scale) -> list[Measured]:
    """Run every turn and check that no write was lost."""
    backend = open_objects(url)
    store_id = fill(backend, scale.memories)
    measured: list[Measured] = []
    ways = {"threads": by_threads} if url.startswith("memory:") else {"threads": by_threads, "processes": by_processes}
    answered = 0
    before = revision(backend, store_id)
    for what in CALLS:
        for way, run in ways.items():
            for callers in scale.callers:
                times = run(url, store_id, what, callers, scale)
                answered += len(times) if what == "write" else 0
                found = figures(times, span_ns=int(scale.turn_s * 1e9))
                measured.append(Measured(what=what, way=way, callers=callers, found=found))
    made = revision(backend, store_id) - before
    assert made >= answered, f"{answered - made} writes were answered and are not there"
    assert len(list(backend.read(store_id, lambda found: list(found.versions())))) == scale.memories + made
    backend.close()
    return measured


def revision(backend: Backend, store_id: str) -> int:
    """Number of writes of the store."""
    return backend.read(store_id, lambda snapshot: snapshot.revision)


def sheet(measured: Sequence[Measured], scale: Scale) -> Sheet:
    """The table."""
    rows, records = [], []
    for one in measured:
        bar = BARS.get((one.what, one.way, one.callers)) if scale is SCALES["full"] else None
        found = one.found
        rows.append(
            (
                one.what,
                one.way,
                str(one.callers),
                rate(found.per_second),
                duration(found.median_ms),
                duration(found.p99_ms),
                "" if bar is None else f"{bar:.0f}",
                judged(found.per_second, bar),
            )
        )
        records.append({"bar": bar, "met": judged(found.per_second, bar), **asdict(one)})
    columns = ("what", "by", "callers", "per second", "median", "p99", "bar", "")
    return Sheet(f"One memory store of {scale.memories:,} memories", columns, rows, records)


def main() -> None:
    """Measure, print, write."""
    options = parser(__doc__)
    options.add_argument("--url", required=True, help="where to measure; a new prefix is made below it")
    chosen = options.parse_args()
    scale = SCALES[chosen.size]
    place, question, query = chosen.url.partition("?")
    url = f"{place.rstrip('/')}/benchmark-{os.urandom(6).hex()}{question}{query}"
    around = surroundings(chosen.dir)
    announce(around)
    result = sheet(measure(url, scale), scale)
    result.show()
    if chosen.json is not None:
        write_json(chosen.json, "objects", chosen.size, around, [result])


if __name__ == "__main__":
    main()
