"""Concurrent clients of one memory store: threads of one process, then processes.

    python benchmarks/clients.py [--quick] [--tool NAME] [--json FILE]

Every client edits its own memory of 1 KB, one edit after the other, and counts an edit when its reply
is there. The tools take turns in rotating order. At the end every memory is looked at: one edit that was
answered and is not there, and the run fails.

The SDK's tool runs along for comparison. It takes no lock; on memories that are shared it would lose edits.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING

from candidates import CANDIDATES, Call, create, edit, memory_text, state
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
EDITS_PER_SECOND = {("threads", THREADS, "sqlite"): 5_000.0}  # what a store must reach
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
    """Work of one client: the time of each edit, its begin and its end."""

    times_ns: list[int]
    began_ns: int
    ended_ns: int


def memory(caller: int) -> str:
    """Path of the memory of a client."""
    return f"/memories/caller-{caller:03d}.md"


def edits_until(call: Call, caller: int, done: int, turn_s: float) -> Work:
    """Edit the client's memory, which has `done` edits, until the time is over."""
    path = memory(caller)
    times: list[int] = []
    began = before = perf_counter_ns()
    end = began + int(turn_s * 1e9)
    while before < end:
        call(edit(path, done + len(times)))
        now = perf_counter_ns()
        times.append(now - before)
        before = now
    return Work(times_ns=times, began_ns=began, ended_ns=before)


def by_threads(name: str, folder: Path, counts: Sequence[int], turn_s: float) -> list[Work]:
    """One turn with a thread for each count of finished edits, all through one tool."""
    gate = threading.Barrier(len(counts))

    def caller(number: int) -> Work:
        gate.wait()
        return edits_until(call, number, counts[number], turn_s)

    with CANDIDATES[name](folder) as call, ThreadPoolExecutor(len(counts)) as pool:
        return list(pool.map(caller, range(len(counts))))


def _attend(gate: threading.Barrier) -> None:
    _GATE.append(gate)


def process(name: str, folder: Path, number: int, done: int, turn_s: float) -> Work:
    """Work of one process: open the store, wait for the others, edit."""
    with CANDIDATES[name](folder) as call:
        _GATE[0].wait()
        return edits_until(call, number, done, turn_s)


def by_processes(name: str, folder: Path, counts: Sequence[int], turn_s: float) -> list[Work]:
    """One turn with a process for each count of finished edits, each with its own tool."""
    gate = _PROCESSES.Barrier(len(counts))
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
) -> dict[str, Figures]:
    """Figures of each tool; the tools take turns in rotating order."""
    folders = {name: own_folder(place, f"{name}-{way}-{callers}") for name in names}
    counts = {name: [0] * callers for name in names}
    times: dict[str, list[int]] = {name: [] for name in names}
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
            counts[name] = [done + len(work.times_ns) for done, work in zip(counts[name], works, strict=True)]
            times[name] += [took for work in works for took in work.times_ns]
            spans[name] += max(work.ended_ns for work in works) - min(work.began_ns for work in works)
            step(f"{callers} {way}")
    for name, folder in folders.items():
        check(name, folder, counts[name])
    return {name: figures(times[name], span_ns=spans[name]) for name in names}


def run(names: Sequence[str], scale: Scale, place: Path) -> Sheet:
    """Run all numbers of threads and of processes."""
    plan = [("threads", callers) for callers in scale.threads]
    plan += [("processes", callers) for callers in scale.processes]
    rows, records = [], []
    with steps(len(plan) * len(names) * scale.turns, "clients") as step:
        for way, callers in plan:
            for name, figure in run_way(way, callers, names, scale=scale, place=place, step=step).items():
                bar = EDITS_PER_SECOND.get((way, callers, name))
                verdict = judged(figure.per_second, bar)
                records.append(
                    {"way": way, "callers": callers, "candidate": name, **asdict(figure)}
                    | {"bar": bar, "verdict": verdict}
                )
                rows.append(
                    (
                        f"{way} {callers}",
                        name,
                        rate(figure.per_second),
                        duration(figure.median_ms),
                        duration(figure.p99_ms),
                        rate(bar) if bar else "",
                        verdict,
                    )
                )
    columns = ("callers", "tool", "edits/s", "median", "p99", "bar", "")
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
