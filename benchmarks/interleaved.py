"""Two source trees of this package against each other, interleaved in one run.

    python benchmarks/interleaved.py OLD_TREE NEW_TREE [--rounds 10] [--only CASE] [--place PLACE] [--processor]

In each round both trees run in a new process each, with `PYTHONPATH` set to their `src`, and the cases of `peers.py` go
to them in small slices in turns: so whatever else the machine does hits both alike. Stores are filled once, each tree
has its own. `ratio` is the median time of a call in the new tree over that in the old tree, in one round: below 1 the
new tree is faster. The table shows the median of the rounds with its spread. `--processor` measures processor time
instead of elapsed time: it leaves out the disk, and most of the other work of the machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter_ns, process_time_ns

import peers
import retentive
from figures import duration, own_folder, parser, report, table, workplace

PLACES = {"sqlite": "sqlite:///{}/memory.db", "directory": "{}/memory"}
NAMES = ("create", "view", "str_replace", "insert", "rename", "delete", "list-1000", "range-of-900000")
REPEATS = 5  # of a case that has one command a slice
SIZES = {  # memories, lines, calls of a slice, slices of a round
    "full": (1_000, 100_000, 20, 6),
    "quick": (300, 10_000, 10, 4),
    "tiny": (20, 200, 2, 1),
}
TREES = ("old", "new")
HERE = Path(__file__).resolve()


def work(folder: Path, size: str, rounds: int, *, processor: bool) -> None:
    """One process: run the requested slices and answer with the times of their calls in nanoseconds."""
    memories, lines, calls, slices = SIZES[size]
    scale = peers.Scale(memories=memories, listing=0, lines=lines, large_bytes=0, rounds=rounds * (slices + 1) - 1,
                        calls=calls, slow_rounds=0)  # fmt: skip
    now: Callable[[], int] = process_time_ns if processor else perf_counter_ns
    opened: dict[tuple[str, str], retentive.MemoryStore] = {}
    with ExitStack() as stack:
        for line in sys.stdin:
            name, place, slice_ = json.loads(line)
            case = peers.CASES[name]
            if (case.store, place) not in opened:
                home = folder / place / case.store
                is_new = not home.exists()
                home.mkdir(parents=True, exist_ok=True)
                at = stack.enter_context(retentive.open(PLACES[place].format(home.resolve()), max_memory_bytes=0))
                opened[case.store, place] = at.store()
                for command in peers.CONTENTS[case.store](scale) if is_new else ():
                    opened[case.store, place].execute(command)
            execute, times = opened[case.store, place].execute, []
            given = peers.commands(case, scale, slice_) * (REPEATS if case.is_slow else 1)
            os.sync()
            for command in given:
                start = now()
                reply = execute(command)
                times.append(now() - start)
                if reply.is_error:
                    raise ValueError(f"{name} on {place}: {reply.text}")
            print(json.dumps(times), flush=True)


def started(tree: Path, folder: Path, size: str, rounds: int, *, processor: bool) -> subprocess.Popen[str]:
    """A process with the package of a tree."""
    paths = os.pathsep.join([str(tree.resolve() / "src"), str(HERE.parent)])
    command = [sys.executable, str(HERE), "work", str(folder), size, str(rounds), str(int(processor))]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, stdin=pipe, stdout=pipe, text=True)


def ask(process: subprocess.Popen[str], request: tuple[str, str, int]) -> list[int]:
    """Times of the calls of a slice."""
    print(json.dumps(request), file=process.stdin, flush=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit("a process ended early")
    return [int(took) for took in json.loads(line)]


def main() -> None:
    """Run what the arguments ask for and print it."""
    options = parser(__doc__)
    options.add_argument("old", type=Path, metavar="OLD_TREE")
    options.add_argument("new", type=Path, metavar="NEW_TREE")
    options.add_argument("--rounds", type=int, default=10, metavar="N", help="rounds, at least 2 (default: 10)")
    options.add_argument("--only", action="append", choices=NAMES, metavar="CASE", help=", ".join(NAMES))
    options.add_argument("--place", action="append", choices=PLACES, metavar="PLACE", help=", ".join(PLACES))
    options.add_argument("--processor", action="store_true", help="measure processor time, not elapsed time")
    chosen = options.parse_args()
    cases = [(name, place) for name in chosen.only or NAMES for place in chosen.place or PLACES]
    slices = SIZES[chosen.size][3]
    medians: dict[tuple[str, str], list[list[float]]] = {case: [] for case in cases}
    with workplace(chosen.dir) as folder:
        homes = {tree: own_folder(folder, tree) for tree in TREES}
        for number in range(chosen.rounds):
            with ExitStack() as stack:
                processes = {
                    tree: stack.enter_context(
                        started(getattr(chosen, tree), homes[tree], chosen.size, chosen.rounds,
                                processor=chosen.processor)
                    )
                    for tree in TREES
                }  # fmt: skip
                for case in cases:
                    times: dict[str, list[int]] = {tree: [] for tree in TREES}
                    for slice_ in range(slices + 1):
                        for tree in TREES if (number + slice_) % 2 else TREES[::-1]:
                            took = ask(processes[tree], (*case, number * (slices + 1) + slice_))
                            times[tree] += took if slice_ else []  # the first warms up
                    medians[case].append([median(times[tree]) / 1e6 for tree in TREES])
                for process in processes.values():
                    assert process.stdin is not None
                    process.stdin.close()
    rows = []
    for case, found in medians.items():
        ratios = sorted(new / old for old, new in found)
        low, middle, high = quantiles(ratios, n=4, method="inclusive")
        times_ms = [duration(median(each[at] for each in found)) for at in (0, 1)]
        rows.append((*case, *times_ms, *(f"{each:.2f}" for each in (middle, ratios[0], low, high, ratios[-1]))))
    report(chosen, table(("case", "place", "old", "new", "ratio", "min", "25 %", "75 %", "max"), rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), processor=sys.argv[5] == "1")
    else:
        main()
