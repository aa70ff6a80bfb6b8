"""`retentive serve` under load: the highest rates, and the times at half of them.

    python benchmarks/server.py [--at LOCATION] [--workers 2] [--only CASE] [--quick]

64 connections send to memories of 1 KB of their own. First each sends its next request when the answer to the last one
has arrived, which gives the highest rate. Then requests are due at half of that rate, whether or not earlier ones were
answered (an open loop), and a time begins when the request is due. The generator runs on the same machine as the server
and takes part of its time. Every edit is checked at the end: a memory must hold its last acknowledged text.

The peers then do the same views and edits in the same run; `server_peers.py` describes the server of each.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from urllib.parse import urlsplit

from candidates import edit as edit_command
from candidates import memory_text, state
from figures import Figures, duration, figures, own_folder, parser, rate, report, table, workplace
from server_peers import measured_peers

CONNECTIONS = 64
STREAMS = {"full": 1000, "quick": 200, "tiny": 5}
TURN_S = {"full": 20.0, "quick": 5.0, "tiny": 0.2}
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass
class Client:
    """A connection with a memory of its own. `edits` counts the acknowledged ones."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    key: str
    path: str = ""
    edits: int = 0

    async def ask(self, method: str, path: str, body: object = None) -> dict[str, object]:
        """Send a request and return the body of its answer, which must be 200."""
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self.key}\r\ncontent-length: {len(data)}"
        self.writer.write(f"{head}\r\n\r\n".encode() + data)
        head_line = await self.reader.readuntil(b"\r\n\r\n")
        found = _LENGTH.search(head_line)
        text = await self.reader.readexactly(int(found[1]) if found else 0)
        if not head_line.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"{method} {path}: {head_line[:30]!r} {text[:300]!r}")
        answer: dict[str, object] = json.loads(text)
        return answer


def text_after(edits: int) -> str:
    """Text of a memory after this number of edits."""
    return memory_text(0).replace(state(0), state(edits))


async def view(client: Client) -> None:
    """Get the memory with its text."""
    await client.ask("GET", client.path)


async def edit(client: Client) -> None:
    """Replace a line of the memory."""
    await client.ask("POST", client.path, {"content": text_after(client.edits + 1)})
    client.edits += 1


async def tool_view(client: Client) -> None:
    """View the memory by the tool route."""
    await _use_tool(client, {"command": "view", "path": _tool_path(client)})


async def tool_edit(client: Client) -> None:
    """Replace a line of the memory by the tool route."""
    await _use_tool(client, edit_command(_tool_path(client), client.edits))
    client.edits += 1


def _tool_path(client: Client) -> str:
    return f"/memories/{client.path.rpartition('#')[2]}"


async def _use_tool(client: Client, command: Mapping[str, object]) -> None:
    block = {"type": "tool_use", "id": f"toolu_{os.urandom(8).hex()}", "name": "memory", "input": command}
    answer = await client.ask("POST", f"{client.path.partition('/memories/')[0]}/tool", block)
    if answer.get("is_error"):
        raise SystemExit(f"the tool answered {answer}")


CASES: dict[str, Callable[[Client], Awaitable[None]]] = {
    "views": view,
    "edits": edit,
    "tool views": tool_view,
    "tool edits": tool_edit,
}


@contextmanager
def served(location: str, workers: int) -> Iterator[tuple[str, str, int]]:
    """A running server: its URL, an admin key and the id of its process."""
    run = [str(Path(sys.executable).with_name("retentive")), "--at", location]
    made = subprocess.run([*run, "keys", "new", "load", "--scope", "admin"], capture_output=True, text=True, check=True)
    options = ["serve", "--port", "0", "--workers", str(workers), "--no-request-log", "--streams", "1000"]
    with subprocess.Popen([*run, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout or ():
                if found := re.search(r"https?://127\.0\.0\.1:\d+", line):
                    yield found[0], made.stdout.strip(), process.pid
                    return
            raise SystemExit("the server did not start")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


async def connected(url: str, key: str) -> Client:
    """A client on a connection of its own; waits until the server answers."""
    parts = urlsplit(url)
    for _ in range(200):
        try:
            return Client(*await asyncio.open_connection(parts.hostname, parts.port), key)
        except OSError:
            await asyncio.sleep(0.05)
    raise SystemExit("the server cannot be reached")


async def prepared(url: str, key: str) -> list[Client]:
    """Connected clients, each with a memory."""
    clients = [await connected(url, key) for _ in range(CONNECTIONS)]
    store = await clients[0].ask("POST", "/v1/memory_stores", {"name": "load"})
    for number, client in enumerate(clients):
        memories = f"/v1/memory_stores/{store['id']}/memories"
        made = await client.ask("POST", memories, {"path": f"/{number}.md", "content": memory_text(0)})
        client.path = f"{memories}/{made['id']}?view=full#{number}.md"
    return clients


async def closed(clients: list[Client], work: Callable[[Client], Awaitable[None]], turn_s: float) -> Figures:
    """Figures of clients that send when the last answer has arrived."""
    begun = perf_counter_ns()
    times: list[int] = []

    async def run(client: Client) -> None:
        while (before := perf_counter_ns()) < begun + turn_s * 1e9:
            await work(client)
            times.append(perf_counter_ns() - before)

    await asyncio.gather(*map(run, clients))
    return figures(times, span_ns=perf_counter_ns() - begun)


async def opened(
    clients: list[Client], work: Callable[[Client], Awaitable[None]], per_second: float, turn_s: float
) -> Figures:
    """Figures of requests that are due at a fixed rate. A time begins when its request is due."""
    begun, times = perf_counter_ns(), list[int]()
    due = iter(range(int(per_second * turn_s)))

    async def run(client: Client) -> None:
        for number in due:
            at = begun + int(number / per_second * 1e9)
            if (early := at - perf_counter_ns()) > 0:
                await asyncio.sleep(early / 1e9)
            await work(client)
            times.append(perf_counter_ns() - at)

    await asyncio.gather(*map(run, clients))
    return figures(times, span_ns=perf_counter_ns() - begun)


async def check(clients: list[Client]) -> None:
    """Stop the run if a memory does not hold its last acknowledged text."""
    for client in clients:
        if (await client.ask("GET", client.path))["content"] != text_after(client.edits):
            raise SystemExit(f"{client.path} lost an edit")


async def measured(url: str, key: str, names: list[str], turn_s: float) -> list[tuple[Figures, Figures]]:
    """The highest rate and the figures at half of it, for each case."""
    clients, found = await prepared(url, key), list[tuple[Figures, Figures]]()
    for name in names:
        await closed(clients, CASES[name], turn_s / 10)
        most = await closed(clients, CASES[name], turn_s)
        found.append((most, await opened(clients, CASES[name], most.per_second / 2, turn_s)))
        await check(clients)
    return found


async def idle_streams(url: str, key: str, count: int, parent: int) -> tuple[float, float]:
    """Memory of the processes of the server in MB before and with this number of idle event streams."""
    (first,) = [await connected(url, key)]
    store = await first.ask("POST", "/v1/memory_stores", {"name": "streams"})
    before, clients = _memory_mb(parent), list[Client]()
    for _ in range(count):
        client = await connected(url, key)
        head = f"GET /v1/memory_stores/{store['id']}/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n"
        client.writer.write(head.encode())
        await client.reader.readuntil(b": connected")
        clients.append(client)
    after = _memory_mb(parent)
    for client in clients:
        client.writer.close()
    return before, after


def _memory_mb(parent: int) -> float:
    """Resident memory of a process and its children. Pages that they share count once for each."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()
    sizes = (Path(f"/proc/{each}/statm").read_text("ascii").split()[1] for each in [str(parent), *children])
    return sum(map(int, sizes)) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Run the benchmark from the command line."""
    options = parser(__doc__)
    options.add_argument("--at", metavar="LOCATION", help="location to serve (default: a new SQLite file)")
    options.add_argument("--workers", type=int, default=2, help="processes of the server (default: 2)")
    options.add_argument("--only", choices=[*CASES, "streams", "peers"], action="append", help="measure only this case")
    chosen = options.parse_args()
    names = [name for name in CASES if not chosen.only or name in chosen.only]
    turn_s, tables = TURN_S[chosen.size], list[str]()
    with workplace(chosen.dir) as place:
        location = chosen.at or f"sqlite:///{own_folder(place, 'server') / 'memory.db'}"
        if names:
            with served(location, chosen.workers) as (url, key, _):
                found = asyncio.run(measured(url, key, names, turn_s))
            cells = [
                (name, rate(most.per_second), duration(most.p99_ms), duration(half.median_ms), duration(half.p99_ms))
                for name, (most, half) in zip(names, found, strict=True)
            ]
            tables.append(table(("case", "most /s", "its p99", "half: median", "half: p99"), cells))
        if not chosen.only or "streams" in chosen.only:
            with served(location, chosen.workers) as (url, key, process):
                before, after = asyncio.run(idle_streams(url, key, STREAMS[chosen.size], process))
            count = STREAMS[chosen.size]
            tables.append(f"{count:,} idle streams add {after - before:.0f} MB to the {before:.0f} MB of the server.")
        if not chosen.only or "peers" in chosen.only:
            rows = list(measured_peers(place, CONNECTIONS, turn_s))
            tables.append(table(("system", "case", "most /s", "median", "p99", "failed"), rows))
    report(chosen, *tables)


if __name__ == "__main__":
    main()
