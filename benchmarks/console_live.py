"""Live pages of the web console: what do 50 of them cost a server while a store gets 100 edits a second?

    python benchmarks/console_live.py [--viewers 50] [--per-second 100] [--quick] [--json FILE]

Each viewer has its own sign-in and an open `/console/s/STORE/events`, as the activity page has. The edits come over the
HTTP API of the same process, at a fixed rate. Slices with and without viewers alternate, and the CPU time of the server
in the former minus that in the latter is that of the viewers. Every viewer must get the row of every edit.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

from figures import Sheet, announce, judged, own_folder, parser, steps, surroundings, workplace, write_json
from server import Client, connected, edit, opened, served, text_after

SLICES = {"full": 6, "quick": 2, "tiny": 1}
SLICE_S = {"full": 20.0, "quick": 8.0, "tiny": 1.0}
WRITERS = 8
CPU_BAR, MESSAGES_BAR = 10.0, 4.0
_ROW = re.compile(rb"<li>")
_TOKEN = re.compile(rb'name="csrf" value="([^"]+)"')


@dataclass
class Viewer:
    """A live page: the times of its messages, and the number of its rows."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    times: list[float] = field(default_factory=list)
    rows: int = 0

    async def read(self) -> None:
        """Count messages until the connection ends."""
        data = False
        while line := await self.reader.readline():
            data |= line.startswith(b"data:")
            self.rows += len(_ROW.findall(line))
            if line == b"\n" and data:
                data = False
                self.times.append(perf_counter())

    @property
    def most(self) -> int:
        """Most messages within a second."""
        return max((sum(0 <= other - at < 1 for other in self.times) for at in self.times), default=0)


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, so that its cookie is seen."""

    def redirect_request(self, *_: object) -> None:
        """Follow none."""


def signed_in(url: str, key: str) -> str:
    """The cookie of a new sign-in."""
    browser = urllib.request.build_opener(_Stay)
    with browser.open(f"{url}/console/login") as page:
        found, form = _TOKEN.search(page.read()), page.headers["set-cookie"].partition(";")[0]
    fields = urllib.parse.urlencode({"csrf": found[1].decode() if found else "", "key": key, "next": ""})
    asked = urllib.request.Request(f"{url}/console/login", fields.encode(), {"cookie": form, "origin": url})
    try:
        browser.open(asked)
    except urllib.error.HTTPError as answer:
        if answer.code == 303:
            return str(answer.headers["set-cookie"]).partition(";")[0]
        raise
    raise SystemExit("the sign-in failed")


async def watching(url: str, cookie: str, store_id: str) -> Viewer:
    """A viewer whose stream has begun."""
    parts = urlsplit(url)
    made = Viewer(*await asyncio.open_connection(parts.hostname, parts.port))
    head = f"GET /console/s/{store_id}/events HTTP/1.1\r\nhost: {parts.netloc}\r\ncookie: {cookie}\r\n\r\n"
    made.writer.write(head.encode())
    answer = await made.reader.readuntil(b": connected")
    if not answer.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"no stream: {answer[:200]!r}")
    return made


async def writers(url: str, key: str) -> tuple[str, list[Client]]:
    """A new store, and clients with a memory each."""
    clients = [await connected(url, key) for _ in range(WRITERS)]
    store = await clients[0].ask("POST", "/v1/memory_stores", {"name": "live"})
    for number, client in enumerate(clients):
        memories = f"/v1/memory_stores/{store['id']}/memories"
        made = await client.ask("POST", memories, {"path": f"/{number}.md", "content": text_after(0)})
        client.path = f"{memories}/{made['id']}?view=full#{number}.md"
    return str(store["id"]), clients


@dataclass(frozen=True)
class Load:
    """Viewers and edits of a run."""

    viewers: int
    per_second: float
    size: str


async def measured(
    url: str, key: str, process: int, load: Load, step: Callable[[str], None]
) -> tuple[list[float], list[float], list[Viewer]]:
    """CPU of the server in percent of a core, in slices without and with viewers, and all viewers."""
    size, per_second = load.size, load.per_second
    store_id, clients = await writers(url, key)
    cookies = [signed_in(url, key) for _ in range(load.viewers)]
    without, with_viewers, viewers = list[float](), list[float](), list[Viewer]()
    await opened(clients, edit, per_second, SLICE_S[size] / 4)
    for _ in range(SLICES[size]):
        step("without viewers")
        without.append(await _slice(clients, per_second, SLICE_S[size], process))
        step("with viewers")
        there = [await watching(url, cookie, store_id) for cookie in cookies]
        reading = [asyncio.create_task(each.read()) for each in there]
        before = sum(client.edits for client in clients)
        with_viewers.append(await _slice(clients, per_second, SLICE_S[size], process))
        await asyncio.sleep(3)  # two sends
        edits = sum(client.edits for client in clients) - before
        for viewer, task in zip(there, reading, strict=True):
            task.cancel()
            viewer.writer.close()
            if viewer.rows != edits:
                raise SystemExit(f"a viewer got {viewer.rows} rows of {edits} edits")
        viewers += there
        await asyncio.sleep(0.5)
    return without, with_viewers, viewers


async def _slice(clients: list[Client], per_second: float, slice_s: float, process: int) -> float:
    before, begun = _cpu_s(process), perf_counter()
    await opened(clients, edit, per_second, slice_s)
    return 100 * (_cpu_s(process) - before) / (perf_counter() - begun)


def _cpu_s(parent: int) -> float:
    """CPU time of a process and its children."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()
    stats = (
        Path(f"/proc/{each}/stat").read_text("ascii").rpartition(")")[2].split() for each in [str(parent), *children]
    )
    return sum(int(found[11]) + int(found[12]) for found in stats) / os.sysconf("SC_CLK_TCK")


def sheet_of(without: list[float], with_viewers: list[float], viewers: list[Viewer], load: Load) -> Sheet:
    """The table."""
    extra = statistics.median(after - before for before, after in zip(without, with_viewers, strict=True))
    rates = [(len(each.times) - 1) / (each.times[-1] - each.times[0]) for each in viewers if len(each.times) > 1]
    per_second = statistics.mean(rates) if rates else 0.0
    most = max(each.most for each in viewers)
    base = statistics.median(without)
    cells = [f"{base:.1f} %", f"{extra:.1f} %", f"{CPU_BAR:.0f} %", judged(extra, CPU_BAR, at_most=True)]
    sent = [f"{per_second:.2f}", str(most), f"{MESSAGES_BAR:.0f}", judged(most, MESSAGES_BAR, at_most=True)]
    record: dict[str, object] = {
        "viewers": load.viewers,
        "edits_per_s": load.per_second,
        "without_percent": without,
        "with_percent": with_viewers,
        "extra_percent": extra,
        "messages_per_s": per_second,
        "most_in_a_second": most,
    }
    columns = ("viewers", "edits/s", "server without", "added", "bar", "", "messages/s", "most in a second", "bar", "")
    return Sheet("Live pages", columns, [[str(load.viewers), f"{load.per_second:.0f}", *cells, *sent]], [record])


def main() -> None:
    """Run the benchmark from the command line."""
    options = parser(__doc__)
    options.add_argument("--viewers", type=int, default=50, help="live pages (default: 50)")
    options.add_argument("--per-second", type=float, default=100, help="edits a second (default: 100)")
    chosen = options.parse_args()
    around = surroundings(chosen.dir)
    announce(around)
    with workplace(chosen.dir) as place, steps(2 * SLICES[chosen.size], "live pages") as step:
        location = f"sqlite:///{own_folder(place, 'live').resolve() / 'memory.db'}"
        with served(location, 1) as (url, key, process):
            load = Load(chosen.viewers, chosen.per_second, chosen.size)
            found = asyncio.run(measured(url, key, process, load, step))
    sheet = sheet_of(*found, load)
    sheet.show()
    if chosen.json:
        write_json(chosen.json, "console_live", chosen.size, around, [sheet])


if __name__ == "__main__":
    main()
