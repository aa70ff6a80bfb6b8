"""The MCP server over stdio: from its start to the first answer, beside a bare `import mcp`, and a view.

    python benchmarks/mcp_server.py [--quick] [--json FILE]

Both are fresh processes with compiled modules, which take turns. The client of the views is this process, which writes
and reads lines of JSON: the official client takes about as long as the server.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

from figures import Sheet, announce, duration, judged, parser, steps, surroundings, workplace, write_json
from startup import compiled

RUNS = {"full": 20, "quick": 5, "tiny": 1}
VIEWS = {"full": 2_000, "quick": 300, "tiny": 3}
LATER_MS, VIEW_MS = 400.0, 3.0
"""Bars: the first answer after a bare import, and a view at the median."""
IMPORT = "python -c 'import mcp'"
FIRST = "retentive mcp, to its first answer"
_COMMAND = "import sys; from retentive.cli import main; sys.exit(main())"  # as the installed script
_IMPORT = [sys.executable, "-c", "import mcp; print(flush=True)"]  # its end takes time too, which does not count
_PATH = "/memories/note.md"
_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}


class Server:
    """A server process, and the messages to it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(list(command), stdin=pipe, stdout=pipe, env=environment)
        self._id = 0
        self.send("initialize", _HELLO)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        """Send a request and return its result."""
        self._id += 1
        self._write({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if answer.get("id") != self._id or "result" not in answer:
            raise SystemExit(f"the server answered {answer}")
        found: dict[str, Any] = answer["result"]
        return found

    def call(self, name: str, **arguments: object) -> str:
        """Call a tool and return its text."""
        result = self.send("tools/call", {"name": name, "arguments": arguments})
        return str(result["content"][0]["text"])

    def end(self) -> None:
        """Close the input, and wait for the process."""
        self._process.communicate()

    def _write(self, message: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Server]:
    """A server, which ends with the block."""
    server = Server(command, environment)
    try:
        yield server
    finally:
        server.end()


def starts(command: Sequence[str], environment: Mapping[str, str], runs: int) -> Sheet:
    """Table of the time to the first answer of a tool, and of a bare import."""
    taken: dict[str, list[int]] = {IMPORT: [], FIRST: []}
    with steps(runs + 1, "start") as step:
        for _ in range(runs + 1):
            began = perf_counter_ns()
            with subprocess.Popen(_IMPORT, stdout=subprocess.PIPE, env=environment) as process:
                assert process.stdout is not None
                process.stdout.readline()
                taken[IMPORT].append(perf_counter_ns() - began)
            began = perf_counter_ns()
            with running(command, environment) as server:
                server.call("memory_view", path=_PATH)
                taken[FIRST].append(perf_counter_ns() - began)
            step("start")
    times = {name: median(each[min(1, runs) :]) / 1e6 for name, each in taken.items()}  # the first turn is a warm-up
    later = times[FIRST] - times[IMPORT]
    verdict = judged(later, LATER_MS, at_most=True)
    rows = [
        (IMPORT, duration(times[IMPORT]), "", ""),
        (FIRST, duration(times[FIRST]), f"{later:+.0f} ms", verdict),
    ]
    records: list[dict[str, object]] = [
        {"what": IMPORT, "median_ms": times[IMPORT]},
        {"what": FIRST, "median_ms": times[FIRST], "later_ms": later, "bar_ms": LATER_MS, "verdict": verdict},
    ]
    return Sheet("From the start of a process", ("process", "median", f"at most {LATER_MS:.0f} ms", ""), rows, records)


def views(command: Sequence[str], environment: Mapping[str, str], runs: int) -> Sheet:
    """Table of the time of a view by a server that runs."""
    with running(command, environment) as server:
        taken: list[int] = []
        for _ in range(runs):
            began = perf_counter_ns()
            server.call("memory_view", path=_PATH)
            taken.append(perf_counter_ns() - began)
    taken.sort()
    p50, p99 = (taken[len(taken) * part // 100] / 1e6 for part in (50, 99))
    verdict = judged(p50, VIEW_MS, at_most=True)
    rows = [("view over stdio", duration(p50), duration(p99), f"{VIEW_MS:.0f} ms", verdict)]
    records: list[dict[str, object]] = [{"what": "view", "p50_ms": p50, "p99_ms": p99, "bar_ms": VIEW_MS}]
    return Sheet("A running server", ("call", "p50", "p99", "at most", ""), rows, records)


def main() -> None:
    """Run it and print it."""
    chosen = parser(__doc__).parse_args()
    around = surroundings(chosen.dir)
    announce(around)
    with workplace(chosen.dir) as place:
        environment = compiled(place)
        command = served(place, environment)
        sheets = [
            starts(command, environment, RUNS[chosen.size]),
            views(command, environment, VIEWS[chosen.size]),
        ]
    for each in sheets:
        each.show()
    if chosen.json:
        write_json(chosen.json, "mcp_server", chosen.size, around, sheets)


def served(place: Path, environment: Mapping[str, str]) -> list[str]:
    """The command of a server for a store with one memory."""
    at = [sys.executable, "-c", _COMMAND, "--at", f"sqlite:///{place.resolve()}/memory.db"]
    create = [*at, "create", _PATH, "One line to view.\n"]
    subprocess.run(create, check=True, stdout=subprocess.DEVNULL, env=dict(environment))
    return [*at, "mcp"]


if __name__ == "__main__":
    main()
