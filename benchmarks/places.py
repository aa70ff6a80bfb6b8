"""Every backend, plain and encrypted: throughput of one client and of sixteen, and their waiting times.

    python benchmarks/places.py [--quick] [--at NAME=URL ...] [--only NAME ...]

PostgreSQL, MariaDB and an S3 (moto) are started for the run, with all commits synced to disk. A server that is
not installed is left out with a message. `--at ceph=s3://bucket?endpoint=...` adds a running one. Each client is a
thread that edits or views its own memory of 1 KB in a shared memory store, one command after the other. The run fails
if an acknowledged edit is missing at the end.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import ClassVar

import retentive
from candidates import create, edit, memory_text, state
from figures import duration, figures, own_folder, parser, rate, report, table, workplace
from retentive import MemoryStore
from retentive.storage.sealed.keys import KeyRing

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support.servers.mariadb import MariaServer
from support.servers.moto import MotoServer
from support.servers.postgresql import PostgresServer

CALLERS = (1, 16)
KINDS = ("edit", "view")
SIZES = {"full": (5, 1.0), "quick": (2, 0.5), "tiny": (1, 0.05)}
"""Turns, and the seconds of each."""


class DurablePostgres(PostgresServer):
    """The server of the tests with synced commits."""

    settings: ClassVar[dict[str, str]] = PostgresServer.settings | {"fsync": "on", "full_page_writes": "on"}


class DurableMaria(MariaServer):
    """The server of the tests with synced commits."""

    flush_method = "fsync"


SERVERS: dict[str, type[PostgresServer | MariaServer | MotoServer]] = {
    "postgresql": DurablePostgres,
    "mariadb": DurableMaria,
    "s3 (moto)": MotoServer,
}


@contextmanager
def places(folder: Path, given: Mapping[str, str], only: Collection[str]) -> Iterator[dict[str, str]]:
    """Names and URLs of all available locations, or of the requested ones."""
    found = {
        "sqlite": f"sqlite:///{own_folder(folder, 'sqlite')}/memory.db",
        "directory": str(own_folder(folder, "directory")),
    }
    with ExitStack() as stack:
        for name, kind in SERVERS.items():
            if only and name not in only:
                continue
            if missing := kind.available():
                print(f"left out: {missing}", file=sys.stderr)
                continue
            server = kind()
            stack.enter_context(server)
            if isinstance(server, MotoServer):
                os.environ |= {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
                bucket = server.new_bucket("bench")
                found[name] = f"s3://{bucket}?endpoint={server.endpoint}&allow_http=true&region={server.region}"
            else:
                found[name] = server.new_database("bench")
        yield {name: url for name, url in {**found, **given}.items() if not only or name in only}


def checked(store: MemoryStore, command: dict[str, object]) -> str:
    """Reply. Fails the run if it is an error."""
    reply = store.execute(command)
    if reply.is_error:
        raise SystemExit(reply.text)
    return reply.text


class Callers:
    """Threads, each with its own memory in one store."""

    def __init__(self, store: MemoryStore, callers: int) -> None:
        self.store = store
        self.edits = [0] * callers
        self.times: list[int] = []
        self.span_ns = 0
        self.paths = [f"/memories/of-{callers}/{number:02}.md" for number in range(callers)]
        for number, path in enumerate(self.paths):
            checked(store, create(path, memory_text(number)))

    def turn(self, what: str, turn_s: float) -> None:
        """Edit or view until the time of the turn is over."""
        gate = threading.Barrier(len(self.paths))

        def caller(number: int) -> list[int]:
            path, times = self.paths[number], list[int]()
            gate.wait()
            before = perf_counter_ns()
            end = before + int(turn_s * 1e9)
            while before < end:
                done = self.edits[number]
                checked(self.store, edit(path, done) if what == "edit" else {"command": "view", "path": path})
                self.edits[number] += what == "edit"
                now = perf_counter_ns()
                times.append(now - before)
                before = now
            return times

        began = perf_counter_ns()
        with ThreadPoolExecutor(len(self.paths)) as pool:
            self.times += [took for each in pool.map(caller, range(len(self.paths))) for took in each]
        self.span_ns += perf_counter_ns() - began

    def check(self) -> None:
        """Fail the run unless every memory contains all acknowledged edits."""
        for path, done in zip(self.paths, self.edits, strict=True):
            if state(done) not in checked(self.store, {"command": "view", "path": path}):
                raise SystemExit(f"{path} does not hold its {done} edits")


def measured(stores: list[MemoryStore], count: int, turns: int, turn_s: float) -> Iterator[tuple[str, ...]]:
    """Rate and p99 of each kind of command, plain and encrypted in turn."""
    callers = [Callers(store, count) for store in stores]
    for what in KINDS:
        for each in callers:
            each.times, each.span_ns = [], 0
        for turn in range(turns):
            for each in callers[:: 1 if turn % 2 else -1]:
                each.turn(what, turn_s)
        found = [figures(each.times, span_ns=each.span_ns) for each in callers]
        yield tuple(cell for each in found for cell in (rate(each.per_second), duration(each.p99_ms)))
    for each in callers:
        each.check()


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--at", action="append", default=[], metavar="NAME=URL", help="another place, empty")
    options.add_argument("--only", action="append", metavar="NAME", help="only these places")
    chosen = options.parse_args()
    given = dict(each.split("=", 1) for each in chosen.at)
    rows = []
    with workplace(chosen.dir) as folder, places(folder, given, chosen.only or ()) as found:
        for name, url in found.items():
            with retentive.open(url) as bare, retentive.open(url, keys=KeyRing.new()) as sealed:
                stores = [bare.store("bare"), sealed.store("sealed")]
                both = zip(*(measured(stores, count, *SIZES[chosen.size]) for count in CALLERS), strict=True)
                rows += [(f"{name}: {what}", *one, *many) for what, (one, many) in zip(KINDS, both, strict=True)]
    columns = [cell for count in CALLERS for cell in (f"{count}: commands/s", "p99", "sealed", "p99")]
    report(chosen, table(("place", *columns), rows))


if __name__ == "__main__":
    main()
