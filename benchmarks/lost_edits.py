"""What is left of acknowledged edits, in retentive and in other memories for agents that keep texts?

    python benchmarks/lost_edits.py [--only NAME]

Four processes add fifty lines each to one note. An edit counts as acknowledged if its call returned, and as kept if its
line is in the note at the end. Then one process edits a note of its own, and is killed (`kill -9`) after ten edits,
five times. At the end: how many states of the note can be restored, and the bytes on disk.

Each memory is used as its own documentation says: by its edit if it has one, otherwise by a read and a write. Other
packages are installed into an environment of their own; what cannot be installed or run is named, and left out.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

PROCESSES, EDITS, KILLS, BEFORE_KILL = 4, 50, 5, 10
_opened: list[object] = []  # which must outlive a function
NOTE, KILLED = "/memories/log.md", "/memories/killed.md"


class Memory(NamedTuple):
    """Functions of a memory that processes share: add a line to a note, read a note, and count its earlier states."""

    add: Callable[[str, str], object]
    read: Callable[[str], str]
    states: Callable[[str], int] = lambda _: 0


def local_tool(folder: Path) -> Memory:
    """The local memory tool of Anthropic's SDK."""
    from anthropic.tools import BetaLocalFilesystemMemoryTool

    return _by_tool(BetaLocalFilesystemMemoryTool(base_path=str(folder)))


def _by_tool(tool: Any, states: Callable[[str], int] = lambda _: 0) -> Memory:
    def add(note: str, line: str) -> object:
        return tool.call({"command": "insert", "path": note, "insert_line": 0, "insert_text": f"{line}\n"})

    for note in (NOTE, KILLED):
        with suppress(Exception):  # another process has created it
            tool.call({"command": "create", "path": note, "file_text": "start\n"})
    return Memory(add, lambda note: str(tool.call({"command": "view", "path": note})).replace("\t", "\n"), states)


def retentive_in(url: str) -> Callable[[Path], Memory]:
    """The tool of retentive on a location."""

    def memory(folder: Path) -> Memory:
        import retentive

        at = url.format(folder)
        store = retentive.open(at).store()
        return _by_tool(retentive.MemoryTool(at, actor="session:benchmark"), lambda note: len(store.versions(note)) - 1)

    return memory


def agentfs(folder: Path) -> Memory:
    """AgentFS: files in a SQLite database."""
    from agentfs_sdk import AgentFS, AgentFSOptions, ErrnoException  # type: ignore[import-not-found] # in its own environment

    loop = asyncio.new_event_loop()
    files = loop.run_until_complete(AgentFS.open(AgentFSOptions(path=str(folder / "agent.db")))).fs

    def read(note: str) -> str:
        try:
            return str(loop.run_until_complete(files.read_file(note)))
        except ErrnoException as error:
            if error.code != "ENOENT":
                raise
            return ""

    def add(note: str, line: str) -> object:
        return loop.run_until_complete(files.write_file(note, f"{line}\n{read(note)}"))

    return Memory(add, read)


def langgraph(folder: Path) -> Memory:
    """The store of LangGraph in SQLite."""
    from langgraph.store.sqlite import SqliteStore  # type: ignore[import-not-found] # in its own environment

    _opened.append(context := SqliteStore.from_conn_string(str(folder / "store.db")))
    store = context.__enter__()
    store.setup()

    def read(note: str) -> str:
        found = store.get(("memories",), note)
        return str(found.value["text"]) if found else ""

    return Memory(lambda note, line: store.put(("memories",), note, {"text": f"{line}\n{read(note)}"}), read)


def server_memory(folder: Path) -> Memory:
    """The reference memory server of MCP. Each process starts one, as each client does."""
    from server_peers import Peer

    server = Peer(folder)
    for note in (NOTE, KILLED):
        entity = {"name": note, "entityType": "note", "observations": []}
        server.ask("tools/call", name="create_entities", arguments={"entities": [entity]})

    def add(note: str, line: str) -> object:
        added = {"observations": [{"entityName": note, "contents": [line]}]}
        return server.ask("tools/call", name="add_observations", arguments=added)

    return Memory(add, lambda note: "\n".join(server.view(note)))


class Candidate(NamedTuple):
    """A memory by its name in the table, and the packages that it needs beside this project."""

    name: str
    memory: Callable[[Path], Memory]
    packages: tuple[str, ...] = ()


CANDIDATES = {
    "sdk": Candidate("Anthropic SDK's local tool", local_tool),
    "server-memory": Candidate("MCP server-memory", server_memory),
    "langgraph": Candidate("LangGraph SqliteStore", langgraph, ("langgraph-checkpoint-sqlite>=3.1,<4",)),
    "agentfs": Candidate("AgentFS", agentfs, ("agentfs-sdk>=0.6.4,<0.7",)),
    "directory": Candidate("**retentive**, plain files", retentive_in("{}/memory")),
    "sqlite": Candidate("**retentive**, SQLite", retentive_in("sqlite:///{}/memory.db")),
}


def work(kind: str, folder: str, note: str, lines: list[str]) -> None:
    """Add lines in this process as soon as it is told to, and print each that was acknowledged."""
    memory = None
    with suppress(Exception):  # AgentFS locks other processes out; it is tried again
        memory = CANDIDATES[kind].memory(Path(folder))
    print("ready", flush=True)
    sys.stdin.readline()
    memory = memory or CANDIDATES[kind].memory(Path(folder))
    for line in lines:
        try:
            memory.add(note, line)
        except Exception:  # whatever it raises, the edit was not acknowledged
            continue
        print(line, flush=True)


def result(kind: str, folder: str) -> None:
    """Print the states and then the lines of both notes."""
    memory = CANDIDATES[kind].memory(Path(folder))
    print(memory.states(NOTE), memory.read(NOTE), memory.read(KILLED), sep="\n")


class Workers:
    """Processes that use a memory in a folder."""

    def __init__(self, kind: str, folder: Path, python: str) -> None:
        self._command = [python, str(Path(__file__).resolve()), "--process", kind, str(folder)]

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a process, and wait until it is ready."""
        pipe = subprocess.PIPE
        process = subprocess.Popen([*self._command, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            process.kill()
            raise OSError(process.communicate()[1][-300:])
        return process

    def together(self, edits: int) -> list[str]:
        """Lines that were acknowledged to processes which edit one note at the same time."""
        own = [[f"{process}-{number}" for number in range(edits)] for process in range(PROCESSES)]
        processes = [self.started(NOTE, *lines) for lines in own]
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        return [line for process in processes for line in process.communicate()[0].split()]

    def killed(self, number: int) -> list[str]:
        """Lines that were acknowledged to a process before it was killed while it edited on."""
        process = self.started(KILLED, *(f"{number}-{line}" for line in range(10_000)))
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        seen = [process.stdout.readline().strip() for _ in range(BEFORE_KILL)]
        process.kill()
        return [line for line in [*seen, *process.communicate()[0].split("\n")[:-1]] if line]

    def result(self) -> tuple[int, set[str]]:
        """The number of earlier states, and all lines."""
        done = subprocess.run(self._command, capture_output=True, text=True, check=True)
        states, *lines = done.stdout.split("\n")
        return int(states), {line.strip() for line in lines}


def measured(kind: str, place: Path, edits: int) -> tuple[str, ...]:
    """A row of the table. Raises `OSError` or `CalledProcessError` if the memory cannot be run here."""
    candidate, folder, python = CANDIDATES[kind], place / kind, sys.executable
    folder.mkdir()
    if candidate.packages:
        venv.create(place / f"{kind}-python", with_pip=True)
        python = str(place / f"{kind}-python" / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", *candidate.packages], check=True, capture_output=True)
    workers = Workers(kind, folder, python)
    together = workers.together(edits)
    killed = [line for number in range(KILLS if edits == EDITS else 1) for line in workers.killed(number)]
    states, lines = workers.result()
    kept, after = (sum(line in lines for line in some) for some in (together, killed))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and "node_modules" not in path.parts)
    return (
        candidate.name, str(len(together)), f"{kept}", "all" if after == len(killed) else f"{after} of {len(killed)}",
        str(states or "none"), f"{size / 1000:,.0f} KB",
    )  # fmt: skip


def rows(kinds: list[str], place: Path, edits: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of all memories that can be run here."""
    for kind in kinds:
        try:
            yield measured(kind, place, edits)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{CANDIDATES[kind].name} cannot be run here: {error}", file=sys.stderr)


def main() -> None:
    """Print the table, and exit with status 1 if an edit of retentive is lost."""
    from figures import parser, report, table, workplace

    options = parser(__doc__)
    options.add_argument("--only", action="append", choices=CANDIDATES, metavar="NAME", help=", ".join(CANDIDATES))
    chosen = options.parse_args()
    edits = 3 if chosen.size == "tiny" else EDITS
    with workplace(chosen.dir) as place:
        found = list(rows(chosen.only or list(CANDIDATES), place.resolve(), edits))
    head = (f"{PROCESSES} processes x {edits} edits", "acknowledged", "kept", f"kept after {KILLS} x `kill -9`")
    report(chosen, table((*head, "states to go back to", "on disk"), found))
    sys.exit(any("retentive" in row[0] and (row[1] != row[2] or row[3] != "all") for row in found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--process"]:
        kind, folder, *more = sys.argv[2:]
        work(kind, folder, more[0], more[1:]) if more else result(kind, folder)
    else:
        main()
