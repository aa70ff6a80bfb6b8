"""Turns of processes at a lock file: a killed holder, a wait that times out, forks, and closing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from retentive.errors import Unavailable
from retentive.storage import forking
from retentive.storage.lock_file import LockFile
from retentive.storage.queue import StoreJob
from retentive.storage.sqlite import SqliteBackend
from support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="this system has no flock")

HOLDER = """
import sys
from retentive.storage.lock_file import LockFile
LockFile(sys.argv[1]).acquire()
print("holds", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[LockFile, LockFile]]:
    """Two openings of one lock file, as in two processes."""
    path = str(tmp_path / "lock")
    with closing(LockFile(path)) as first, closing(LockFile(path)) as second:
        yield first, second


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Process that holds the lock until it is killed."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "holds\n"
            yield process
        finally:
            process.kill()


def create(backend: SqliteBackend) -> str:
    """Create a memory store, and return its id."""
    return backend.create_store(key="notes", name="notes").id


def in_parallel(pool: ThreadPoolExecutor, backend: SqliteBackend, store: str, lock: LockFile) -> Future[int]:
    """Write in a thread, and return when a thread waits for the lock."""
    done = pool.submit(lambda: backend.write(store, lambda tx: tx.state.revision))
    until(lambda: lock._has_thread)
    return done


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    with closing(SqliteBackend(str(tmp_path / "m.db"))) as opened:
        yield opened


def test_a_killed_holder_wakes_the_next_process(
    backend: SqliteBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel wakes it; nothing polls."""

    def polls(*_: object, **__: object) -> None:
        raise AssertionError("the writer polls")

    monkeypatch.setattr("retentive.storage.backoff.pauses", polls)
    store, lock = create(backend), backend._lock
    assert lock is not None
    with ThreadPoolExecutor(2) as pool, holder(tmp_path / "m.db-reserve") as process:
        done = in_parallel(pool, backend, store, lock)
        also = pool.submit(lambda: backend.write(store, lambda tx: tx.state.revision))
        assert not done.done()
        process.kill()
        assert done.result() == also.result() == 0
    assert lock.try_to_acquire()


def test_a_write_that_waits_too_long_is_unavailable(backend: SqliteBackend, tmp_path: Path) -> None:
    """It never takes place, and later writes still can."""
    ran: list[str] = []
    store = create(backend)

    jobs = [StoreJob(store, lambda _: ran.append("too late"), timeout_s=0.01) for _ in range(3)]
    with holder(tmp_path / "m.db-reserve"), ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(backend._queue.submit, job) for job in jobs]:
            with pytest.raises(Unavailable, match="another process has locked the memory store"):
                done.result()
    backend.write(store, lambda _: ran.append("in time"))
    assert ran == ["in time"]


def test_a_wait_in_vain_takes_no_lock(two: tuple[LockFile, LockFile]) -> None:
    """The thread that still waits releases the lock at once, or acquires it for the next caller."""
    first, second = two
    first.acquire()
    for _ in range(2):
        with pytest.raises(Unavailable):
            second.acquire(deadline=time.monotonic() + 0.01)
    first.release()
    until(lambda: not second._has_thread)
    assert first.try_to_acquire()
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(Unavailable):
            second.acquire(deadline=time.monotonic() + 0.01)
        assert not second.try_to_acquire()
        next_one = pool.submit(second.acquire)
        first.release()
        next_one.result()
    assert not first.try_to_acquire()


def test_a_lock_that_was_granted_too_late_is_released(
    two: tuple[LockFile, LockFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is granted after the deadline, and before the caller has given up."""
    first, second = two
    first.acquire()
    give_up = second._give_up

    def granted_before() -> None:
        first.release()
        until(lambda: not second._has_thread)
        give_up()

    monkeypatch.setattr(second, "_give_up", granted_before)
    with pytest.raises(Unavailable):
        second.acquire(deadline=time.monotonic() + 0.01)
    assert first.try_to_acquire()


def test_a_forked_child_neither_holds_nor_releases_the_lock(two: tuple[LockFile, LockFile]) -> None:
    first, second = two
    forking.watch(first)
    first.acquire()
    (from_child, to_parent), (from_parent, to_child) = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other tests may have left threads
        pid = os.fork()
    if pid == 0:
        first.release()
        os.write(to_parent, b"y" if first.try_to_acquire() else b"n")
        os.read(from_parent, 1)
        os._exit(0)
    assert os.read(from_child, 1) == b"n"
    assert not second.try_to_acquire()
    first.release()
    assert second.try_to_acquire()
    os.write(to_child, b".")
    os.waitpid(pid, 0)
    for descriptor in (from_child, to_parent, from_parent, to_child):
        os.close(descriptor)


def test_long_reads_do_not_delay_others(backend: SqliteBackend) -> None:
    """Three reads are in progress at once, each of which would wait for the others for ever."""
    together, store = threading.Barrier(3, timeout=60), create(backend)
    with ThreadPoolExecutor(3) as threads:
        done = [threads.submit(backend.read, store, lambda _: together.wait()) for _ in range(3)]
        assert sorted(one.result() for one in done) == [0, 1, 2]
