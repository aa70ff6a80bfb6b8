"""Two source trees of this package against each other, interleaved in one run.

    python benchmarks/interleaved.py OLD_TREE NEW_TREE [--rounds 10] [--only CASE] [--place PLACE] [--processor]

A tree is a checkout; its package is the one folder below `src`, whatever its name. In each round both trees run in a
new process each, with `PYTHONPATH` set to their `src`, and the cases of `peers.py` go to them in small slices in turns:
so whatever else the machine does hits both alike. Stores are filled once, each tree has its own.

`ratio` is the median time of a call in the new tree over that in the old tree, in one round: below 1 the new tree is
faster. The table shows the median of the rounds with its spread. `--processor` measures processor time
instead of elapsed time: it leaves out the disk, and most of the other work of the machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from figures import Sheet, announce, duration, own_folder, parser, steps, surroundings, workplace, write_json
from interleaved_worker import CASES, PLACES, Request, Size

if TYPE_CHECKING:
    import argparse

WORKER = Path(__file__).with_name("interleaved_worker.py")
SIZES = {
    "full": Size(memories=1_000, lines=100_000, calls=20, slices=6, rounds=10),
    "quick": Size(memories=300, lines=10_000, calls=10, slices=4, rounds=10),
    "tiny": Size(memories=20, lines=200, calls=2, slices=1, rounds=2),
}
TREES = ("old", "new")
Ask = Callable[[Request], list[int]]


def package_of(tree: Path) -> str:
    """The name of the package of a tree. Raises `ValueError` unless there is exactly one."""
    found = [path.parent.name for path in sorted((tree / "src").glob("*/__init__.py"))]
    if len(found) != 1:
        raise ValueError(f"{tree}/src has {len(found)} packages, not one")
    return found[0]


@contextmanager
def worker(tree: Path, folder: Path, size: Size, *, processor: bool) -> Iterator[Ask]:
    """Process that imports the package of a tree, runs the requested slices and reports the times of their calls."""
    settings = json.dumps(
        {"package": package_of(tree), "folder": str(folder), "size": size.to_json(), "processor": processor}
    )
    paths = os.pathsep.join([str(tree.resolve() / "src"), str(WORKER.parent)])
    process = subprocess.Popen(
        [sys.executable, str(WORKER), settings],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        into, out = process.stdin, process.stdout

        def ask(request: Request) -> list[int]:
            print(json.dumps(request), file=into, flush=True)
            line = out.readline()
            if not line:
                raise SystemExit(f"the worker of {tree} ended")
            return [int(took) for took in json.loads(line)]

        yield ask
        into.close()


def one_round(
    number: int, asks: dict[str, Ask], cases: list[str], places: list[str], size: Size
) -> dict[tuple[str, str], dict[str, float]]:
    """The median time of a call in nanoseconds, by case and place and by tree. The first slice warms up."""
    found = {}
    for case in cases:
        for place in places:
            times: dict[str, list[int]] = {tree: [] for tree in asks}
            for slice_ in range(size.slices + 1):
                order = TREES if (number + slice_) % 2 else TREES[::-1]
                for tree in order:
                    took = asks[tree]((case, place, number * (size.slices + 1) + slice_))
                    times[tree] += took if slice_ else []
            found[case, place] = {tree: statistics.median(took) for tree, took in times.items()}
    return found


def run(
    trees: dict[str, Path], cases: list[str], places: list[str], size: Size, folder: Path, *, processor: bool
) -> dict[tuple[str, str], list[dict[str, float]]]:
    """The medians of each round, by case and place."""
    homes = {name: own_folder(folder, name) for name in trees}
    found: dict[tuple[str, str], list[dict[str, float]]] = {(case, place): [] for case in cases for place in places}
    with steps(size.rounds, "interleaved") as step:
        for number in range(size.rounds):
            with ExitStack() as stack:
                asks = {
                    name: stack.enter_context(worker(tree, homes[name], size, processor=processor))
                    for name, tree in trees.items()
                }
                for where, medians in one_round(number, asks, cases, places, size).items():
                    found[where].append(medians)
            step(f"round {number + 1}")
    return found


def sheet(found: dict[tuple[str, str], list[dict[str, float]]]) -> Sheet:
    """The table and the records of a run."""
    rows, records = [], []
    for (case, place), rounds in found.items():
        ratios = sorted(one["new"] / one["old"] for one in rounds)
        lower, median, upper = statistics.quantiles(ratios, n=4, method="inclusive")
        spread = {"min": ratios[0], "lower": lower, "ratio": median, "upper": upper, "max": ratios[-1]}
        times = {f"{tree}_ms": statistics.median(one[tree] for one in rounds) / 1e6 for tree in TREES}
        records.append({"case": case, "place": place, **times, **spread, "ratios": ratios})
        shown = [f"{spread[name]:.2f}" for name in ("ratio", "min", "lower", "upper", "max")]
        rows.append((case, place, duration(times["old_ms"]), duration(times["new_ms"]), *shown))
    columns = ("case", "place", "old", "new", "ratio", "min", "25 %", "75 %", "max")
    return Sheet("Time of a call in the new tree over that in the old one", columns, rows, records)


def options() -> tuple[argparse.Namespace, Size]:
    """The arguments, and the size they choose."""
    known = parser(__doc__)
    known.add_argument("old", type=Path, metavar="OLD_TREE")
    known.add_argument("new", type=Path, metavar="NEW_TREE")
    known.add_argument("--rounds", type=int, metavar="N", help="rounds, at least 2 (default: 10)")
    known.add_argument("--only", action="append", choices=list(CASES), metavar="CASE", help=", ".join(CASES))
    known.add_argument("--place", action="append", choices=list(PLACES), metavar="PLACE", help=", ".join(PLACES))
    known.add_argument("--processor", action="store_true", help="measure processor time, not elapsed time")
    chosen = known.parse_args()
    if chosen.rounds is not None and chosen.rounds < 2:
        known.error("--rounds takes 2 or more")
    for tree in (chosen.old, chosen.new):
        try:
            package_of(tree)
        except ValueError as error:
            known.error(str(error))
    return chosen, SIZES[chosen.size].with_rounds(chosen.rounds)


def main() -> None:
    """Run what the arguments ask for and print it."""
    chosen, size = options()
    around = surroundings(chosen.dir) | {"rounds": size.rounds}
    announce(around)
    with workplace(chosen.dir) as folder:
        trees, cases, places = {"old": chosen.old, "new": chosen.new}, chosen.only or list(CASES), chosen.place
        found = run(trees, cases, places or list(PLACES), size, folder, processor=chosen.processor)
    result = sheet(found)
    result.show()
    if chosen.json:
        write_json(chosen.json, "interleaved", chosen.size, around, [result])


if __name__ == "__main__":
    main()
