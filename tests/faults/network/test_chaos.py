"""Clients of a server while workers are killed, and connections to clients and to the database are cut.

The clients repeat each request that is safe to repeat. Every reply must fit one order of the commands.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support import servers
from support.linearizability.checker import why_not
from support.linearizability.history import Run, record
from support.profiles import sized
from support.protocols import S3, Postgresql
from support.proxy import Proxy
from support.served_process import process_serving

pytestmark = pytest.mark.long

RUNS = sized(quick=1, long=8, full=100)
"""Histories on each backend."""
PROCESSES, THREADS = 3, 2
COMMANDS = 12
"""Commands of a thread. A longer history has more unknown outcomes than the checker can decide in 1 of 50 runs."""
MOST_REPLIES = 8
"""Replies between two faults, at most."""


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_histories_are_linearizable(backend: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(f"{backend} {seed}")
    with location(backend, f"chaos_{seed}", tmp_path) as (at, database), ExitStack() as open_:
        running = open_.enter_context(process_serving(at, "--workers", "2"))
        port = urlsplit(running.url).port or 0
        clients = open_.enter_context(Proxy(port, S3))
        monkeypatch.setenv("RETENTIVE_API_KEY", running.key)
        pool = open_.enter_context(ThreadPoolExecutor(1))
        urls, scene = [clients.through(running.url)], ("memories", "tree")[seed % 2]
        history = pool.submit(record, Run(urls, f"{tmp_path}/out", PROCESSES, THREADS, COMMANDS, seed, scene))
        done = Counter[str]()
        acts = ["kill a worker", "cut clients", "cut clients", *([] if database is None else ["cut the database"])]
        for _ in moments(chosen, tmp_path / "out", history.done):
            act = chosen.choice(acts)
            disturb(act, chosen, running.process.pid, clients, database)
            done[act] += 1
        found = history.result()
    assert why_not(found) == ""
    assert sum(each.known and not each.did_nothing for each in found) > len(found) / 2, done
    assert done.total() > COMMANDS / 4, done


@contextmanager
def location(backend: str, name: str, directory: Path) -> Iterator[tuple[str, Proxy | None]]:
    """A new location, and the proxy to its database."""
    if backend == "sqlite":
        yield f"sqlite:///{directory}/memory.db", None
        return
    server = servers.postgresql()
    with Proxy(server.port, Postgresql) as proxy:
        yield f"{proxy.through(server.new_database(name))}?timeout_s=2", proxy


def moments(chosen: random.Random, out: Path, is_over: Callable[[], bool]) -> Iterator[None]:
    """Yield when something should be killed or cut, each time after some more replies, until the history is recorded.

    With faults at fixed times, a slow machine would have more faults for each command, until no command succeeds.
    """
    wanted = 0
    while True:
        wanted += chosen.randint(1, MOST_REPLIES)
        while replies(out) < wanted:
            if is_over():
                return
            time.sleep(0.005)
        time.sleep(chosen.uniform(0, 0.02))
        yield


def replies(out: Path) -> int:
    """Return the number of replies in a history that is being recorded."""
    return sum(path.read_text("utf-8").count('"returned"') for path in out.glob("*.jsonl"))


def disturb(act: str, chosen: random.Random, parent: int, clients: Proxy, database: Proxy | None) -> None:
    if act == "kill a worker" and (pids := workers(parent)):
        with suppress(ProcessLookupError):
            os.kill(chosen.choice(pids), signal.SIGKILL)
    elif act == "cut clients":
        clients.cut_all()
    elif act == "cut the database" and database is not None:
        database.cut_all()


def workers(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()]
