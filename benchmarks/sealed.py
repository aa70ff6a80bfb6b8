"""Cost of encryption: edits and views of memories of 1 KB on SQLite, plain and encrypted.

    python benchmarks/sealed.py [--quick] [--json FILE]

The kinds take turns in slices, in rotating order, so that other load on the machine affects all of them. The cost
is the median ratio of consecutive slices.
"""

from __future__ import annotations

import gc
import statistics
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING

import retentive
from candidates import create, edit, memory_text
from figures import Sheet, announce, duration, judged, own_folder, parser, steps, surroundings, workplace, write_json
from retentive.storage.sealed.keys import KeyRing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from retentive import MemoryStore

KINDS = ("bare", "sealed")
BAR = 1.15  # what a sealed edit may take of the time of a bare one


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Size of a run: memories in each store, rounds, and calls in a slice."""

    memories: int
    rounds: int
    calls: int


SCALES = {
    "full": Scale(memories=200, rounds=120, calls=20),
    "quick": Scale(memories=100, rounds=40, calls=10),
    "tiny": Scale(memories=5, rounds=2, calls=2),
}


def opened(kind: str, folder: Path, stack: ExitStack) -> MemoryStore:
    """Store of one kind in its own folder."""
    place = f"sqlite:///{folder.resolve()}/memory.db"
    keys = None if kind == "bare" else KeyRing.new()
    return stack.enter_context(retentive.open(place, keys=keys)).store()


def path_of(number: int) -> str:
    """Path of a memory."""
    return f"/memories/customers/{number:04d}.md"


class Workload:
    """Calls made by each kind in the same order."""

    def __init__(self, store: MemoryStore, memories: int) -> None:
        self._store = store
        self._memories = memories
        self._edits = [0] * memories
        self._at = 0
        for number in range(memories):
            self._done(create(path_of(number), memory_text(number)))

    def edit(self) -> None:
        """Edit the next memory."""
        number = self._next()
        self._done(edit(path_of(number), self._edits[number]))
        self._edits[number] += 1

    def view(self) -> None:
        """View the next memory."""
        self._done({"command": "view", "path": path_of(self._next())})

    def listing(self) -> None:
        """View the root directory."""
        self._done({"command": "view", "path": "/memories"})

    def _next(self) -> int:
        self._at = (self._at + 1) % self._memories
        return self._at

    def _done(self, command: dict[str, object]) -> None:
        reply = self._store.execute(command)
        if reply.is_error:
            raise SystemExit(f"refused: {reply.text}")


CASES: dict[str, Callable[[Workload], None]] = {
    "edit": Workload.edit,
    "view": Workload.view,
    "list": Workload.listing,
}


def slices(
    work: dict[str, Workload], call: Callable[[Workload], None], scale: Scale, step: Callable[[str], None]
) -> dict[str, list[float]]:
    """Time of a call in each slice, in milliseconds, by kind."""
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(scale.rounds + 1):
        for turn in range(len(KINDS)):
            kind = KINDS[(number + turn) % len(KINDS)]
            gc.collect()
            begin = perf_counter_ns()
            for _ in range(scale.calls):
                call(work[kind])
            if number:  # the first round warms up
                times[kind].append((perf_counter_ns() - begin) / scale.calls / 1e6)
        step(f"round {number}")
    return times


@dataclass(frozen=True, kw_only=True)
class Record:
    """Result of one case and kind."""

    case: str
    kind: str
    calls: int
    median_ms: float
    cost: float | None
    bar: float | None


def measure(scale: Scale, place: Path) -> list[Record]:
    """Measure all cases of all kinds."""
    records: list[Record] = []
    with ExitStack() as stack:
        work = {kind: Workload(opened(kind, own_folder(place, kind), stack), scale.memories) for kind in KINDS}
        step = stack.enter_context(steps(len(CASES) * (scale.rounds + 1), "sealed"))
        for case, call in CASES.items():
            times = slices(work, call, scale, step)
            for kind in KINDS:
                pairs = zip(times[kind], times["bare"], strict=True)
                records.append(
                    Record(
                        case=case,
                        kind=kind,
                        calls=scale.rounds * scale.calls,
                        median_ms=statistics.median(times[kind]),
                        cost=None if kind == "bare" else statistics.median(one / bare for one, bare in pairs),
                        bar=BAR if (case, kind) == ("edit", "sealed") else None,
                    )
                )
    return records


def sheet(records: list[Record]) -> Sheet:
    """Table of all results."""
    rows = [
        (
            one.case,
            one.kind,
            duration(one.median_ms),
            "" if one.cost is None else f"{one.cost:.2f}",
            "" if one.bar is None else f"{one.bar:.2f}",
            "" if one.cost is None else judged(one.cost, one.bar, at_most=True),
        )
        for one in records
    ]
    columns = ("case", "kind", "median", "time, bare = 1", "bar", "")
    return Sheet("What encryption costs", columns, rows, [asdict(one) for one in records])


def main() -> None:
    """Measure, and show."""
    options = parser(__doc__).parse_args()
    around = surroundings(options.dir)
    announce(around)
    with workplace(options.dir) as place:
        result = sheet(measure(SCALES[options.size], place))
    result.show()
    if options.json:
        write_json(options.json, "sealed", options.size, around, [result])


if __name__ == "__main__":
    main()
