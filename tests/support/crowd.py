"""Processes that are forked before a backend is opened, and begin their work at the same moment."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import TypeAlias

from support.targets import compile_patterns

Work: TypeAlias = Callable[[int, Callable[[], None]], None]
"""Work of a process, with its number and a function that returns when all processes have called it."""


def crowd(processes: int, work: Work) -> list[int]:
    """Run the work in this many processes, and return their exit codes. Nobody waits for a process that failed."""
    compile_patterns()
    ready, tell_ready = os.pipe()
    go, let_go = os.pipe()
    pids = []
    for number in range(processes):
        pid = os.fork()
        if pid == 0:
            os.close(let_go)
            _run(lambda begin, number=number: work(number, begin), tell_ready, go)  # type: ignore[misc]
        pids.append(pid)
    os.close(tell_ready)
    for _ in pids:
        os.read(ready, 1)
    os.close(let_go)  # for which the others wait
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def _run(work: Callable[[Callable[[], None]], None], tell_ready: int, go: int) -> None:
    def begin() -> None:
        os.write(tell_ready, b"r")
        os.read(go, 1)

    status = 1
    try:
        work(begin)
        status = 0
    except BaseException:
        traceback.print_exc()
        os.write(tell_ready, b"r")
    finally:
        sys.stderr.flush()
        os._exit(status)
