"""How many acknowledged edits of one memory are kept, if four processes make fifty each?

    python benchmarks/lost_edits.py

Each process inserts its own lines at the top of the same memory, one after the other. An edit counts as acknowledged if
the call returned, and as kept if its line is in the memory at the end. The SDK's tool reads the file, changes the text
and writes the file, without a lock, so that it also overwrites what others have written in between.
"""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path
from typing import Any

from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool

from figures import conditions, workplace
from retentive import MemoryTool

PROCESSES, EDITS = 4, 50
PATH = "/memories/log.md"
_ready: list[Any] = []
NAMES = {"sdk": "the SDK's local tool", "directory": "retentive, directory", "sqlite": "retentive, SQLite"}


def tool(kind: str, folder: str) -> Any:
    """Return a memory tool on a folder that other processes use too."""
    if kind == "sdk":
        return BetaLocalFilesystemMemoryTool(base_path=folder)
    return MemoryTool(folder if kind == "directory" else f"sqlite:///{folder}/memory.db", actor="session:benchmark")


def wait_for_all(barrier: Any) -> None:
    """Keep the barrier, which the arguments of a call cannot contain."""
    _ready.append(barrier)


def edit(kind: str, folder: str, process: int, edits: int) -> list[str]:
    """Insert lines, and return those whose call returned. All processes begin together."""
    memory, acknowledged = tool(kind, folder), []
    _ready[0].wait()
    for number in range(edits):
        line = f"{process}-{number}"
        command = {"command": "insert", "path": PATH, "insert_line": 0, "insert_text": f"{line}\n"}
        try:
            memory.call(command)
        except (ToolError, OSError):
            continue
        acknowledged.append(line)
    return acknowledged


def measured(kind: str, edits: int) -> tuple[int, int]:
    """Return the numbers of acknowledged edits and of those that are kept."""
    with workplace(Path()) as place:
        folder = str(place.resolve())
        memory = tool(kind, folder)
        memory.call({"command": "create", "path": PATH, "file_text": "start\n"})
        spawn = multiprocessing.get_context("spawn")
        with spawn.Pool(PROCESSES, wait_for_all, [spawn.Barrier(PROCESSES)]) as pool:
            made = pool.starmap(edit, [(kind, folder, process, edits) for process in range(PROCESSES)], chunksize=1)
        rows = memory.call({"command": "view", "path": PATH}).splitlines()
        if kind != "sdk":
            memory.close()
    present = {row.partition("\t")[2] for row in rows}
    acknowledged = [line for lines in made for line in lines]
    return len(acknowledged), sum(line in present for line in acknowledged)


def main() -> None:
    """Print the table, and exit with status 1 if an edit of retentive is lost."""
    edits = 3 if "--tiny" in sys.argv else EDITS
    print(
        f"{conditions(Path())}\n\n| {PROCESSES} processes x {edits} edits | acknowledged | kept |\n| :-- | --: | --: |"
    )
    lost = 0
    for kind, name in NAMES.items():
        acknowledged, kept = measured(kind, edits)
        print(f"| {name} | {acknowledged} | {kept} |", flush=True)
        lost += acknowledged - kept if kind != "sdk" else 0
    sys.exit(lost > 0)


if __name__ == "__main__":
    main()
