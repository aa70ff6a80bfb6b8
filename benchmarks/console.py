"""Pages of the web console for a store of 100,000 memories and 1,000,000 versions: time to the first byte, and size.

    python benchmarks/console.py [--quick] [--store FOLDER] [--only ROUTE ...]

The store is in SQLite, and has an audit log. With --store, it is built in that folder once and kept, so that later runs
only measure; otherwise it is removed afterwards. A real server answers on a loopback socket, one request at a time over
one connection, as a browser of one person sends them. The first byte is measured from the end of the request to the
head of the answer; the size is that of the page compressed with gzip.
"""

from __future__ import annotations

import gzip
import http.client
import math
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from time import perf_counter_ns
from urllib.parse import urlencode, urlsplit

import retentive
from figures import duration, parser, report, table, workplace
from retentive import MemoryStore
from retentive.audit.chain import append
from retentive.console.pages import PAGES
from retentive.console.web import console
from retentive.storage.contract import Actor, Transaction, Version, as_actor, create_or_update, now_us

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.http_api import Api, serving

PER_DIRECTORY = 100
ACTORS = 20
_STREAMS = {"/s/{store}/news", "/s/{store}/export", "/backup"}
"""Routes without a page: news, and archives."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Size of the store, and number of requests of each route."""

    memories: int
    versions: int
    calls: int

    @property
    def batch(self) -> int:
        """Versions of one change, each of another memory."""
        return min(2_000, self.memories)


SCALES = {
    "full": Scale(memories=100_000, versions=1_000_000, calls=40),
    "quick": Scale(memories=10_000, versions=100_000, calls=20),
    "tiny": Scale(memories=300, versions=900, calls=2),
}


def path_of(number: int) -> str:
    """Path of a memory: 100 in a directory."""
    return f"/memories/{number // PER_DIRECTORY:04}/{number % PER_DIRECTORY:02}.md"


def text_of(number: int, version: int) -> str:
    """A Markdown text of some 600 bytes, one line of which differs between versions."""
    lines = [f"- item {line} of {number}, as the agent noted it" for line in range(12)]
    lines[version % len(lines)] = f"- state {version} of {number}"
    return f"# Memory {number}\n\n" + "\n".join(lines) + "\n"


def fill(store: MemoryStore, scale: Scale) -> None:
    """Fill the store: equally many versions of each memory, an actor for each batch, and an audit entry for ten."""
    for start in range(0, scale.versions, scale.batch):
        numbers = range(start, min(start + scale.batch, scale.versions))
        actor = as_actor(f"session:worker-{start // scale.batch % ACTORS}")

        def work(tx: Transaction, numbers: range = numbers, actor: Actor | None = actor) -> None:
            changes = []
            for number in numbers:
                version, at = divmod(number, scale.memories)
                path, data = path_of(at), text_of(at, version)
                before = tx.get(path).memory if version else None
                changes.append(create_or_update(before, path, data.encode()))
            recorded = tx.record(changes, actor)
            for first in range(0, len(recorded), 10):
                listed = [list(each) for each in recorded[first : first + 10]]
                entry = {"time": now_us(), "actor": str(actor), "operation": "import", "changes": listed}
                append(tx, store.id, {**entry, "integration": "library", "outcome": "ok"}, ())

        store._core.backend.write(store.id, work)
    store.change_settings({"audit": True, "review": ["session:new-*"], "trust": {"session:doubted": "unconfirmed"}})
    for number in range(40):
        store.create(f"/memories/proposed/{number:02}.md", text_of(number, 0), actor="session:new-1")


def store_url(folder: Path, scale: Scale) -> str:
    """URL of the location in a folder."""
    return f"sqlite:///{folder.resolve()}/console-{scale.memories}-{scale.versions}.db"


@contextmanager
def built(folder: Path, scale: Scale) -> Iterator[MemoryStore]:
    """The store in a folder, which is filled unless it was before."""
    mark = folder / f"filled-{scale.memories}-{scale.versions}"
    with retentive.open(store_url(folder, scale), max_memories=0, max_store_bytes=0) as place:
        store = place.store("large")
        if not mark.exists():
            if store.usage().memories:
                sys.exit(f"{folder} has a store that was not filled to its end; remove it")
            fill(store, scale)
            mark.touch()
        yield store


class Browser:
    """One signed-in person on one connection."""

    def __init__(self, api: Api) -> None:
        parts = urlsplit(api.url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
        self._cookies: dict[str, str] = {}
        self._origin = api.url
        _, page, _ = self.ask("/console/login")
        token = re.search(rb'name="csrf" value="([^"]+)"', page)
        assert token is not None
        self._send("POST", "/console/login", urlencode({"csrf": token[1].decode(), "key": api.key, "next": ""}))

    def _send(self, method: str, url: str, body: str | None = None) -> tuple[int, bytes, int]:
        headers = {"cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        if body is not None:
            headers |= {"origin": self._origin, "content-type": "application/x-www-form-urlencoded"}
        self._connection.request(method, url, body, headers)
        sent = perf_counter_ns()
        answer = self._connection.getresponse()
        first = perf_counter_ns() - sent
        for line in answer.headers.get_all("set-cookie") or ():
            self._cookies |= {name: found.value for name, found in SimpleCookie(line).items()}
        return answer.status, answer.read(), first

    def ask(self, url: str) -> tuple[int, bytes, int]:
        """Status, body and nanoseconds to the first byte."""
        return self._send("GET", url)


def routes(store: MemoryStore, scale: Scale) -> dict[str, list[tuple[str, Callable[[random.Random], str]]]]:
    """For each route with GET, its cases: a name, and the URL of a request."""
    at, last = f"/console/s/{store.id}", scale.versions
    newest = store.history.page(limit=100).items
    ids = [each for each in newest if each.path.startswith("/memories/0")]
    proposal = store.review.pending()[0].id

    def some(draw: random.Random) -> str:
        return path_of(draw.randrange(scale.memories)).removeprefix("/memories/")

    def directory(draw: random.Random) -> str:
        return some(draw).partition("/")[0]

    def fixed(url: str) -> list[tuple[str, Callable[[random.Random], str]]]:
        return [("", lambda _: url)]

    def version(draw: random.Random) -> Version:
        return draw.choice(ids)

    batches, root = last // scale.batch, "/s/{store}"
    newest_of = scale.memories // scale.batch  # so many batches have no later changes
    return {
        "/": fixed("/console/"),
        root: fixed(at),
        f"{root}/go": [("", lambda draw: f"{at}/go?path={some(draw)}")],
        f"{root}/tree": fixed(f"{at}/tree"),
        f"{root}/tree/{{path:path}}": [
            ("root", lambda _: f"{at}/tree/"),
            ("directory", lambda draw: f"{at}/tree/{directory(draw)}"),
            ("past", lambda draw: f"{at}/tree/{directory(draw)}?at=r{draw.randrange(1, batches + 1)}"),
            ("past root", lambda draw: f"{at}/tree/?at=r{draw.randrange(1, batches + 1)}"),
        ],
        f"{root}/children/{{path:path}}": [("", lambda draw: f"{at}/children/{directory(draw)}")],
        f"{root}/m/{{path:path}}": [
            ("rendered", lambda draw: f"{at}/m/{some(draw)}"),
            ("raw", lambda draw: f"{at}/m/{some(draw)}?view=raw"),
            ("blame", lambda draw: f"{at}/m/{some(draw)}?view=blame"),
            ("history", lambda draw: f"{at}/m/{some(draw)}?view=history"),
            ("past", lambda draw: f"{at}/m/{some(draw)}?at=r{batches}"),
        ],
        f"{root}/id/{{memory_id}}": [("", lambda draw: f"{at}/id/{version(draw).memory_id}")],
        f"{root}/v/{{version_id}}": [("", lambda draw: f"{at}/v/{version(draw).id}")],
        f"{root}/v/{{version_id}}/download": [("", lambda draw: f"{at}/v/{version(draw).id}/download")],
        f"{root}/diff": [("", lambda draw: f"{at}/diff?old={version(draw).id}&new={version(draw).id}")],
        f"{root}/diff/{{pair}}": [("", lambda draw: f"{at}/diff/{version(draw).id}..{version(draw).id}")],
        f"{root}/change/{{revision}}": [
            ("of one memory", lambda draw: f"{at}/change/{version(draw).id}"),
            (f"of {scale.batch:,}", lambda draw: f"{at}/change/r{draw.randrange(1, batches + 1)}"),
        ],
        f"{root}/by/{{actor:path}}": [
            ("", lambda draw: f"{at}/by/session:worker-{draw.randrange(ACTORS)}"),
            ("nobody", lambda _: f"{at}/by/user:nobody"),
        ],
        f"{root}/since/{{path:path}}": [
            ("directory", lambda draw: f"{at}/since/{directory(draw)}?at=r{batches}"),
            ("root", lambda _: f"{at}/since/?at=r{batches}"),
        ],
        f"{root}/activity": [
            ("", lambda _: f"{at}/activity"),
            ("one actor", lambda draw: f"{at}/activity?actor=session:worker-{draw.randrange(ACTORS)}"),
            ("one path", lambda draw: f"{at}/activity?path={some(draw)}"),
        ],
        f"{root}/search": [("", lambda draw: f"{at}/search?q=item+{draw.randrange(scale.memories)}")],
        f"{root}/settings": fixed(f"{at}/settings"),
        f"{root}/stats": fixed(f"{at}/stats"),
        f"{root}/edit/{{path:path}}": [("", lambda draw: f"{at}/edit/{some(draw)}")],
        f"{root}/new": fixed(f"{at}/new"),
        f"{root}/move/{{path:path}}": [("", lambda draw: f"{at}/move/{some(draw)}")],
        f"{root}/delete/{{path:path}}": [("", lambda draw: f"{at}/delete/{some(draw)}")],
        f"{root}/undo": [
            ("of one memory", lambda draw: f"{at}/undo?change={version(draw).id}"),
            (
                f"of {scale.batch:,}",
                lambda draw: f"{at}/undo?change=r{draw.randrange(batches - newest_of + 1, batches + 1)}",
            ),
        ],
        f"{root}/restore": [
            ("of a memory", lambda draw: f"{at}/restore?path=/memories/{some(draw)}&to=r{batches}"),
        ],
        f"{root}/review": fixed(f"{at}/review"),
        f"{root}/review/{{proposal_id}}": fixed(f"{at}/review/{proposal}"),
        f"{root}/trust": fixed(f"{at}/trust"),
        f"{root}/trust/confirm": [("", lambda draw: f"{at}/trust/confirm?path=/memories/{some(draw)}")],
        f"{root}/manage": fixed(f"{at}/manage"),
        "/stores/new": fixed("/console/stores/new"),
        f"{root}/sensitive": fixed(f"{at}/sensitive"),
        f"{root}/redact": [("", lambda draw: f"{at}/redact?version={version(draw).id}")],
        f"{root}/erase": [
            ("find", lambda _: f"{at}/erase"),
            ("", lambda draw: f"{at}/erase?id={version(draw).memory_id}"),
        ],
        f"{root}/audit": fixed(f"{at}/audit"),
        "/keys": fixed("/console/keys"),
        "/health": fixed("/console/health"),
    }


def of_page(browser: Browser, url: Callable[[random.Random], str], calls: int) -> tuple[Sequence[int], int, int]:
    """Nanoseconds to the first byte of each request, the largest page in bytes, and the status of the last one."""
    draw, times, largest, status = random.Random(1), [], 0, 0
    for number in range(calls + 1):
        status, body, first = browser.ask(url(draw))
        assert status in {200, 303, 404}, (url(draw), status)
        largest = max(largest, len(gzip.compress(body, 6)))
        if number:  # the first one reads templates
            times.append(first)
        if sum(times) > 20e9:
            break
    return times, largest, status


def measured(browser: Browser, store: MemoryStore, scale: Scale, only: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Rows of all routes: the time to the first byte, and the compressed size of the largest page."""
    for route, cases in routes(store, scale).items():
        for name, url in cases:
            if only and not any(each in f"{route} {name}" for each in only):
                continue
            times, size, _ = of_page(browser, url, scale.calls)
            ordered = sorted(times)
            p50, p95 = (ordered[math.ceil(part * len(ordered)) - 1] / 1e6 for part in (0.5, 0.95))
            yield route, name, duration(p50), duration(p95), f"{size / 1000:.1f} kB"


def main() -> None:
    """Build, measure and print."""
    options = parser(__doc__)
    options.add_argument("--store", type=Path, metavar="FOLDER", help="build the store here, once, and keep it")
    options.add_argument("--only", action="append", default=[], metavar="TEXT", help="only routes with this text")
    chosen = options.parse_args()
    scale, kept = SCALES[chosen.size], chosen.store
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    with nullcontext(kept) if kept is not None else workplace(chosen.dir) as folder, built(folder, scale) as store:
        place = retentive.open(store_url(folder, scale), max_memories=0, max_store_bytes=0)
        with place as opened, serving(opened, more=lambda server: console(server).routes()) as api:
            found = routes(store, scale)
            listed = {each.path for each in PAGES if each.method == "GET"}
            assert found.keys() | _STREAMS == listed, found.keys() ^ listed
            rows = list(measured(Browser(api), store, scale, chosen.only))
    report(chosen, table(("route", "case", "p50", "p95", "gzip"), rows))


if __name__ == "__main__":
    main()
