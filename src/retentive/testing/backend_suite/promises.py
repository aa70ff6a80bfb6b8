"""Backend suite: atomicity, durability and closing."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from retentive.errors import Conflict, NotFound, Refused, Unavailable
from retentive.storage.contract import Backend, Change, Transaction
from retentive.testing.backend_suite.opening import A, B, C, Opened, SuiteOpening


class Bug(Exception):
    """Exception of a type that no backend expects."""


class PromisesSuite(SuiteOpening):
    """Tests of the guarantees of a single write."""

    @pytest.mark.parametrize(
        "error", [Bug("x"), Refused("missing"), NotFound("x"), Conflict("x"), KeyboardInterrupt(), ZeroDivisionError()]
    )
    def test_a_write_that_raises_changes_nothing(self, store: Opened, error: BaseException) -> None:
        """If `work` raises any exception, its changes are undone and the caller gets it. The next write succeeds."""
        store.create({A: b"one", C: b"two"})
        before = store.state()

        def fail(tx: Transaction) -> None:
            a, c = tx.get(A).memory, tx.get(C).memory
            tx.record([Change(a, None), Change(c, B), Change(None, "/memories/n", b"new")], None)
            raise error

        def fail_to_read(_: object) -> None:
            raise error

        for call in (partial(store.write, fail), partial(store.read, fail_to_read)):
            with pytest.raises(type(error)) as caught:
                call()
            assert caught.value is error
            assert store.state() == before
        store.put(A, b"after")
        assert store.tree() == {A: b"after", C: b"two"}

    def test_a_failed_write_does_not_return_after_reopening(self, tmp_path: Path) -> None:
        """When a location is opened again, its recovery must not apply a failed write."""
        backend = self.opened(tmp_path)
        store = Opened(backend)
        store.create({A: b"one"})

        def fail(tx: Transaction) -> None:
            tx.record([Change(tx.get(A).memory, A, b"refused"), Change(None, B, b"refused")], None)
            raise Bug

        with pytest.raises(Bug):
            store.write(fail)
        before = store.state()
        store = Opened(self.reopened(backend, tmp_path))
        assert store.state() == before
        assert store.tree() == {A: b"one"}

    def test_everything_is_durable(self, tmp_path: Path) -> None:
        """After reopening, the store has the same memories, texts, versions, usage, revision, ids and keys."""
        self.needs_lasting()
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

    def test_time_does_not_go_back_after_reopening(self, tmp_path: Path) -> None:
        """The times of versions increase even if the clock goes back."""
        self.needs_lasting()
        for number, now in enumerate((1_800_000_000.0, 1_700_000_000.0)):
            backend = self.opened(tmp_path, clock=iter([now] * 100).__next__)
            store = Opened(backend)
            store.create({f"/memories/{number}": b""})
            times = [version.created_at for version in store.versions()]
            assert times == sorted(set(times), reverse=True)
            backend.close()

    def test_a_closed_backend_is_unavailable(self, backend: Backend, store: Opened) -> None:
        """Every method except `close` raises `Unavailable`. `close` can be called again."""
        store.create({A: b"one"})
        for _ in range(3):
            backend.close()
        calls = (
            lambda: store.read(lambda snapshot: snapshot.state),
            lambda: store.write(lambda tx: tx.state),
            lambda: store.write(lambda tx: tx.state, may_use_reserve=True),
            lambda: backend.create_store(key="new", name="new"),
            lambda: backend.create_store(key="tested", name="tested"),
            lambda: backend.get_store(store.id),
            lambda: backend.put_side_records(store.id, "kind", {"key": "value"}),
            lambda: list(backend.side_records(store.id, "kind")),
            backend.list_stores,
        )
        for call in calls:
            with pytest.raises(Unavailable):
                call()

    def test_reads_add_nothing(self, store: Opened) -> None:
        """No version or store is added by a read, a write without changes, or the repeated creation of a store."""
        store.create({A: b"one"})
        before = store.state()
        store.write(lambda tx: list(tx.list("/memories")))
        store.backend.create_store(key="tested", name="again")
        assert store.state() == before
