"""Command line of the benchmark."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from figures import announce, own_folder, parser, steps, surroundings, workplace, write_json
from workloads import results
from workloads.adapters import SYSTEMS
from workloads.environments import Unavailable, interpreter
from workloads.measuring import Candidate, Measured, measure
from workloads.operations import SCALES, WORKLOADS
from workloads.processes import Process

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from workloads.adapters.base import System
    from workloads.operations import Scale, Workload

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))


def no_server() -> str:
    """Address for systems without a server."""
    return ""


def _postgresql(stack: ExitStack) -> Callable[[], str]:
    """Start a server with synced commits. Each call makes a database."""
    from places import DurablePostgres

    if reason := DurablePostgres.available():
        raise Unavailable(reason)
    server = stack.enter_context(DurablePostgres())
    numbers = count()
    return lambda: server.new_database(f"workload{next(numbers)}")


def candidates(systems: Sequence[System], place: Path, stack: ExitStack) -> tuple[list[Candidate], dict[str, str]]:
    """Start the systems. Also returns the reasons of those that do not run here."""
    started: list[Candidate] = []
    skipped: dict[str, str] = {}
    for system in systems:
        try:
            address = _postgresql(stack) if system.server else no_server
            python = interpreter(system)
        except Unavailable as error:
            print(f"SKIPPED {system.name}: {error}", file=sys.stderr)
            skipped[system.name] = str(error)
            continue
        log = place / f"{len(started)}.log"
        worker, reader = (stack.enter_context(Process(system, python, log)) for _ in range(2))
        started.append(Candidate(system, worker, reader, address))
    return started, skipped


def run(
    workloads: Sequence[Workload], systems: Sequence[System], scale: Scale, place: Path
) -> tuple[dict[str, list[Measured]], dict[str, str]]:
    """Run the workloads: figures by letter, and the reasons of the systems that were skipped."""
    with ExitStack() as stack:
        started, skipped = candidates(systems, place, stack)
        step = stack.enter_context(steps(len(workloads) * scale.rounds * len(started), "workloads"))
        found = {
            each.letter: measure(each, started, scale, lambda name: own_folder(place, name), step) for each in workloads
        }
    return found, skipped


def _options(text: str | None) -> Namespace:
    options = parser(text)
    letters = [each.letter for each in WORKLOADS]
    names = "; ".join(each.name for each in SYSTEMS)
    options.add_argument("--only", action="append", choices=letters, help="only this workload (repeatable)")
    options.add_argument("--system", action="append", metavar="NAME", help=f"only this system (repeatable): {names}")
    options.add_argument(
        "--publish", type=Path, metavar="FILE", help="run nothing; put this run into the documentation"
    )
    options.add_argument("--conditions", metavar="TEXT", help="stands beside the date, such as the load of the machine")
    return options.parse_args()


def main(text: str | None) -> None:
    """Run what the arguments ask for and print it."""
    chosen = _options(text)
    if chosen.publish:
        results.publish(json.loads(chosen.publish.read_text(encoding="utf-8")))
        return
    workloads = [each for each in WORKLOADS if not chosen.only or each.letter in chosen.only]
    systems = [each for each in SYSTEMS if not chosen.system or each.name in chosen.system]
    if not systems:
        raise SystemExit("--system names no known system")
    around = surroundings(chosen.dir)
    if chosen.conditions:
        around["when"] = f"{around['when']}, {chosen.conditions}"
    announce(around)
    with workplace(chosen.dir) as place:
        found, skipped = run(workloads, systems, SCALES[chosen.size], place)
    sheets = [results.sheet(found), results.offers(systems, skipped)]
    for sheet in sheets:
        sheet.show()
    if chosen.json:
        write_json(chosen.json, "workloads", chosen.size, around, sheets)
