"""History and search in a large store: their times, and their cost to a write.

    python benchmarks/large_stores.py [--quick] [--json FILE] [--only NAME ...]

On SQLite and PostgreSQL (started for the run, its commits synced). One memory store has many versions, one beside it a
hundred: writes to both take turns, so that their ratio says what the history costs. A third has many memories of 2 KB,
which are searched: the first search reads them, the others find them ready.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter_ns

import retentive
from candidates import create, edit, memory_text
from figures import (
    Figures,
    Sheet,
    announce,
    duration,
    figures,
    judged,
    parser,
    steps,
    surroundings,
    workplace,
    write_json,
)
from places import checked, places
from retentive import MemoryStore, Retentive
from retentive.storage.contract import Transaction, create_or_update

WORDS = ("memory", "agent", "notes", "plans", "names", "dates", "prices", "doubts", "decisions", "and", "of", "the")
AT_MOST = {"log of one memory": 20.0, "diff": 20.0, "restore of one": 20.0, "search": 50.0}
FEW = 100
_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Size of the stores and number of measurements."""

    versions: int
    memories: int
    calls: int


SCALES = {
    "full": Scale(versions=100_000, memories=10_000, calls=60),
    "quick": Scale(versions=10_000, memories=2_000, calls=20),
    "tiny": Scale(versions=400, memories=50, calls=3),
}


def text_of(number: int, version: int, *, size_bytes: int = 2_048) -> str:
    """Lines of words that differ between memories; some of them differ between versions."""
    draw = random.Random(number)
    lines = [" ".join(draw.choices(WORDS, k=12)) for _ in range(size_bytes // 70)]
    lines[version % len(lines)] = f"state {version} of {number}"
    return "\n".join(lines) + "\n"


def fill(store: MemoryStore, memories: int, versions: int, step: Callable[[str], None]) -> None:
    """Fill a store with `memories` memories and `versions` versions in total."""
    for start in range(0, versions, _BATCH):
        numbers = range(start, min(start + _BATCH, versions))

        def work(tx: Transaction, numbers: range = numbers) -> None:
            for number in numbers:
                path = f"/memories/{number % memories:05}.md"
                data = text_of(number % memories, number // memories).encode()
                tx.record([create_or_update(tx.get(path).memory, path, data)], None)

        store._core.backend.write(store.id, work)
        step("filling")


def timed(call: Callable[[int], object], calls: int) -> Figures:
    """Figures of a call. Its argument is the number of earlier calls."""
    times = []
    for number in range(calls):
        before = perf_counter_ns()
        call(number)
        times.append(perf_counter_ns() - before)
    return figures(times)


def of_history(store: MemoryStore, memories: int, calls: int) -> Iterator[tuple[str, Figures]]:
    """Measure log, diff and restore of one memory."""
    draw = random.Random(1)
    paths = [f"/memories/{draw.randrange(memories):05}.md" for _ in range(calls)]
    logs = [store.history.log(path) for path in paths]
    yield "log of one memory", timed(lambda number: store.history.log(paths[number]), calls)
    yield "diff", timed(lambda number: store.history.diff(logs[number][-1].id, logs[number][0].id), calls)
    yield "restore of one", timed(lambda number: store.history.restore(paths[number], logs[number][-1].id), calls)


def of_search(place: Retentive, store: MemoryStore, calls: int) -> Iterator[tuple[str, Figures]]:
    """Measure searches for two words that occur in most memories, and for rare words."""
    queries = ["memory doubts", "plans -prices", f'"state 0 of {store.usage().memories // 2}"', "nothing of it"]
    fresh = [place.store(store.key) for _ in range(3)]
    yield "first search", timed(lambda number: fresh[number].search(queries[0]), len(fresh))
    store.search(queries[0])
    yield "search", timed(lambda number: store.search(queries[number % len(queries)]), calls)

    def after_a_change(number: int) -> None:
        checked(store, create(f"/memories/new/{number}.md", memory_text(number)))
        store.search(queries[number % len(queries)])

    yield "create and search", timed(after_a_change, calls)
    yield "search, pattern", timed(lambda _: store.search("stat[e] [0-9]+ of 7", regex=True), max(calls // 4, 1))


def of_writes(stores: Sequence[MemoryStore], calls: int) -> list[Figures]:
    """Measure edits of one memory in each store, in turns."""
    path = "/memories/edited.md"
    for store in stores:
        checked(store, create(path, memory_text(1)))
    times: list[list[int]] = [[] for _ in stores]
    for number in range(calls):
        for store, taken in zip(stores, times, strict=True):
            before = perf_counter_ns()
            checked(store, edit(path, number))
            taken.append(perf_counter_ns() - before)
    return [figures(each) for each in times]


def measured(
    name: str, place: Retentive, scale: Scale, step: Callable[[str], None]
) -> Iterator[tuple[tuple[str, ...], dict[str, object]]]:
    """Rows and records of one location."""
    many, few, searched = (place.store(key) for key in ("many", "few", "searched"))
    memories = max(scale.versions // 100, 1)
    fill(many, memories, scale.versions, step)
    fill(few, FEW, FEW, step)
    fill(searched, scale.memories, scale.memories, step)
    found = [*of_history(many, memories, scale.calls), *of_search(place, searched, scale.calls)]
    for what, one in found:
        bar = AT_MOST.get(what)
        row = (name, what, duration(one.median_ms), duration(one.p99_ms), judged(one.median_ms, bar, at_most=True))
        yield row, {"place": name, "what": what, "ratio": None} | asdict(one)
    with_many, with_few = of_writes([many, few], scale.calls * 10)
    ratio = with_many.median_ms / with_few.median_ms
    row = (name, "edit", duration(with_many.median_ms), duration(with_many.p99_ms), judged(ratio, 1.5, at_most=True))
    yield row, {"place": name, "what": "edit", "ratio": ratio} | asdict(with_many)


def main() -> None:
    """Measure, show, and write."""
    options = parser(__doc__)
    options.add_argument("--only", action="append", metavar="NAME", help="only these places")
    chosen = options.parse_args()
    scale = SCALES[chosen.size]
    with workplace(chosen.dir) as folder:
        around = surroundings(folder)
        announce(around)
        rows, records = [], []
        with places(folder, {}, chosen.only or ("sqlite", "postgresql")) as found:
            fillings = sum(-(-count // _BATCH) for count in (scale.versions, FEW, scale.memories))
            with steps(len(found) * fillings, "history") as step:
                for name, url in found.items():
                    with retentive.open(url, max_memories=0) as place:
                        for row, record in measured(name, place, scale, step):
                            rows.append(row)
                            records.append(record)
        title = f"History: {scale.versions:,} versions; search: {scale.memories:,} memories of 2 KB"
        sheet = Sheet(title, ("place", "what", "p50", "p99", "bar (edit: ratio to 100 versions)"), rows, records)
        sheet.show()
        if chosen.json is not None:
            write_json(chosen.json, "large_stores", chosen.size, around, [sheet])


if __name__ == "__main__":
    main()
