"""Processes on one memory store: `python -m contract.concurrency.crowd URL TASK PROCESSES COUNT`.

The tasks `edit` and `create` have a backend for each process. `idle` and `busy` have one backend, opened before a fork
and used by parent and child; in `busy`, a thread writes meanwhile. Each worker prints one JSON line.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable

from support.crowd import crowd
from support.targets import open_target

from .tasks import create_one, edit, prepare


def main(url: str, task: str, processes: int, count: int) -> None:
    def work(worker: int, begin: Callable[[], None]) -> None:
        target = open_target(url)
        begin()
        tell(worker, edit(target, worker, count) if task == "edit" else create_one(target, worker))
        target.close()

    if task in {"edit", "create"}:
        crowd(processes, work)
    else:
        fork(url, count, busy=task == "busy")


def fork(url: str, count: int, *, busy: bool) -> None:
    """Edit one memory in parent and child through one backend."""
    target = open_target(url)
    prepare(target, 3)
    thread = threading.Thread(target=lambda: tell(2, edit(target, 2, count - 2, start=2)))
    if busy:
        tell(2, edit(target, 2, 2))
        thread.start()
    pid = os.fork()
    worker = 1 if pid == 0 else 0
    tell(worker, edit(target, worker, count))
    if pid == 0:
        target.close()
        os._exit(0)
    os.waitpid(pid, 0)
    if busy:
        thread.join()
    target.close()


def tell(worker: int, said: object) -> None:
    os.write(1, json.dumps([worker, said]).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
