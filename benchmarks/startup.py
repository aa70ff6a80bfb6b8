"""Startup times: `import retentive`, the first view of a program, whole commands, and an MCP server.

    python benchmarks/startup.py [--quick]

Each is a fresh process with compiled modules. They take turns with an interpreter that does nothing; a multiple is of
its time. Processor time is less disturbed by other work of the machine than elapsed time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter_ns

from figures import duration, parser, report, table, workplace

RUNS = {"full": 40, "quick": 9, "tiny": 1}
NOTHING = "python -c pass"
_COMMAND = "import sys; from retentive.cli import main; sys.exit(main())"  # as the installed script
_FIRST_VIEW = "import retentive\nwith retentive.open({!r}, create=False) as at: at.store().execute({!r})"
_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "startup", "version": "1"}}
MESSAGES = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


def commands(place: Path, environment: dict[str, str]) -> dict[str, list[str]]:
    """Commands to start, by their displayed name."""
    retentive, path = [sys.executable, "-c", _COMMAND], "/memories/note.md"
    urls = {"sqlite": f"sqlite:///{place}/memory.db", "directory": str(place / "memory")}
    for at in urls.values():
        create = [*retentive, "--at", at, "create", path, "One line to view.\n"]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL, env=environment)
    first = _FIRST_VIEW.format(urls["sqlite"], {"command": "view", "path": path})
    return {
        NOTHING: [sys.executable, "-c", "pass"],
        "import retentive": [sys.executable, "-c", "import retentive"],
        "import, open and view (sqlite)": [sys.executable, "-c", first],
        **{f"retentive view ({name})": [*retentive, "--at", at, "view", path] for name, at in urls.items()},
        "retentive --help": [*retentive, "--help"],
        "retentive mcp, list of its tools": [*retentive, "--at", urls["sqlite"], "mcp"],
    }


def timed(command: list[str], environment: dict[str, str], messages: Path) -> tuple[int, int]:
    """Elapsed and processor time of a command, in nanoseconds. Its standard input is the messages of an MCP client."""
    start = perf_counter_ns()
    actions = [(os.POSIX_SPAWN_OPEN, 0, str(messages), os.O_RDONLY, 0)]
    actions += [(os.POSIX_SPAWN_OPEN, out, os.devnull, os.O_WRONLY, 0) for out in (1, 2)]
    process = os.posix_spawn(command[0], command, environment, file_actions=actions)
    _, status, used = os.wait4(process, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {os.waitstatus_to_exitcode(status)}")
    return perf_counter_ns() - start, round((used.ru_utime + used.ru_stime) * 1e9)


def main() -> None:
    """Run it and print it."""
    chosen = parser(__doc__).parse_args()
    with workplace(chosen.dir) as place:
        # An installed package has compiled modules, a source tree may not.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPYCACHEPREFIX": str(place / "compiled")}
        messages = place / "messages"
        messages.write_text("".join(json.dumps(each) + "\n" for each in MESSAGES))
        started = commands(place, environment)
        times: dict[str, list[tuple[int, int]]] = {name: [] for name in started}
        for turn in range(RUNS[chosen.size] + 1):
            for name, command in started.items():
                took = timed(command, environment, messages)
                times[name] += [took] if turn else []  # the first warms up
    rows = []
    for name in times:
        cells = []
        for at in (0, 1):
            ms, base = (median(each[at] for each in times[which]) / 1e6 for which in (name, NOTHING))
            cells += [duration(ms), f"{ms / base:.1f}"]
        rows.append((name, *cells))
    report(chosen, table(("process", "median", "multiple", "processor", "multiple"), rows))


if __name__ == "__main__":
    main()
