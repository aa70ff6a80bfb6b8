"""Concurrent clients of one memory store: threads of one process, then processes.

    python benchmarks/clients.py [--quick] [--tool NAME] [--json FILE]

Every client edits its own memory of 1 KB, one edit after the other, and counts an edit when its reply
is there. The tools take turns in rotating order. Before a turn, each client makes one edit, so that imports and
connections are not measured. Python's garbage collector leaves out the objects of imported modules: the SDK alone
has so many that the first full collection in each new process takes 90 ms. At the end every memory is looked at: one
edit that was answered and is not there, and the run fails.

`of one` is the rate of N processes over the rate of one. The fair share of an edit is N times the median of one
process; `p99 / fair` compares p99 with it. `slowest` is the edits of the slowest client over those of the fastest.

The SDK's tool runs along for comparison. It takes no lock; on memories that are shared it would lose edits.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING

from candidates import CANDIDATES, SDK, Call, create, edit, memory_text, state
from figures import (
    Figures,
    Sheet,
    announce,
    duration,
    figures,
    judged,
    own_folder,
    parser,
    rate,
    steps,
    surroundings,
    workplace,
    write_json,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

THREADS = 64
EDITS_PER_SECOND = {("threads", THREADS, "sqlite"): 9_000.0}  # what a store must reach
OF_ONE = 0.9  # part of the rate of one process that several must reach
P99_OF_FAIR = 4.0
WORKER_TIMEOUT_S = 600


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Size of a run: numbers of clients, turns of each tool, seconds of a turn."""

    threads: tuple[int, ...]
    processes: tuple[int, ...]
    turns: int
    turn_s: float


SCALES = {
    "full": Scale(threads=(1, 8, THREADS), processes=(1, 2, 4, 8), turns=5, turn_s=1.0),
    "quick": Scale(threads=(THREADS,), processes=(1, 4), turns=2, turn_s=0.5),
    "tiny": Scale(threads=(4,), processes=(2,), turns=1, turn_s=0.05),
}


@dataclass(frozen=True, kw_only=True)
class Work:
    """Work of one client: all its edits, the time of each measured one, begin and end."""

    done: int
    times_ns: list[int]
    began_ns: int
    ended_ns: int


def memory(caller: int) -> str:
    """Path of the memory of a client."""
    return f"/memories/caller-{caller:03d}.md"


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Result of one number of clients with one tool: all times, and the edits of each client."""

    figures: Figures
    shares: tuple[int, ...]

    @property
    def slowest(self) -> float:
        """Edits of the slowest client over those of the fastest."""
        return min(self.shares) / max(self.shares)


def edits_until(call: Call, caller: int, done: int, turn_s: float, wait: Callable[[], object]) -> Work:
    """Edit the client's memory, which has `done` edits, once before the common start, then until the time is over."""
    path = memory(caller)
    call(edit(path, done))
    done += 1
    wait()
    times: list[int] = []
    began = before = perf_counter_ns()
    end = began + int(turn_s * 1e9)
    while before < end:
        call(edit(path, done + len(times)))
        now = perf_counter_ns()
        times.append(now - before)
        before = now
    return Work(done=done + len(times), times_ns=times, began_ns=began, ended_ns=before)


def by_threads(name: str, folder: Path, counts: Sequence[int], turn_s: float) -> list[Work]:
    """One turn with a thread for each count of finished edits, all through one tool."""
    gate = threading.Barrier(len(counts), timeout=WORKER_TIMEOUT_S)

    def caller(number: int) -> Work:
        return edits_until(call, number, counts[number], turn_s, gate.wait)

    with CANDIDATES[name](folder) as call, ThreadPoolExecutor(len(counts)) as pool:
        gc.freeze()
        return list(pool.map(caller, range(len(counts))))


def _attend(gate: threading.Barrier) -> None:
    _GATE.append(gate)


def process(name: str, folder: Path, number: int, done: int, turn_s: float) -> Work:
    """Work of one process: open the store, wait for the others, edit."""
    with CANDIDATES[name](folder) as call:
        gc.freeze()
        return edits_until(call, number, done, turn_s, _GATE[0].wait)


def by_processes(name: str, folder: Path, counts: Sequence[int], turn_s: float) -> list[Work]:
    """One turn with a process for each count of finished edits, each with its own tool."""
    gate = _PROCESSES.Barrier(len(counts), timeout=WORKER_TIMEOUT_S)
    jobs = [(name, folder, number, done, turn_s) for number, done in enumerate(counts)]
    with _PROCESSES.Pool(len(counts), initializer=_attend, initargs=(gate,)) as pool:
        return pool.starmap_async(process, jobs, chunksize=1).get(WORKER_TIMEOUT_S)


# A fork server that has imported the tools once: the SDK alone takes a second to import.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["anthropic.lib.tools._beta_builtin_memory_tool", "retentive"])
_GATE: list[threading.Barrier] = []

WAYS: dict[str, Callable[[str, Path, Sequence[int], float], list[Work]]] = {
    "threads": by_threads,
    "processes": by_processes,
}


def check(name: str, folder: Path, counts: Sequence[int]) -> None:
    """Fail the run unless every memory contains all acknowledged edits."""
    with CANDIDATES[name](folder) as call:
        for caller, done in enumerate(counts):
            if state(done) not in str(call({"command": "view", "path": memory(caller)})):
                raise SystemExit(f"{name}: {memory(caller)} does not hold its {done} edits")


def run_way(
    way: str,
    callers: int,
    names: Sequence[str],
    *,
    scale: Scale,
    place: Path,
    step: Callable[[str], None],
) -> dict[str, Crowd]:
    """Results of each tool; the tools take turns in rotating order."""
    folders = {name: own_folder(place, f"{name}-{way}-{callers}") for name in names}
    counts = {name: [0] * callers for name in names}
    times: dict[str, list[int]] = {name: [] for name in names}
    shares = {name: [0] * callers for name in names}
    spans = dict.fromkeys(names, 0)
    for name, folder in folders.items():
        with CANDIDATES[name](folder) as call:
            for caller in range(callers):
                call(create(memory(caller), memory_text(caller)))
    for turn in range(scale.turns):
        shift = turn % len(names)
        for name in [*names[shift:], *names[:shift]]:
            os.sync()
            works = WAYS[way](name, folders[name], counts[name], scale.turn_s)
            counts[name] = [work.done for work in works]
            shares[name] = [share + len(work.times_ns) for share, work in zip(shares[name], works, strict=True)]
            times[name] += [took for work in works for took in work.times_ns]
            spans[name] += max(work.ended_ns for work in works) - min(work.began_ns for work in works)
            step(f"{callers} {way}")
    for name, folder in folders.items():
        check(name, folder, counts[name])
    return {
        name: Crowd(figures=figures(times[name], span_ns=spans[name]), shares=tuple(shares[name])) for name in names
    }


def record_of(way: str, callers: int, name: str, crowd: Crowd, one: Figures | None) -> dict[str, object]:
    """Figures of a number of clients, their comparison with `one` of the same kind, and the verdict about all bars."""
    found = crowd.figures
    bar = EDITS_PER_SECOND.get((way, callers, name))
    of_one = of_fair = None
    verdicts = [judged(found.per_second, bar)]
    if way == "processes" and callers > 1 and one is not None:
        of_one, of_fair = found.per_second / one.per_second, found.p99_ms / (callers * one.median_ms)
        if name != SDK:
            verdicts += [judged(of_one, OF_ONE), judged(of_fair, P99_OF_FAIR, at_most=True)]
    verdict = "short" if "short" in verdicts else max(verdicts)
    record = {"way": way, "callers": callers, "candidate": name, **asdict(found)}
    return record | {"of_one": of_one, "p99_of_fair": of_fair, "slowest": crowd.slowest, "bar": bar, "verdict": verdict}


def row_of(record: dict[str, object], found: Figures) -> Sequence[str]:
    """Row of the table."""
    ratios = [record[name] if record["callers"] != 1 else None for name in ("of_one", "p99_of_fair", "slowest")]
    return (
        f"{record['way']} {record['callers']}",
        str(record["candidate"]),
        rate(found.per_second),
        duration(found.median_ms),
        duration(found.p99_ms),
        *(f"{ratio:.2f}" if isinstance(ratio, float) else "" for ratio in ratios),
        rate(bar) if isinstance(bar := record["bar"], float) else "",
        str(record["verdict"]),
    )


def run(names: Sequence[str], scale: Scale, place: Path) -> Sheet:
    """Run all numbers of threads and of processes."""
    plan = [("threads", callers) for callers in scale.threads]
    plan += [("processes", callers) for callers in scale.processes]
    rows: list[Sequence[str]] = []
    records: list[dict[str, object]] = []
    ones: dict[tuple[str, str], Figures] = {}
    with steps(len(plan) * len(names) * scale.turns, "clients") as step:
        for way, callers in plan:
            for name, crowd in run_way(way, callers, names, scale=scale, place=place, step=step).items():
                if callers == 1:
                    ones[way, name] = crowd.figures
                records.append(record_of(way, callers, name, crowd, ones.get((way, name))))
                rows.append(row_of(records[-1], crowd.figures))
    columns = ("callers", "tool", "edits/s", "median", "p99", "of one", "p99 / fair", "slowest", "bar", "")
    return Sheet("Many callers, each editing a memory of its own in one store", columns, rows, records)


def main() -> None:
    """Run what the arguments ask for and print it."""
    options = parser(__doc__)
    options.add_argument("--tool", action="append", choices=list(CANDIDATES), help="only this one (repeatable)")
    chosen = options.parse_args()
    tools = [name for name in CANDIDATES if not chosen.tool or name in chosen.tool]
    around = surroundings(chosen.dir)
    announce(around)
    with workplace(chosen.dir) as place:
        result = run(tools, SCALES[chosen.size], place)
    result.show()
    if chosen.json:
        write_json(chosen.json, "clients", chosen.size, around, [result])


if __name__ == "__main__":
    main()
