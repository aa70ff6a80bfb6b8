"""Two source trees of this package with many writers on one memory store: do all of them get their share?

    python benchmarks/fairness.py OLD_TREE NEW_TREE [--tool sqlite] [--only CASE] [--quick] [--json FILE]

Each client has a memory of 1 KB of its own, and edits (or views) it as fast as it can. In each round both trees run
each case, in rotating order. The table has the medians of the rounds. `share` is the edits of the slowest process (or
thread) over those of the fastest, `ratio` the median over the rounds of the new rate over the old one. `of one` is the
rate over that of one process, and `p99 / fair` the p99 over N times the median of one process, for N processes.
`CPU` is the processor time of all processes for one command.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter_ns, process_time_ns
from typing import TYPE_CHECKING

from candidates import CANDIDATES, Call, create, edit, memory_text, state
from figures import (
    Sheet,
    announce,
    duration,
    figures,
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

HERE = Path(__file__)
TREES = ("old", "new")
ROUNDS = {"full": 7, "quick": 5, "tiny": 1}
TURN_S = {"full": 1.0, "quick": 0.5, "tiny": 0.05}


@dataclass(frozen=True)
class Case:
    """Number of processes, threads of each, and whether they view instead of edit."""

    processes: int
    threads: int
    views: bool = False


CASES = {
    **{f"processes-{count}": Case(count, 1) for count in (1, 2, 4, 8)},
    "processes-4x16": Case(4, 16),
    "threads-64": Case(1, 64),
    "views-64": Case(1, 64, views=True),
}


def client(call: Call, path: str, case: Case, *, turn_s: float, times: list[int]) -> None:
    """Edit or view a memory until the time is over, then check its text."""
    done = 0
    before = perf_counter_ns()
    end = before + int(turn_s * 1e9)
    while before < end:
        call({"command": "view", "path": path} if case.views else edit(path, done))
        done += not case.views
        now = perf_counter_ns()
        times.append(now - before)
        before = now
    if state(done) not in str(call({"command": "view", "path": path})):
        raise SystemExit(f"{path} does not hold its {done} edits")


def worker(tool: str, folder: str, prefix: str) -> None:
    """One process: open the store, and run a case for each line with its number, name and seconds."""
    with CANDIDATES[tool](Path(folder)) as call:
        warm = f"/memories/{prefix}.md"
        call(create(warm, memory_text(0)))
        call(edit(warm, 0))
        print("ready", flush=True)
        for line in sys.stdin:
            number, name, turn_s = json.loads(line)
            print(json.dumps(run_case(call, CASES[name], f"{prefix}-{number}", turn_s)), flush=True)


def run_case(call: Call, case: Case, prefix: str, turn_s: float) -> tuple[int, int, list[list[int]], int]:
    """Create the memories, wait for a line, and run the clients. Returns begin, end, times by client, and CPU time."""
    paths = [f"/memories/{prefix}-{number}.md" for number in range(case.threads)]
    times: list[list[int]] = [[] for _ in paths]
    for path in paths:
        call(create(path, memory_text(0)))
    print("ready", flush=True)
    sys.stdin.readline()
    threads = [
        threading.Thread(target=client, args=(call, path, case), kwargs={"turn_s": turn_s, "times": into})
        for path, into in zip(paths, times, strict=True)
    ]
    began, worked = perf_counter_ns(), process_time_ns()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return began, perf_counter_ns(), times, process_time_ns() - worked


def start(tree: Path, tool: str, folder: Path, count: int, stack: ExitStack) -> list[subprocess.Popen[str]]:
    """Start processes that have the same store open. They serve all turns, since a start takes a second."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree.resolve() / "src"), str(HERE.parent)])}
    processes = [
        subprocess.Popen(
            [sys.executable, str(HERE), "worker", tool, str(folder), str(number)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    for process in processes:
        stack.enter_context(process)
    answers(processes)
    return processes


def answers(processes: Sequence[subprocess.Popen[str]], line: str = "") -> list[str]:
    """Send a line to all processes, if there is one, and return the answer of each."""
    for process in processes:
        if line:
            print(line, file=process.stdin, flush=True)
    found = [process.stdout.readline() for process in processes if process.stdout]
    if not all(found):
        raise SystemExit("a process ended early")
    return found


def turn(processes: Sequence[subprocess.Popen[str]], name: str, *, number: int, turn_s: float) -> dict[str, float]:
    """Run a case once. Returns the figures, the share of the slowest process or thread, and the CPU of a command."""
    case = CASES[name]
    chosen = processes[: case.processes]
    answers(chosen, json.dumps([number, name, turn_s]))
    os.sync()
    ended = [json.loads(answer) for answer in answers(chosen, "go")]
    span = max(end for _, end, _, _ in ended) - min(began for began, _, _, _ in ended)
    by_thread = [times for _, _, threads, _ in ended for times in threads]
    by_process = [sum(map(len, threads)) for _, _, threads, _ in ended]
    shares = by_process if case.processes > 1 else list(map(len, by_thread))
    return {
        **asdict(figures([took for times in by_thread for took in times], span_ns=span)),
        "share": min(shares) / max(shares),
        "cpu_ms": sum(worked for *_, worked in ended) / sum(by_process) / 1e6,
    }


def run(trees: dict[str, Path], tool: str, names: list[str], size: str, place: Path) -> Sheet:
    """Run all cases in all rounds."""
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    count = max(CASES[name].processes for name in names)
    turns = [(number, name) for number in range(ROUNDS[size]) for name in names]
    with ExitStack() as stack, steps(len(turns) * len(trees), "fairness") as step:
        started = {tree: start(trees[tree], tool, own_folder(place, tree), count, stack) for tree in TREES}
        for position, (number, name) in enumerate(turns):
            for tree in TREES if number % 2 else reversed(TREES):
                measured = turn(started[tree], name, number=position, turn_s=TURN_S[size])
                found.setdefault((name, tree), []).append(measured)
                step(name)
    records = [record_of(found, name, tree) for name in names for tree in TREES]
    columns = ("case", "tree", "commands/s", "median", "p99", "share", "of one", "p99 / fair", "CPU", "ratio")
    return Sheet(f"Many clients of one memory store ({tool})", columns, [row_of(each) for each in records], records)


def record_of(found: dict[tuple[str, str], list[dict[str, float]]], name: str, tree: str) -> dict[str, object]:
    """Medians of one case on one tree, compared with the other tree and with one process."""

    def medians(case: str) -> dict[str, float]:
        return {key: statistics.median(one[key] for one in found[case, tree]) for key in found[case, tree][0]}

    compared: dict[str, float | None] = {"ratio": None, "of_one": None, "p99_of_fair": None}
    middle, count = medians(name), CASES[name].processes
    if tree == "new":
        pairs = zip(found[name, "new"], found[name, "old"], strict=True)
        compared["ratio"] = statistics.median(new["per_second"] / old["per_second"] for new, old in pairs)
    if count > 1 and CASES[name].threads == 1 and ("processes-1", tree) in found:
        one = medians("processes-1")
        compared["of_one"] = middle["per_second"] / one["per_second"]
        compared["p99_of_fair"] = middle["p99_ms"] / (count * one["median_ms"])
    return {"case": name, "tree": tree, **compared, **middle}


def row_of(record: dict[str, object]) -> Sequence[str]:
    """Row of the table."""

    def number(name: str, form: Callable[[float], str] = "{:.2f}".format) -> str:
        value = record[name]
        return form(value) if isinstance(value, float) else ""

    times = [number(name, duration) for name in ("median_ms", "p99_ms")]
    ratios = [number(name) for name in ("share", "of_one", "p99_of_fair")]
    last = (number("cpu_ms", duration), number("ratio"))
    return (str(record["case"]), str(record["tree"]), number("per_second", rate), *times, *ratios, *last)


def main() -> None:
    """Run what the arguments ask for and print it."""
    options = parser(__doc__)
    options.add_argument("old", type=Path, help="checkout to compare with")
    options.add_argument("new", type=Path, help="checkout to measure")
    options.add_argument("--tool", choices=["sqlite", "directory"], default="sqlite")
    options.add_argument("--only", action="append", choices=list(CASES), help="only this case (repeatable)")
    chosen = options.parse_args()
    around = surroundings(chosen.dir)
    announce(around)
    with workplace(chosen.dir) as place:
        trees = {"old": chosen.old, "new": chosen.new}
        result = run(trees, chosen.tool, chosen.only or list(CASES), chosen.size, place)
    result.show()
    if chosen.json:
        write_json(chosen.json, "fairness", chosen.size, around, [result])


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(*sys.argv[2:])
    else:
        main()
