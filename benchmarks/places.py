"""Every backend, plain and encrypted: throughput of one client and of sixteen, and their waiting times.

    python benchmarks/places.py [--quick] [--json FILE] [--at NAME=URL ...] [--only NAME ...]

PostgreSQL, MariaDB and an S3 (moto) are started for the run, with all commits synced to disk. A server that is
not installed is left out with a message. `--at ceph=s3://bucket?endpoint=...` adds a running one. Each client is a
thread that edits or views its own memory of 1 KB in a shared memory store, one command after the other. The run fails
if an acknowledged edit is missing at the end.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import ClassVar

import retentive
from candidates import create, edit, memory_text, state
from figures import (
    Sheet,
    announce,
    duration,
    figures,
    own_folder,
    parser,
    rate,
    steps,
    surroundings,
    workplace,
    write_json,
)
from retentive import MemoryStore
from retentive.storage.sealed.keys import KeyRing

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support.servers.mariadb import MariaServer
from support.servers.moto import MotoServer
from support.servers.postgresql import PostgresServer

CALLERS = (1, 16)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Size of a run: number of turns and their seconds."""

    turns: int
    turn_s: float


SCALES = {
    "full": Scale(turns=5, turn_s=1.0),
    "quick": Scale(turns=2, turn_s=0.5),
    "tiny": Scale(turns=1, turn_s=0.05),
}


class DurablePostgres(PostgresServer):
    """The server of the tests with synced commits."""

    settings: ClassVar[dict[str, str]] = PostgresServer.settings | {"fsync": "on", "full_page_writes": "on"}


class DurableMaria(MariaServer):
    """The server of the tests with synced commits."""

    flush_method = "fsync"


def _postgresql(stack: ExitStack) -> str:
    server = DurablePostgres()
    stack.enter_context(server)
    return server.new_database("bench")


def _mariadb(stack: ExitStack) -> str:
    server = DurableMaria()
    stack.enter_context(server)
    return server.new_database("bench")


def _moto(stack: ExitStack) -> str:
    server = MotoServer()
    stack.enter_context(server)
    os.environ |= {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    return f"s3://{server.new_bucket('bench')}?endpoint={server.endpoint}&allow_http=true&region={server.region}"


SERVERS: Mapping[str, tuple[type[PostgresServer | MariaServer | MotoServer], Callable[[ExitStack], str]]] = {
    "postgresql": (DurablePostgres, _postgresql),
    "mariadb": (DurableMaria, _mariadb),
    "s3 (moto)": (MotoServer, _moto),
}


@contextmanager
def places(folder: Path, given: Mapping[str, str], only: Collection[str]) -> Iterator[dict[str, str]]:
    """Names and URLs of all available locations, or of the requested ones."""
    found = {
        "sqlite": f"sqlite:///{own_folder(folder, 'sqlite')}/memory.db",
        "directory": str(own_folder(folder, "directory")),
    }
    wanted = only or {*found, *SERVERS, *given}
    with ExitStack() as stack:
        for name, (kind, start) in SERVERS.items():
            if name not in wanted:
                continue
            missing = kind.available()
            if missing is None:
                found[name] = start(stack)
            else:
                print(f"left out: {missing}", file=sys.stderr)
        yield {name: url for name, url in {**found, **given}.items() if name in wanted}


def until(call: Callable[[int], object], start: int, turn_s: float) -> list[int]:
    """Times of calls until the time is over. The argument of `call` is the number of earlier calls."""
    times: list[int] = []
    before = perf_counter_ns()
    end = before + int(turn_s * 1e9)
    while before < end:
        call(start + len(times))
        now = perf_counter_ns()
        times.append(now - before)
        before = now
    return times


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
        self.paths = [f"/memories/of-{callers}/{number:02}.md" for number in range(callers)]
        for number, path in enumerate(self.paths):
            checked(store, create(path, memory_text(number)))

    def turn(self, what: str, turn_s: float) -> tuple[list[int], int]:
        """Times of one turn, and its length."""
        gate = threading.Barrier(len(self.paths))

        def caller(number: int) -> list[int]:
            path = self.paths[number]
            gate.wait()
            if what == "view":
                return until(lambda _: checked(self.store, {"command": "view", "path": path}), 0, turn_s)
            times = until(lambda done: checked(self.store, edit(path, done)), self.edits[number], turn_s)
            self.edits[number] += len(times)
            return times

        began = perf_counter_ns()
        with ThreadPoolExecutor(len(self.paths)) as pool:
            times = [took for each in pool.map(caller, range(len(self.paths))) for took in each]
        return times, perf_counter_ns() - began

    def check(self) -> None:
        """Fail the run unless every memory contains all acknowledged edits."""
        for path, done in zip(self.paths, self.edits, strict=True):
            if state(done) not in checked(self.store, {"command": "view", "path": path}):
                raise SystemExit(f"{path} does not hold its {done} edits")


def run(found: Mapping[str, str], scale: Scale) -> Sheet:
    """Measure all locations, plain and encrypted in turn."""
    rows, records = [], []
    keys = KeyRing.new()
    with steps(len(found) * len(CALLERS) * 4 * scale.turns, "places") as step:
        for name, url in found.items():
            with retentive.open(url) as bare, retentive.open(url, keys=keys) as sealed:
                stores = {"bare": bare.store("bare"), "sealed": sealed.store("sealed")}
                for count in CALLERS:
                    for row, record in measured(stores, count, scale, step):
                        rows.append((name, *row))
                        records.append({"place": name} | record)
    columns = ("place", "what", "callers", "commands/s", "p50", "p99", "sealed: commands/s", "p50", "p99")
    return Sheet("Every backend", columns, rows, records)


def measured(
    stores: Mapping[str, MemoryStore], count: int, scale: Scale, step: Callable[[str], None]
) -> Iterator[tuple[tuple[str, ...], dict[str, object]]]:
    """Row and record of each kind of command."""
    callers = {kind: Callers(store, count) for kind, store in stores.items()}
    for what in ("edit", "view"):
        times: dict[str, list[int]] = {kind: [] for kind in callers}
        spans = dict.fromkeys(callers, 0)
        for turn in range(scale.turns):
            for kind in list(callers)[:: 1 if turn % 2 else -1]:
                took, span = callers[kind].turn(what, scale.turn_s)
                times[kind] += took
                spans[kind] += span
                step(f"{count} {what} {kind}")
        found = {kind: figures(times[kind], span_ns=spans[kind]) for kind in callers}
        cells = [
            cell
            for one in found.values()
            for cell in (rate(one.per_second), duration(one.median_ms), duration(one.p99_ms))
        ]
        yield (what, str(count), *cells), {"what": what, "callers": count} | {k: asdict(v) for k, v in found.items()}
    for each in callers.values():
        each.check()


def main() -> None:
    """Measure, show, and write."""
    options = parser(__doc__)
    options.add_argument("--at", action="append", default=[], metavar="NAME=URL", help="another place, empty")
    options.add_argument("--only", action="append", metavar="NAME", help="only these places")
    chosen = options.parse_args()
    given = dict(each.split("=", 1) for each in chosen.at)
    with workplace(chosen.dir) as folder:
        around = surroundings(folder)
        announce(around)
        with places(folder, given, chosen.only or ()) as found:
            sheet = run(found, SCALES[chosen.size])
    sheet.show()
    if chosen.json is not None:
        write_json(chosen.json, "places", chosen.size, around, [sheet])


if __name__ == "__main__":
    main()
