"""Startup times: `import retentive`, the first view of a program, and whole commands.

    python benchmarks/startup.py [--quick] [--json FILE]

Each is a fresh process with compiled modules. They take turns with an interpreter that does nothing, and the bars are
multiples of its time. Processor time is less disturbed by other work of the machine than elapsed time. A second table
lists the modules that take longest to import for `retentive view`, as `python -X importtime` reports them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter_ns

from figures import Sheet, announce, duration, judged, parser, steps, surroundings, workplace, write_json

RUNS = {"full": 40, "quick": 9, "tiny": 1}
NOTHING = "python -c pass"
AT_MOST = {"import retentive": 4.3, "retentive view (sqlite)": 9.3, "retentive view (directory)": 9.3}
"""Bars as multiples of an interpreter that does nothing: 60 ms and 130 ms where that takes 14 ms."""
MODULES_SHOWN = 12
_COMMAND = "import sys; from retentive.cli import main; sys.exit(main())"  # as the installed script
_FIRST_VIEW = "import retentive\nwith retentive.open({!r}, create=False) as at: at.store().execute({!r})"


@dataclass
class Times:
    """Elapsed and processor times of the runs of one command, in nanoseconds."""

    elapsed: list[int] = field(default_factory=list)
    processor: list[int] = field(default_factory=list)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Run the command and add its times."""
        start = perf_counter_ns()
        output = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
        process = os.posix_spawn(command[0], list(command), environment, file_actions=output)
        _, status, used = os.wait4(process, 0)
        self.elapsed.append(perf_counter_ns() - start)
        self.processor.append(round((used.ru_utime + used.ru_stime) * 1e9))
        if status:
            raise SystemExit(f"{' '.join(command)} ended with status {os.waitstatus_to_exitcode(status)}")


def commands(place: Path, environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Commands to start, by their displayed name."""
    retentive, path = [sys.executable, "-c", _COMMAND], "/memories/note.md"
    places = {"sqlite": f"sqlite:///{place.resolve()}/memory.db", "directory": str(place / "memory")}
    for at in places.values():
        create = [*retentive, "--at", at, "create", path, "One line to view.\n"]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL, env=environment)
    first = _FIRST_VIEW.format(places["sqlite"], {"command": "view", "path": path})
    return {
        NOTHING: [sys.executable, "-c", "pass"],
        "import retentive": [sys.executable, "-c", "import retentive"],
        "import, open and view (sqlite)": [sys.executable, "-c", first],
        **{f"retentive view ({name})": [*retentive, "--at", at, "view", path] for name, at in places.items()},
        "retentive --help": [*retentive, "--help"],
    }


def compiled(place: Path) -> dict[str, str]:
    """The environment, with a folder for compiled modules: an installed package has them, a source tree may not."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return environment | {"PYTHONPYCACHEPREFIX": str(place.resolve() / "compiled")}


def measured(started: Mapping[str, Sequence[str]], runs: int, environment: Mapping[str, str]) -> dict[str, Times]:
    """Run every command in turns. The first turn is a warm-up."""
    times = {name: Times() for name in started}
    with steps((runs + 1) * len(started), "startup") as step:
        for turn in range(runs + 1):
            for name, command in started.items():
                (times[name] if turn else Times()).run(command, environment)
                step(name)
    return times


def sheet(times: Mapping[str, Times]) -> Sheet:
    """Table of the medians, and of their ratios to an interpreter that does nothing."""
    base_ms, base_cpu_ms = (median(each) / 1e6 for each in (times[NOTHING].elapsed, times[NOTHING].processor))
    rows, records = [], []
    for name, taken in times.items():
        ms, cpu_ms, bar = median(taken.elapsed) / 1e6, median(taken.processor) / 1e6, AT_MOST.get(name)
        ratio, cpu_ratio = ms / base_ms, cpu_ms / base_cpu_ms
        verdict = judged(cpu_ratio, bar, at_most=True)
        record = {"command": name, "median_ms": ms, "processor_ms": cpu_ms, "ratio": ratio, "bar": bar}
        records.append(record | {"processor_ratio": cpu_ratio, "verdict": verdict})
        shown = (duration(ms), f"{ratio:.1f}", duration(cpu_ms), f"{cpu_ratio:.1f}", f"{bar}" if bar else "", verdict)
        rows.append((name, *shown))
    columns = ("process", "median", "multiple", "processor", "multiple", "at most", "")
    return Sheet("From start to end of a process", columns, rows, records)


def slowest_imports(command: Sequence[str], environment: Mapping[str, str]) -> Sheet:
    """Table of the modules that take longest to import, without the modules that they import."""
    traced = [command[0], "-X", "importtime", *command[1:]]
    said = subprocess.run(traced, check=True, capture_output=True, text=True, env=environment).stderr
    lines = [line.partition(":")[2].split("|") for line in said.splitlines() if line.startswith("import time:")]
    known = [(int(own), name.strip()) for own, _, name in lines[1:]]
    longest = sorted(known, reverse=True)[:MODULES_SHOWN]
    rows = [(name, duration(own / 1e3)) for own, name in longest]
    records: list[dict[str, object]] = [{"module": name, "own_us": own} for own, name in longest]
    ours = sum(name.split(".")[0] == "retentive" for _, name in known)
    title = f"Slowest of {len(known)} imported modules ({ours} of retentive)"
    return Sheet(title, ("module", "own time"), rows, records)


def main() -> None:
    """Run it and print it."""
    chosen = parser(__doc__).parse_args()
    around = surroundings(chosen.dir)
    announce(around)
    with workplace(chosen.dir) as place:
        environment = compiled(place)
        started = commands(place, environment)
        sheets = [
            sheet(measured(started, RUNS[chosen.size], environment)),
            slowest_imports(started["retentive view (sqlite)"], environment),
        ]
    for each in sheets:
        each.show()
    if chosen.json:
        write_json(chosen.json, "startup", chosen.size, around, sheets)


if __name__ == "__main__":
    main()
