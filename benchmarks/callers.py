"""Many callers of one memory store: how many edits, how long does each wait, and does each get its share?

    python benchmarks/callers.py [--quick] [--only CASE] [--tool NAME] [--seconds N]

Each caller edits (or views) a memory of 1 KB of its own as fast as it can; an edit counts when its reply is there, and
the run fails if one is missing at the end. The tools take turns in every round. `slowest` is the edits of the slowest
caller over those of the fastest, `longest` the longest wait of any call.
The SDK's tool takes no lock; on memories that are shared it would lose edits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter_ns

from candidates import CANDIDATES, Call, candidate, create, edit, memory_text, state
from figures import duration, figures, own_folder, parser, rate, report, table, workplace

CASES = {f"threads {count}": (1, count) for count in (8, 64)} | {f"processes {n}": (n, 1) for n in (1, 4, 8)}
"""Processes, and threads of each."""
VIEWS = "views by 64 threads"
ROUNDS = {"full": (5, 1.0), "quick": (3, 0.5), "tiny": (1, 0.05)}
HERE = Path(__file__).resolve()
Turn = tuple[int, int, list[list[int]]]
"""Begin and end of a process, and the times of its threads, in nanoseconds."""


def caller(call: Call, path: str, times: list[int], *, views: bool, turn_s: float) -> None:
    """Edit or view a memory until the time is over, then check its text."""
    before = perf_counter_ns()
    end, done = before + int(turn_s * 1e9), 0
    while before < end:
        call({"command": "view", "path": path} if views else edit(path, done))
        done += not views
        now = perf_counter_ns()
        times.append(now - before)
        before = now
    if state(done) not in str(call({"command": "view", "path": path})):
        raise SystemExit(f"{path} does not hold its {done} edits")


def work(tool: str, folder: str, name: str) -> None:
    """One process: for each line of standard input, a turn with that many threads."""
    with candidate(tool, Path(folder)) as call:
        call(create(f"/memories/{name}.md", memory_text(0)))
        print("ready", flush=True)
        for number, line in enumerate(sys.stdin):
            threads, turn_s, views = json.loads(line)
            paths = [f"/memories/{name}-{number}-{thread}.md" for thread in range(threads)]
            for path in paths:
                call(create(path, memory_text(0)))
            print("ready", flush=True)
            sys.stdin.readline()
            times: list[list[int]] = [[] for _ in paths]
            callers = [
                threading.Thread(target=caller, args=(call, path, into), kwargs={"views": views, "turn_s": turn_s})
                for path, into in zip(paths, times, strict=True)
            ]
            began = perf_counter_ns()
            for each in callers:
                each.start()
            for each in callers:
                each.join()
            print(json.dumps([began, perf_counter_ns(), times]), flush=True)


class Crowd:
    """Processes that have the same store open. They serve all turns, since a start takes a second."""

    def __init__(self, tool: str, folder: Path, count: int, stack: ExitStack) -> None:
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        commands = [[sys.executable, str(HERE), "work", tool, str(folder), str(number)] for number in range(count)]
        pipe = subprocess.PIPE
        started = [subprocess.Popen(each, env=environment, stdin=pipe, stdout=pipe, text=True) for each in commands]
        self._processes = [stack.enter_context(each) for each in started]
        self._answers(self._processes)

    def turn(self, processes: int, threads: int, turn_s: float, *, views: bool) -> list[Turn]:
        """Run a case once."""
        chosen = self._processes[:processes]
        self._send(chosen, json.dumps([threads, turn_s, views]))
        self._answers(chosen)
        os.sync()
        self._send(chosen, "go")
        return [(began, ended, times) for began, ended, times in map(json.loads, self._answers(chosen))]

    @staticmethod
    def _send(chosen: list[subprocess.Popen[str]], line: str) -> None:
        for process in chosen:
            print(line, file=process.stdin, flush=True)

    @staticmethod
    def _answers(chosen: list[subprocess.Popen[str]]) -> list[str]:
        lines = [process.stdout.readline() for process in chosen if process.stdout]
        if not all(lines):
            raise SystemExit("a process ended early")
        return lines


def cells_of(turns: list[list[Turn]]) -> tuple[str, ...]:
    """Rate, p99, longest wait, and the share of the slowest caller. Callers are threads of one or more processes."""
    by_thread = [times for turn in turns for _, _, threads in turn for times in threads]
    span = sum(max(end for _, end, _ in turn) - min(began for began, _, _ in turn) for turn in turns)
    found = figures([took for times in by_thread for took in times], span_ns=span)
    shares = [len(times) for turn in turns for _, _, threads in turn for times in threads]
    each = len(shares) // len(turns)
    totals = [sum(shares[at::each]) for at in range(each)]
    slowest = f"{min(totals) / max(totals):.2f}" if each > 1 else ""
    longest = max(max(times) for times in by_thread) / 1e6
    return rate(found.per_second), duration(found.p99_ms), duration(longest), slowest


def main() -> None:
    """Run what the arguments ask for and print it."""
    options = parser(__doc__)
    options.add_argument("--only", action="append", choices=[*CASES, VIEWS], help="only this case (repeatable)")
    options.add_argument("--tool", action="append", choices=CANDIDATES, help="only this tool (repeatable)")
    options.add_argument("--seconds", type=float, metavar="N", help="length of a turn")
    chosen = options.parse_args()
    rounds, turn_s = ROUNDS[chosen.size]
    cases = CASES | {VIEWS: (1, 64)}
    names = chosen.only or list(cases)
    tools = chosen.tool or list(CANDIDATES)
    rows = []
    with workplace(chosen.dir) as place, ExitStack() as stack:
        most = max(cases[name][0] for name in names)
        crowds = {name: Crowd(name, own_folder(place, name), most, stack) for name in tools}
        for name in names:
            turns: dict[str, list[list[Turn]]] = {tool: [] for tool in crowds}
            for number in range(rounds):
                for tool in list(crowds)[:: 1 if number % 2 else -1]:
                    turns[tool].append(crowds[tool].turn(*cases[name], chosen.seconds or turn_s, views=name == VIEWS))
            rows.append((name, *(cell for done in turns.values() for cell in cells_of(done))))
    columns = [cell for tool in tools for cell in (f"{tool}: calls/s", "p99", "longest", "slowest")]
    report(chosen, table(("callers", *columns), rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(*sys.argv[2:])
    else:
        main()
