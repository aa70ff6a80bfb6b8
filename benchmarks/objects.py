"""Object storage: concurrent writers of one large memory store, as threads and as processes, and views.

    python benchmarks/objects.py --url 's3://bucket/prefix?endpoint=http://127.0.0.1:9000&allow_http=true' [--json FILE]

Every writer replaces the text (1 KB) of a memory of its own choice in one shared memory store, one after the other, and
counts a write when it returned. At the end every version that was answered must be in the history, or the run fails.
`memory://` measures threads alone. Everything is written below a new prefix of the place and stays there.

The floor is the gateway's: plain puts of 1 KB, and replacements of one object of 10 KB, one after the other. `requests`
are those of all kinds for each write or view. `lost` are the replacements of the manifest in vain, since another writer
was faster, for each one that took place.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, TypeAlias

from figures import Figures, Sheet, announce, duration, figures, judged, parser, rate, surroundings, write_json
from retentive.storage.contract import Change, Created, Snapshot, Transaction, create_or_update
from retentive.storage.objects.backend import ObjectsBackend, open_objects
from retentive.storage.objects.requests import Taken, Unsure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from retentive.storage.contract import Backend

BARS = {("write", "processes", 16): 100.0, ("write", "threads", 16): 300.0}  # per second, with 10,000 memories
MOST_P99_MS = {("write", "processes", 16): 1_000.0}
REQUESTS = ("get_unless", "get_range", "put", "replace", "delete")
Turn: TypeAlias = tuple[list[int], Counter[str]]


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
    requests: Counter[str]

    @property
    def each(self) -> float:
        """Requests for each call."""
        return sum(self.requests[name] for name in REQUESTS) / max(self.found.calls, 1)

    @property
    def lost(self) -> float:
        """Replacements in vain for each one that took place."""
        return self.requests["lost"] / max(self.requests["replace"] - self.requests["lost"], 1)


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
        changes = [Created(path_of(at), text_of(at)) for at in range(start, min(start + 500, memories))]
        backend.write(store_id, partial(record, changes=changes))
    return store_id


def record(tx: Transaction, changes: Sequence[Change]) -> None:
    """Record the changes of all memories."""
    tx.record(changes, None)


def write(backend: Backend, store_id: str, number: int) -> None:
    """Replace the text of a memory. As in a command, the text is there before the transaction, which may run again."""
    text = text_of(number)

    def work(tx: Transaction) -> None:
        tx.record([create_or_update(tx.get(path_of(number)).memory, path_of(number), text)], None)

    backend.write(store_id, work)


def view(backend: Backend, store_id: str, number: int) -> None:
    """Read a memory and its text."""

    def work(snapshot: Snapshot) -> None:
        assert snapshot.get(path_of(number)).memory is not None

    backend.read(store_id, work)


CALLS: dict[str, Callable[[Backend, str, int], None]] = {"write": write, "view": view}


def counted(backend: ObjectsBackend) -> Counter[str]:
    """Counter of the requests that a backend sends from now on."""
    counts: Counter[str] = Counter()
    lock = threading.Lock()

    def counting(name: str, send: Callable[..., object]) -> Callable[..., object]:
        def sent(*args: object, **more: object) -> object:
            with lock:
                counts[name] += 1
            try:
                return send(*args, **more)
            except (Taken, Unsure):
                with lock:
                    counts["lost"] += name == "replace"
                raise

        return sent

    for name in REQUESTS:
        setattr(backend._requests, name, counting(name, getattr(backend._requests, name)))
    return counts


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


def by_threads(url: str, store_id: str, what: str, callers: int, scale: Scale) -> Turn:
    """Times and requests of all threads on one backend."""
    backend = open_objects(url)
    call = partial(CALLS[what], backend, store_id)
    until(call, scale.memories, scale.turn_s / 5)  # fills the caches before the measurement
    gate, counts = threading.Barrier(callers), counted(backend)

    def caller(_: int) -> list[int]:
        gate.wait()
        return until(call, scale.memories, scale.turn_s)

    with ThreadPoolExecutor(callers) as pool:
        times = [one for each in pool.map(caller, range(callers)) for one in each]
    backend.close()
    return times, counts


def _attend(gate: threading.Barrier) -> None:
    _GATE.append(gate)


_GATE: list[threading.Barrier] = []


def process(url: str, store_id: str, what: str, scale: Scale) -> Turn:
    """Times and requests of one process."""
    backend = open_objects(url)
    call = partial(CALLS[what], backend, store_id)
    call(0)
    counts = counted(backend)
    _GATE[0].wait()
    times = until(call, scale.memories, scale.turn_s)
    backend.close()
    return times, counts


def by_processes(url: str, store_id: str, what: str, callers: int, scale: Scale) -> Turn:
    """Times and requests of all processes."""
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(callers)
    with context.Pool(callers, _attend, (gate,)) as pool:
        every = pool.starmap(process, [(url, store_id, what, scale)] * callers, chunksize=1)
    return [one for times, _ in every for one in times], sum((counts for _, counts in every), Counter[str]())


def floor(url: str, scale: Scale) -> list[Measured]:
    """Plain requests through the same client: new objects of 1 KB, and one object of 10 KB that is replaced."""
    requests = open_objects(url)._requests
    small, large = os.urandom(1_024), os.urandom(10_240)
    tag = requests.replace("floor/one", large, None)

    def put(_: int) -> None:
        requests.put(f"floor/{os.urandom(8).hex()}", small)

    def swap(_: int) -> None:
        nonlocal tag
        tag = requests.replace("floor/one", large, tag)

    measured = []
    for what, call, callers in (("put", put, 1), ("put", put, 16), ("swap", swap, 1)):
        with ThreadPoolExecutor(callers) as pool:
            turns = pool.map(lambda _, call=call: until(call, 1, scale.turn_s / 5), range(callers))
            times = [one for each in turns for one in each]
        found = figures(times, span_ns=int(scale.turn_s / 5 * 1e9))
        measured.append(
            Measured(what=what, way="floor", callers=callers, found=found, requests=Counter(put=len(times)))
        )
    return measured


def requests_of_views(url: str, store_id: str, scale: Scale) -> tuple[float, float]:
    """Median number of requests of a first view of a memory and of a second one, after a hundred others."""
    backend = open_objects(url)
    counts = counted(backend)
    sent: tuple[list[int], list[int]] = ([], [])
    for number in range(150):
        memory = random.randrange(scale.memories)
        for numbers in sent:
            before = counts.total()
            view(backend, store_id, memory)
            if number >= min(100, scale.memories // 2):
                numbers.append(counts.total() - before)
    backend.close()
    return median(sent[0]), median(sent[1])


def measure(url: str, scale: Scale, backend: Backend, store_id: str) -> list[Measured]:
    """Run every turn and check that no write was lost."""
    measured = floor(url, scale)
    ways = {"threads": by_threads} if url.startswith("memory:") else {"threads": by_threads, "processes": by_processes}
    answered = 0
    before = revision(backend, store_id)
    for what in CALLS:
        for way, run in ways.items():
            for callers in scale.callers:
                times, requests = run(url, store_id, what, callers, scale)
                answered += len(times) if what == "write" else 0
                found = figures(times, span_ns=int(scale.turn_s * 1e9))
                measured.append(Measured(what=what, way=way, callers=callers, found=found, requests=requests))
    made = revision(backend, store_id) - before
    assert made >= answered, f"{answered - made} writes were answered and are not there"
    assert len(list(backend.read(store_id, lambda found: list(found.versions())))) == scale.memories + made
    return measured


def revision(backend: Backend, store_id: str) -> int:
    """Number of writes of the store."""
    return backend.read(store_id, lambda snapshot: snapshot.state.revision)


def sheet(measured: Sequence[Measured], scale: Scale) -> Sheet:
    """The table."""
    rows, records = [], []
    for one in measured:
        key = (one.what, one.way, one.callers)
        bar, most = (bars.get(key) if scale is SCALES["full"] else None for bars in (BARS, MOST_P99_MS))
        found = one.found
        rows.append(
            (
                one.what,
                one.way,
                str(one.callers),
                rate(found.per_second),
                duration(found.median_ms),
                f"{duration(found.p99_ms)} {judged(found.p99_ms, most, at_most=True)}".strip(),
                f"{one.each:.2f}",
                f"{one.lost:.2f}" if one.what == "write" else "",
                "" if bar is None else f"{bar:.0f}",
                judged(found.per_second, bar),
            )
        )
        known = {"what": one.what, "way": one.way, "callers": one.callers, "found": asdict(found)}
        known |= {"requests": dict(one.requests), "each": one.each, "lost": one.lost}
        records.append({"bar": bar, "met": judged(found.per_second, bar), **known})
    columns = ("what", "by", "callers", "per second", "median", "p99", "requests", "lost", "bar", "")
    return Sheet(f"One memory store of {scale.memories:,} memories", columns, rows, records)


def sheet_of_views(first: float, second: float, scale: Scale) -> Sheet:
    """The table of the requests of one view after the other."""
    rows, records = [], []
    for name, found, bar in (("first view of a memory", first, 2.0), ("second view", second, 1.0)):
        most = bar if scale is SCALES["full"] else None
        rows.append((name, f"{found:.0f}", "" if most is None else f"{most:.0f}", judged(found, most, at_most=True)))
        records.append({"what": name, "requests": found, "bar": most})
    return Sheet("Requests, one after the other, median", ("what", "requests", "at most", ""), rows, records)


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
    backend = open_objects(url)
    store_id = fill(backend, scale.memories)
    sheets = [sheet_of_views(*requests_of_views(url, store_id, scale), scale)]
    sheets = [sheet(measure(url, scale, backend, store_id), scale), *sheets]
    backend.close()
    for one in sheets:
        one.show()
    if chosen.json is not None:
        write_json(chosen.json, "objects", chosen.size, around, sheets)


if __name__ == "__main__":
    main()
