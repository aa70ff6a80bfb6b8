"""One backend, opened before a fork and used by both processes.

Usage: `python -m contract.concurrency.forked URL COUNT busy

idle`
"""

from __future__ import annotations

import json
import os
import sys
import threading

from support.targets import open_target

from .tasks import TaskResult, edit, prepare


def main(url: str, count: int, *, busy: bool) -> None:
    """Fork, then edit one memory in parent and child through one backend object.

    In mode `busy`, a thread writes meanwhile.
    """
    target = open_target(url)
    prepare(target, 3)
    thread = threading.Thread(target=lambda: report(edit(target, 2, count - 2, start=2)))
    if busy:
        report(edit(target, 2, 2))
        thread.start()
    pid = os.fork()
    report(edit(target, 1 if pid == 0 else 0, count))
    if pid == 0:
        target.close()
        os._exit(0)
    os.waitpid(pid, 0)
    if busy:
        thread.join()
    target.close()


def report(done: TaskResult) -> None:
    """Print one line for the test."""
    os.write(1, json.dumps([done.edits, done.errors]).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), busy=sys.argv[3] == "busy")
