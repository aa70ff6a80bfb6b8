"""Parent, child and a thread use one backend, opened before the fork: run as `contract.concurrency.forked URL COUNT`.

Each increments a line of its own in one memory. The program prints the error replies.
"""

from __future__ import annotations

import os
import sys
import threading

from support.commands import create, edit
from support.targets import Target, open_target

STORE = "default"
SHARED = "/memories/shared.md"


def counter(worker: int, value: int) -> str:
    return f"worker {worker} counts {value};"


def count(target: Target, worker: int, start: int, end: int) -> None:
    for value in range(start, end):
        answer = target.execute(STORE, edit(counter(worker, value), counter(worker, value + 1), SHARED))
        if answer.is_error:
            os.write(1, f"{worker}: {answer.text}\n".encode())


def main(url: str, times: int) -> None:
    target = open_target(url)
    assert not target.execute(STORE, create(SHARED, "".join(counter(worker, 0) + "\n" for worker in range(3)))).is_error
    count(target, 2, 0, 2)
    thread = threading.Thread(target=count, args=(target, 2, 2, times))
    thread.start()
    pid = os.fork()
    count(target, 1 if pid == 0 else 0, 0, times)
    if pid == 0:
        target.close()
        os._exit(0)
    os.waitpid(pid, 0)
    thread.join()
    target.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
