"""Many processes on one backend: `python -m contract.concurrency.crowd URL TASK PROCESSES COUNT`.

The processes are forked before a backend is opened. Each process opens its own backend, waits for the others, and
starts at the same time as they do. Each process prints one JSON line to stdout.
"""

from __future__ import annotations

import json
import os
import sys

import retentive  # noqa: F401  (loaded once, before the forks)
from support.targets import compile_patterns, open_target

from .tasks import create_one, edit


def main(url: str, task: str, processes: int, count: int) -> None:
    """Fork the workers, start all of them at once, and wait until all have ended."""
    compile_patterns()
    ready, tell_ready = os.pipe()
    go, let_go = os.pipe()
    pids: list[int] = []
    for worker in range(processes):
        pid = os.fork()
        if pid == 0:
            os.close(let_go)
            run_worker(url, task, worker, count, gate=(tell_ready, go))
        pids.append(pid)
    os.close(tell_ready)
    for _ in pids:
        os.read(ready, 1)
    os.close(let_go)
    for pid in pids:
        os.waitpid(pid, 0)


def run_worker(url: str, task: str, worker: int, count: int, *, gate: tuple[int, int]) -> None:
    """Run one worker process. Never returns."""
    try:
        target = open_target(url)
        os.write(gate[0], b"r")
        os.read(gate[1], 1)  # returns when the parent closes its end of the pipe
        if task == "edit":
            done = edit(target, worker, count)
            said: object = [done.edits, done.errors]
        else:
            said = create_one(target, worker)
        target.close()
    except BaseException as error:  # the test reads it from the output
        said = [0, [f"RAISED {error!r}"]]
        os.write(gate[0], b"r")
    os.write(1, json.dumps([worker, said]).encode() + b"\n")
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
