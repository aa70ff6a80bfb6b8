"""Several threads use one memory store, through one shared backend or through a backend each."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from retentive.storage.sqlite import SqliteBackend
from support.places import SERVERS
from support.profiles import LONG, sized
from support.targets import BACKENDS, Target, open_target, url_of

from .tasks import STORE, edit, expected, lines_of, prepare

T = TypeVar("T")
THREADS = 8
EDITS = sized(quick=40, long=100, full=200)
MANY = 64  # number of threads, each with a memory of its own
EDITS_OF_MANY = sized(quick=5, long=20, full=40)
EDITS_ON_SERVERS = sized(quick=10, long=40, full=80)
EDITS_OF_MANY_ON_SERVERS = sized(quick=2, long=10, full=20)

shared_or_own = pytest.mark.parametrize("own", [False, True], ids=["one backend", "a backend each"])


EVERY_BACKEND = [*BACKENDS, *(SERVERS if LONG else ["postgresql"])]


@shared_or_own
@pytest.mark.parametrize("backend", EVERY_BACKEND)
def test_no_edit_of_eight_threads_is_lost(backend: str, own: bool, tmp_path: Path) -> None:
    """All threads edit one memory. No edit fails, the text has every edit, and each edit adds one version."""
    edits = EDITS_ON_SERVERS if backend in SERVERS else EDITS
    url = url_of(backend, tmp_path)
    with contextlib.closing(open_target(url)) as target:
        prepare(target, THREADS)
        done = at_once(THREADS, url, None if own else target, lambda each, worker: edit(each, worker, edits))
        assert done == [[]] * THREADS
        assert lines_of(target) == expected(THREADS, edits)
        assert sum(target.state(STORE).versions.values()) == 1 + THREADS * edits


@pytest.mark.long
@pytest.mark.parametrize("backend", EVERY_BACKEND if LONG else BACKENDS)
def test_64_threads_edit_64_memories(backend: str, tmp_path: Path) -> None:
    """Writers that share a commit each get their own reply and add their own version."""
    edits = EDITS_OF_MANY_ON_SERVERS if backend in SERVERS else EDITS_OF_MANY
    url = url_of(backend, tmp_path)

    def work(target: Target, worker: int) -> list[str]:
        path = f"/memories/of/{worker}.md"
        text = f"worker {worker} counts 0;\n"
        assert not target.execute(STORE, {"command": "create", "path": path, "file_text": text}).is_error
        return edit(target, worker, edits, path=path)

    with contextlib.closing(open_target(url)) as target:
        assert at_once(MANY, url, target, work) == [[]] * MANY
        lines = sum((lines_of(target, f"/memories/of/{worker}.md") for worker in range(MANY)), start=expected(0, 0))
        assert lines == expected(MANY, edits)


def test_long_reads_do_not_delay_others(tmp_path: Path) -> None:
    """Three reads are in progress at once, each of which would wait for the others for ever."""
    together = threading.Barrier(3, timeout=60)
    with contextlib.closing(SqliteBackend(str(tmp_path / "m.db"))) as backend, ThreadPoolExecutor(3) as threads:
        store = backend.create_store(key="notes", name="notes").id
        done = [threads.submit(backend.read, store, lambda _: together.wait()) for _ in range(3)]
        assert sorted(one.result() for one in done) == [0, 1, 2]
        assert backend.read(store, lambda snapshot: snapshot.state.revision) == 0


def at_once(count: int, url: str, shared: Target | None, work: Callable[[Target, int], T]) -> list[T]:
    """Run `work` in many threads that start together, and return their results."""
    barrier = threading.Barrier(count)

    def run(worker: int) -> T:
        target = shared or open_target(url)
        barrier.wait()
        try:
            return work(target, worker)
        finally:
            if shared is None:
                target.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
