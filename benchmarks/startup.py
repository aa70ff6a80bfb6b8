"""Startup times: `import retentive`, and a whole `retentive view`.

    python benchmarks/startup.py [--quick] [--json FILE]

Each is a fresh process. They take turns, and an interpreter that does nothing runs between them: its median
is what Python itself takes, and is shown subtracted as well.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from time import perf_counter_ns

from figures import (
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

RUNS = {"full": 20, "quick": 7, "tiny": 1}
NOTHING = "python -c pass"
AT_MOST_MS = {
    "import retentive": 100.0,
    "retentive view (sqlite)": 200.0,
    "retentive view (directory)": 200.0,
}


def commands(place: Path) -> dict[str, list[str]]:
    """Commands to start, by their displayed name."""
    retentive = str(Path(sys.executable).with_name("retentive"))
    places = {"sqlite": f"sqlite:///{place.resolve()}/memory.db", "directory": str(place / "memory")}
    found = {
        NOTHING: [sys.executable, "-c", "pass"],
        "import retentive": [sys.executable, "-c", "import retentive"],
    }
    for name, at in places.items():
        subprocess.run(
            [retentive, "--at", at, "create", "/memories/note.md", "One line to view.\n"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        found[f"retentive view ({name})"] = [retentive, "--at", at, "view", "/memories/note.md"]
    return found


def run(runs: int, place: Path) -> Sheet:
    """Run every command in turns. The first turn is a warm-up."""
    started = commands(place)
    times: dict[str, list[int]] = {name: [] for name in started}
    with steps((runs + 1) * len(started), "startup") as step:
        for turn in range(runs + 1):
            for name, command in started.items():
                start = perf_counter_ns()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                if turn:
                    times[name].append(perf_counter_ns() - start)
                step(name)
    nothing_ms = figures(times[NOTHING]).median_ms
    rows, records = [], []
    for name, took in times.items():
        figure = figures(took)
        own_ms = figure.median_ms - nothing_ms
        bar = AT_MOST_MS.get(name)
        # An import is paid on top of an interpreter that runs anyway; a command is waited for as a whole.
        value = own_ms if name.startswith("import") else figure.median_ms
        verdict = judged(value, bar, at_most=True)
        records.append({"command": name, **asdict(figure), "own_ms": own_ms, "bar": bar, "verdict": verdict})
        rows.append(
            (
                name,
                duration(figure.median_ms),
                duration(figure.p99_ms),
                duration(own_ms) if name != NOTHING else "",
                f"{bar:.0f} ms" if bar else "",
                verdict,
            )
        )
    columns = ("process", "median", "slowest", "without Python itself", "at most", "")
    return Sheet("From start to end of a process", columns, rows, records)


def main() -> None:
    """Run it and print it."""
    chosen = parser(__doc__).parse_args()
    around = surroundings(chosen.dir)
    announce(around)
    with workplace(chosen.dir) as place:
        result = run(RUNS[chosen.size], place)
    result.show()
    if chosen.json:
        write_json(chosen.json, "startup", chosen.size, around, [result])


if __name__ == "__main__":
    main()
