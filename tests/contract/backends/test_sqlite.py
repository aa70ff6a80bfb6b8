"""SQLite passes the shipped suite, with a file and in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path

import pytest

from retentive.errors import Damaged, InvalidInput, NotFound, Refused
from retentive.storage.contract import (
    Backend,
    Clock,
    Created,
    Deleted,
    Moved,
    NewId,
    Snapshot,
    Transaction,
    Usage,
    create_or_update,
)
from retentive.storage.queue import StoreJob, WriteQueue
from retentive.storage.sqlite.backend import SqliteBackend
from retentive.testing.backend_suite import BackendSuite
from retentive.testing.backend_suite.opening import memory_at


class TestSqlite(BackendSuite):
    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return SqliteBackend(str(place / "memory.db"), clock=clock, new_id=new_id)


class TestSqliteInMemory(BackendSuite):
    lasting = False

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return SqliteBackend(None, clock=clock, new_id=new_id)


A, B = "/memories/a", "/memories/b"


def edited(tx: Transaction, path: str, data: bytes | None = b"text") -> object:
    """Write the memory at a path, or delete it; then refuse the command if the path says so."""
    memory = tx.get(path).memory
    change = create_or_update(memory, path, data) if data is not None else Deleted(memory_at(tx, path))
    made = tx.record([change], None)
    if path.endswith("refused"):
        raise Refused("missing")
    return made


def batch(backend: SqliteBackend, works: Sequence[tuple[str, Callable[[Transaction], object]]]) -> list[StoreJob]:
    """Run works, with the ids of their stores, as one batch. Returns the jobs with their outcomes."""
    jobs = [StoreJob(store, work, may_use_reserve=False) for store, work in works]
    backend._queue._run_batch(jobs)
    return jobs


def test_a_batch_leaves_right_totals(tmp_path: Path) -> None:
    backend = SqliteBackend(str(tmp_path / "memory.db"))
    store, other = backend.create_store(key="one", name="one").id, backend.create_store(key="two", name="two").id
    works = [(store if number < 5 else other, partial(edited, path=f"{A}{number}")) for number in range(8)]
    assert [job.error for job in batch(backend, works)] == [None] * 8
    assert [backend.read(each, attrgetter("state.usage")) for each in (store, other)] == [Usage(5, 20), Usage(3, 12)]
    assert [backend.read(each, attrgetter("state.revision")) for each in (store, other)] == [5, 3]
    assert list(backend.check()) == []
    backend.close()


@pytest.mark.parametrize("position", [0, 1, 3])
def test_a_job_that_fails_after_a_change_leaves_no_trace_in_its_batch(tmp_path: Path, position: int) -> None:
    """Neither in the counters of the store, which the jobs of a batch share."""
    backend = SqliteBackend(str(tmp_path / "memory.db"))
    store = backend.create_store(key="one", name="one").id
    works = [(store, partial(edited, path=path, data=data)) for path, data in ((A, b"1"), (B, b"22"), (A, None))]
    works.insert(position, (store, partial(edited, path=f"{A}-refused")))
    errors = [job.error for job in batch(backend, [*works, ("store_missing", partial(edited, path=A))])]
    assert [type(error) for error in errors if error is not None] == [Refused, NotFound]
    assert backend.read(store, attrgetter("state.usage")) == Usage(1, 2)
    assert backend.read(store, attrgetter("state.revision")) == 3
    assert list(backend.check()) == []
    backend.close()


def test_a_rename_of_an_unknown_version_is_refused(tmp_path: Path) -> None:
    """Nothing changes: neither a memory without a text, nor the totals of the store."""
    with closing(SqliteBackend(str(tmp_path / "memory.db"))) as backend:
        store = backend.create_store(key="tested", name="").id
        backend.write(store, partial(edited, path=A))
        memory = backend.read(store, lambda snapshot: snapshot.get(A)).memory
        assert memory is not None
        stale = replace(memory, version_id="memver_unknown")
        with pytest.raises(InvalidInput):
            backend.write(store, lambda tx: tx.record([Moved(stale, B)], None))
        assert backend.read(store, attrgetter("state.usage")) == Usage(1, 4)
        assert list(backend.check()) == []


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
