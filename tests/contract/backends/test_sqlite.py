"""SQLite passes the shipped suite, with a file and in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from retentive.errors import Damaged
from retentive.storage.contract import (
    Backend,
    Clock,
    Created,
    NewId,
    Snapshot,
    Transaction,
)
from retentive.storage.queue import StoreJob, WriteQueue
from retentive.storage.sqlite.backend import SqliteBackend
from retentive.testing.backend_suite import BackendSuite


class TestSqlite(BackendSuite):
    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return SqliteBackend(str(place / "memory.db"), clock=clock, new_id=new_id)


class TestSqliteInMemory(BackendSuite):
    lasting = False

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return SqliteBackend(None, clock=clock, new_id=new_id)


A, B = "/memories/a", "/memories/b"


def batch(backend: SqliteBackend, works: Sequence[tuple[str, Callable[[Transaction], object]]]) -> list[StoreJob]:
    """Run works, with the ids of their stores, as one batch. Returns the jobs with their outcomes."""
    jobs = [StoreJob(store, work, may_use_reserve=False) for store, work in works]
    backend._queue._run_batch(jobs)
    return jobs


def test_a_damaged_text_is_reported_by_get(tmp_path: Path) -> None:
    """The settings can be read before, and a deletion does not need the text."""
    backend = SqliteBackend(str(tmp_path / "memory.db"))
    store = backend.create_store(key="tested", name="").id
    backend.write(store, lambda tx: tx.record([Created(A, b"1")], None))
    backend.transact(lambda connection: connection.run("UPDATE versions SET text = ?", (b"2",)))

    def work(snapshot: Snapshot) -> None:
        assert snapshot.state.settings is None
        with pytest.raises(Damaged):
            snapshot.get(A)

    backend.read(store, work)
    backend.write(store, work)
    backend.close()


class Interrupting:
    """Mutex that raises `KeyboardInterrupt` right after it was released for the `left`th time."""

    def __init__(self, left: int) -> None:
        self._mutex, self._left = threading.Lock(), left

    def __enter__(self) -> None:
        self._mutex.acquire()

    def __exit__(self, *_: object) -> None:
        self._mutex.release()
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("left", [1, 2])
def test_an_interrupt_before_the_first_batch_leaves_the_queue_a_leader(left: int) -> None:
    """Once after the job has become the leader, and once after it has taken its batch. The next job runs."""
    ran = []

    def run(jobs: Sequence[StoreJob]) -> None:
        for job in jobs:
            ran.append(job)
            job.error = None

    jobs = WriteQueue(run)
    jobs._mutex = Interrupting(left)  # type: ignore[assignment]
    first, second = (StoreJob("memstore_1", lambda _: None) for _ in range(2))
    with pytest.raises(KeyboardInterrupt):
        jobs.submit(first)
    assert jobs.submit(second) is None
    assert ran == [second]
