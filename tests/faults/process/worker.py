"""Process that writes without pause until it is killed: `python -m faults.process.worker URL WRITERS ACK_FD`.

Each writer is a thread with a stream of commands of its own. A writer acknowledges every reply at once with a line to
the parent, "3 ok" or "3 error TEXT", and stops after an error.
"""

from __future__ import annotations

import json
import os
import sys
import threading

from support.oracle import Tree, below
from support.targets import Target, open_target

from .rounds import RAISED
from .stream import Writer, commands


def main(url: str, writers: list[Writer], ack_fd: int) -> None:
    """Open the store, read the state of each writer, and write until the process is killed."""
    os.write(ack_fd, b"opening\n")
    target = open_target(url)
    trees = [home_of(target, writer) for writer in writers]
    os.write(ack_fd, b"ready\n")
    threads = [
        threading.Thread(target=write, args=(target, number, writer, trees[number], ack_fd))
        for number, writer in enumerate(writers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def home_of(target: Target, writer: Writer) -> Tree:
    """Return the part of a memory store that belongs to a writer."""
    tree = target.state(writer.store).tree
    return {path: tree[path] for path in below(tree, writer.home)}


def write(target: Target, number: int, writer: Writer, tree: Tree, ack_fd: int) -> None:
    """Run one stream. An exception of a command is acknowledged as an error and ends the stream."""
    for command, _ in commands(writer, tree):
        try:
            answer = target.execute(writer.store, command)
            error = answer.text if answer.is_error else None
        except Exception as raised:  # the judge decides about every exception
            error = f"{RAISED} {type(raised).__name__}: {raised}"
        if error is not None:
            os.write(ack_fd, f"{number} error {json.dumps(error)}\n".encode())
            return
        os.write(ack_fd, f"{number} ok\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], [Writer(**each) for each in json.loads(sys.argv[2])], int(sys.argv[3]))
