"""One caller on SQLite, as multiples of what the disk needs, and what each command costs besides.

    python benchmarks/floor.py [--quick] [--only NAME] [--json FILE]

The first table has the median time of each command divided by that of one append of 1 KB with `fdatasync`, the least
that a durable change needs. Slices of commands and of appends take turns, in the same process and on the same disk.

The second table does not depend on the speed of the disk, and little on other work of the machine: processor time of
the process (user and system), calls of Python functions and of all functions, SQL statements, and pages that go to the
write-ahead log. The statements of a transaction count, with its BEGIN and COMMIT.

To compare two source trees, run the script with `PYTHONPATH` set to the `src` of each.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter_ns, process_time_ns
from typing import Any

from candidates import CANDIDATES, Call, Input, memory_text
from figures import (
    Sheet,
    announce,
    duration,
    judged,
    own_folder,
    parser,
    steps,
    surroundings,
    workplace,
    write_json,
)
from peers import CASES, CONTENTS, SCALES, Case, Scale

AT_MOST = {"create": 3.4, "view": 0.6, "str_replace": 3.6, "insert": 3.6, "rename": 3.4, "delete": 2.6}
"""Bars: the median of a command divided by that of an append of 1 KB with `fdatasync`."""
MEASURED = [case for case in CASES if case.name in AT_MOST]
FRAME_BYTES = 4096 + 24  # a page in the log, and its header. Source: sqlite.org/fileformat.html, section 4.1
_DATA = memory_text(0).encode()


@dataclass
class Cost:
    """Costs of the calls of one command."""

    processor_ns: int = 0
    python_calls: float = 0
    all_calls: float = 0
    statements: float = 0
    pages: float = 0


class Traced:
    """The connections that `sqlite3` opens while `installed`, and a count of their statements."""

    def __init__(self) -> None:
        self.connections: list[sqlite3.Connection] = []
        self.statements = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Note the connections that are opened."""
        usual = sqlite3.connect

        def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = usual(*arguments, **options)
            self.connections.append(connection)
            return connection

        sqlite3.connect = connect  # type: ignore[assignment]
        try:
            yield
        finally:
            sqlite3.connect = usual

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the statements."""

        def count(_statement: str) -> None:
            self.statements += 1

        for connection in self.connections:
            connection.set_trace_callback(count)
        try:
            yield
        finally:
            for connection in self.connections:
                connection.set_trace_callback(None)


@contextmanager
def appending(folder: Path) -> Iterator[Call]:
    """Function that appends 1 KB to a file and syncs its data."""
    descriptor = os.open(folder / "appended", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def append(_command: Input) -> None:
        os.write(descriptor, _DATA)
        os.fdatasync(descriptor)

    try:
        yield append
    finally:
        os.close(descriptor)


@contextmanager
def filled(case: Case, scale: Scale, folder: Path, purpose: str) -> Iterator[Call]:
    """Store with the contents of a case, in a new folder."""
    home = own_folder(folder, f"{purpose}-{case.name}")
    with CANDIDATES["sqlite"](home) as call:
        for command in CONTENTS[case.store](scale):
            call(command)
        yield call


def slices(case: Case, scale: Scale, call: Call, append: Call) -> tuple[list[int], list[int]]:
    """Times in nanoseconds of the commands and of the appends, in turns. The first turn is a warm-up."""
    times: tuple[list[int], list[int]] = ([], [])
    for turn in range(scale.rounds + 1):
        commands = case.commands(scale, turn)
        os.sync()
        order = ((call, times[0]), (append, times[1]))
        for run, known in order if turn % 2 else order[::-1]:
            found = []
            for command in commands:
                start = perf_counter_ns()
                run(command)
                found.append(perf_counter_ns() - start)
            known.extend(found if turn else [])
    return times


def multiples(cases: Sequence[Case], scale: Scale, folder: Path) -> Sheet:
    """The table of the multiples."""
    rows, records = [], []
    with steps(len(cases), "multiples") as step, appending(folder) as append:
        for case in cases:
            with filled(case, scale, folder, "multiple") as call:
                taken, base = slices(case, scale, call, append)
            ours, floor = median(taken) / 1e6, median(base) / 1e6
            ratio, bar = ours / floor, AT_MOST[case.name]
            verdict = judged(ratio, bar, at_most=True)
            records.append(
                {"command": case.name, "median_ms": ours, "append_ms": floor}
                | {"ratio": ratio, "bar": bar, "verdict": verdict}
            )
            rows.append((case.name, duration(ours), duration(floor), f"{ratio:.2f}", f"{bar:g}", verdict))
            step(case.name)
    columns = ("command", "median", "append of 1 KB and fdatasync", "multiple", "at most", "")
    return Sheet("One caller on SQLite, against one synced append", columns, rows, records)


def cost(case: Case, scale: Scale, folder: Path) -> Cost:
    """The costs of one command: the median of its processor times, and counts of one slice."""
    traced, found = Traced(), Cost()
    with traced.installed(), filled(case, scale, folder, "cost") as call:
        times = []
        for turn in range(scale.rounds):
            for command in case.commands(scale, turn):
                start = process_time_ns()
                call(command)
                times.append(process_time_ns() - start)
        found.processor_ns = round(median(times))
        count(found, traced, call, case.commands(scale, scale.rounds))
    return found


def count(found: Cost, traced: Traced, call: Call, commands: Sequence[Input]) -> None:
    """Fill in the counts: calls of the first half of the commands, statements and pages of the other."""
    calls: Counter[str] = Counter()
    half = len(commands) // 2
    for command in commands[:half]:
        sys.setprofile(lambda _frame, event, _argument: calls.update((event,)))
        call(command)
        sys.setprofile(None)
    found.python_calls = calls["call"] / half
    found.all_calls = (calls["call"] + calls["c_call"]) / half
    log = _log(traced)
    for connection in traced.connections:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with traced.counting():
        for command in commands[half:]:
            call(command)
    found.statements = traced.statements / half
    found.pages = max(log.stat().st_size - 32, 0) / FRAME_BYTES / half


def _log(traced: Traced) -> Path:
    """The write-ahead log of the traced connections."""
    ((_, _, name),) = traced.connections[0].execute("PRAGMA database_list").fetchall()
    return Path(f"{name}-wal")


def costs(cases: Sequence[Case], scale: Scale, folder: Path) -> Sheet:
    """The table of the costs."""
    rows, records = [], []
    with steps(len(cases), "costs") as step:
        for case in cases:
            one = cost(case, scale, folder)
            counted = (one.python_calls, one.all_calls, one.statements, one.pages)
            records.append({"command": case.name, **vars(one)})
            rows.append((case.name, duration(one.processor_ns / 1e6), *(f"{each:.1f}" for each in counted)))
            step(case.name)
    columns = ("command", "processor", "Python calls", "with C", "statements", "pages of the log")
    return Sheet("What one command costs", columns, rows, records)


def main() -> None:
    """Run what the arguments ask for and print it."""
    options = parser(__doc__)
    options.add_argument("--only", action="append", choices=list(AT_MOST), metavar="NAME", help=", ".join(AT_MOST))
    options.add_argument("--costs", action="store_true", help="only the second table")
    chosen = options.parse_args()
    cases = [case for case in MEASURED if not chosen.only or case.name in chosen.only]
    around, scale = surroundings(chosen.dir), SCALES[chosen.size]
    announce(around)
    with workplace(chosen.dir) as folder:
        sheets = [] if chosen.costs else [multiples(cases, scale, folder)]
        sheets.append(costs(cases, scale, folder))
    for sheet in sheets:
        sheet.show()
    if chosen.json:
        write_json(chosen.json, "floor", chosen.size, around, sheets)


if __name__ == "__main__":
    main()
