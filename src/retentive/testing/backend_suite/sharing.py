"""Backend suite: atomicity, durability, closing, concurrent threads, several openings, and forks."""

from __future__ import annotations

import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from retentive.errors import Conflict, NotFound, Refused, Unavailable
from retentive.storage.contract import Backend, Created, Deleted, Moved, Snapshot, Transaction, create_or_update
from retentive.testing.backend_suite.opening import A, B, C, Opened, SuiteOpening, memory_at

PATIENCE_S = 60.0


class ExpectedFailure(Exception):
    """Exception of a write that is meant to fail."""


class SharingSuite(SuiteOpening):
    """Tests of the guarantees of a write, and of concurrent use."""

    @pytest.mark.parametrize("error", [Refused("x"), NotFound("x"), Conflict("x"), KeyboardInterrupt()])
    def test_a_work_that_raises_changes_nothing(self, tmp_path: Path, error: BaseException) -> None:
        """The caller gets the same exception. The next write succeeds, and recovery brings nothing back."""
        backend = self.opened(tmp_path)
        store = Opened(backend)
        store.create({A: b"one", C: b"two"})
        before = store.state()

        def fail(tx: Transaction) -> None:
            tx.set_metadata(settings="lost", properties='{"name":"lost"}')
            tx.put_record("kind", "key", "lost")
            a, c = memory_at(tx, A), memory_at(tx, C)
            tx.record([Deleted(a), Moved(c, B), Created("/memories/n", b"new")], None)
            raise error

        def fail_to_read(_: object) -> None:
            raise error

        for call in (partial(store.write, fail), partial(store.read, fail_to_read)):
            with pytest.raises(type(error)) as caught:
                call()
            assert caught.value is error
            assert store.state() == before
        store = Opened(self.reopened(backend, tmp_path))
        assert store.state() == before
        assert store.read(lambda snapshot: list(snapshot.records("kind"))) == []
        store.put(A, b"after")
        assert store.tree() == {A: b"after", C: b"two"}

    def test_everything_is_durable(self, tmp_path: Path) -> None:
        if not self.lasting:
            pytest.skip("this backend keeps nothing once it is closed")
        backend = self.opened(tmp_path)
        store, other = Opened(backend), Opened(backend, "other")
        store.create({A: b"one", B: b"two\r\n"})
        store.put(A, "é".encode())
        store.move(B, C)
        store.delete(A)
        store.move(C, B, data=b"moved and edited")
        other.create({A: b"other"})
        states, stores = (store.state(), other.state()), backend.list_stores()
        for _ in range(3):
            backend.close()
            backend = self.opened(tmp_path)
            again, other_again = Opened(backend), Opened(backend, "other")
            assert (again.id, other_again.id) == (store.id, other.id)
            assert (again.state(), other_again.state()) == states
            assert backend.list_stores() == stores

    def test_a_closed_backend_is_unavailable(self, backend: Backend, store: Opened) -> None:
        """Every method except `close` raises `Unavailable`. `close` can be called again."""
        store.create({A: b"one"})
        for _ in range(3):
            backend.close()
        calls = (
            lambda: store.read(lambda snapshot: snapshot.state),
            lambda: store.write(lambda tx: tx.state),
            lambda: backend.create_store(key="new", name="new"),
            lambda: backend.create_store(key="tested", name="tested"),
            lambda: backend.get_store(store.id),
            backend.list_stores,
        )
        for call in calls:
            with pytest.raises(Unavailable):
                call()

    def test_no_update_is_lost(self, tmp_path: Path) -> None:
        """Between threads, and between openings of a backend that lasts, also while other stores are created."""
        stores = [Opened(self.opened(tmp_path)) for _ in range(3 if self.lasting else 1)]
        stores[0].create({A: b"0"})
        works = [partial(count_up, store, 20) for store in stores for _ in range(4)]
        together([*works, *(partial(create_stores, store.backend, 10) for store in stores)])
        expected = 80 * len(stores)
        assert [store.tree() for store in stores] == [{A: str(expected).encode()}] * len(stores)
        assert len(stores[0].versions()) == stores[0].revision() == expected + 1

    def test_a_failing_write_does_not_affect_others(self, store: Opened) -> None:
        """If a backend commits waiting writes as one batch, it must undo only the failing ones."""
        started, go = threading.Event(), threading.Event()

        def first(tx: Transaction) -> None:
            started.set()
            assert go.wait(PATIENCE_S)
            tx.record([Created(A, b"first")], None)

        def write(number: int) -> None:
            def work(tx: Transaction) -> None:
                tx.record([Created(f"/memories/{number:02d}", b"x")], None)
                if number % 3 == 0:
                    raise ExpectedFailure(str(number))

            if number % 3 == 0:
                with pytest.raises(ExpectedFailure, match=f"^{number}$"):
                    store.write(work)
            else:
                store.write(work)

        leader = threading.Thread(target=lambda: store.write(first))
        leader.start()
        assert started.wait(PATIENCE_S)
        followers = start([partial(write, number) for number in range(30)])
        go.set()
        leader.join(PATIENCE_S)
        finish(followers)
        assert set(store.tree()) == {A, *(f"/memories/{number:02d}" for number in range(30) if number % 3)}
        assert len(store.versions()) == store.revision() == store.usage().memories == 21

    def test_a_read_sees_one_state_during_writes(self, store: Opened) -> None:
        """Two memories that are always written together have the same text in every read."""
        store.create({A: b"0", B: b"0"})
        written = [0]

        def write() -> None:
            for number in range(1, 30):
                store.write(partial(put_both, data=str(number).encode()))
                written[0] = number

        def read() -> None:
            while written[0] < 29:
                least = written[0]
                a, b, revision, versions = store.read(both)
                assert a == b == str(revision - 1).encode()
                assert versions == revision * 2
                assert revision - 1 >= least

        together([write, read, read])

    def test_closing_during_work_is_clean(self, backend: Backend, store: Opened) -> None:
        """While another thread closes the backend, each call completes or raises `Unavailable`."""
        store.create({A: b"0"})
        begun = threading.Barrier(5)

        def work(call: Callable[[], object]) -> None:
            begun.wait(PATIENCE_S)
            try:
                for _ in range(10_000):
                    call()
            except Unavailable:
                return
            raise AssertionError("calls were not refused after the backend was closed")

        def close() -> None:
            begun.wait(PATIENCE_S)
            store.backend.close()

        together(
            [
                lambda: work(lambda: count_up(store, 1)),
                lambda: work(lambda: store.get(A)),
                lambda: work(store.memories),
                lambda: work(backend.list_stores),
                close,
            ]
        )

    def test_a_forked_child_is_independent(self, tmp_path: Path) -> None:
        if not self.lasting or not hasattr(os, "fork"):
            pytest.skip("this backend keeps nothing once it is closed, or this system does not fork")
        store = Opened(self.opened(tmp_path))
        store.create({A: b"0"})
        child = fork_child(lambda: count_up(store, 10))
        count_up(store, 10)
        assert exit_status(child) == 0
        assert store.tree() == {A: b"20"}
        assert len(store.versions()) == 21


def fork_child(work: Callable[[], object]) -> BaseProcess:
    """Fork a child process that calls `work`. The process exits with status 0 if `work` raises no error."""
    child = multiprocessing.get_context("fork").Process(target=work)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # warning about forks with threads
        child.start()
    return child


def exit_status(child: BaseProcess) -> int | None:
    """Wait for a child process and return its exit status. A hanging child is killed."""
    child.join(PATIENCE_S / 3)
    child.kill()
    child.join()
    return child.exitcode


def count_up(store: Opened, times: int) -> None:
    """Increment the number in a memory several times, each time in its own transaction."""

    def work(tx: Transaction) -> None:
        look = tx.get(A)
        tx.record([create_or_update(look.memory, A, str(int(look.data or b"0") + 1).encode())], None)

    for _ in range(times):
        store.write(work)


def create_stores(backend: Backend, count: int) -> None:
    for number in range(count):
        backend.create_store(key=f"other {number}", name="other")


def put_both(tx: Transaction, data: bytes) -> None:
    tx.record([create_or_update(tx.get(path).memory, path, data) for path in (A, B)], None)


def both(snapshot: Snapshot) -> tuple[bytes | None, bytes | None, int, int]:
    """Return the texts of both memories, the revision, and the number of versions."""
    texts = {memory.path: data for memory, data in snapshot.list("/memories", texts=True)}
    return snapshot.get(A).data, texts[B], snapshot.state.revision, len(list(snapshot.versions()))


def together(works: Sequence[Callable[[], object]]) -> None:
    """Call functions concurrently, each in its own thread, and wait for them. Raises the first error."""
    finish(start(works))


class Worker(threading.Thread):
    """Daemon thread that keeps the exception of its function."""

    error: BaseException | None = None

    def run(self) -> None:
        try:
            super().run()
        except BaseException as error:
            self.error = error


def start(works: Sequence[Callable[[], object]]) -> list[Worker]:
    workers = [Worker(target=work, daemon=True) for work in works]
    for worker in workers:
        worker.start()
    return workers


def finish(workers: Sequence[Worker]) -> None:
    """Wait for all threads. Raises the error of the first thread in `workers` that failed."""
    for worker in workers:
        worker.join(PATIENCE_S)
        assert not worker.is_alive(), "a thread did not end"
    for worker in workers:
        if worker.error is not None:
            raise worker.error
