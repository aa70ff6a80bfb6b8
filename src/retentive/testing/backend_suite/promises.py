"""The backend suite: all or nothing, one state, and what is left after closing."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentive.errors import Conflict, NotFound, Refused, Unavailable
from retentive.storage.contract import Backend, Change, Transaction
from retentive.testing.backend_suite.opening import A, B, C, Opened, SuiteOpening


class Bug(Exception):
    """Something that should not happen."""


class PromisesSuite(SuiteOpening):
    """What a write promises alone."""

    @pytest.mark.parametrize(
        "error", [Bug("x"), Refused("missing"), NotFound("x"), Conflict("x"), KeyboardInterrupt(), ZeroDivisionError()]
    )
    def test_a_write_that_raises_leaves_nothing(self, store: Opened, error: BaseException) -> None:
        """Whatever it raised, whatever it had recorded; the error comes out as it is, and the next write works."""
        store.create({A: b"one", C: b"two"})
        before = store.state()

        def fail(tx: Transaction) -> None:
            a, c = tx.get(A).memory, tx.get(C).memory
            tx.record([Change(a, None), Change(c, B), Change(None, "/memories/n", b"new")], None)
            raise error

        with pytest.raises(type(error)) as caught:
            store.backend.write(store.id, fail)
        assert caught.value is error
        assert store.state() == before
        store.put(A, b"after")
        assert store.tree() == {A: b"after", C: b"two"}

    def test_a_read_that_raises_harms_nothing(self, store: Opened) -> None:
        """The error comes out as it is."""
        store.create({A: b"one"})
        error = Bug("x")

        def fail(_: object) -> None:
            raise error

        with pytest.raises(Bug) as caught:
            store.backend.read(store.id, fail)
        assert caught.value is error
        assert store.tree() == {A: b"one"}
        store.put(A, b"two")

    def test_a_refused_write_is_still_refused_after_opening_again(self, tmp_path: Path) -> None:
        """It does not come back by any recovery."""
        backend = self.opened(tmp_path)
        store = Opened(backend)
        store.create({A: b"one"})

        def fail(tx: Transaction) -> None:
            tx.record([Change(tx.get(A).memory, A, b"refused"), Change(None, B, b"refused")], None)
            raise Bug

        with pytest.raises(Bug):
            backend.write(store.id, fail)
        before = store.state()
        if self.lasting:
            backend.close()
            store = Opened(self.opened(tmp_path))
        assert store.state() == before
        assert store.tree() == {A: b"one"}

    def test_everything_is_there_again_after_opening_again(self, tmp_path: Path) -> None:
        """Memories, texts, versions, usage, revision, ids and keys."""
        self._needs_lasting()
        backend = self.opened(tmp_path)
        store, other = Opened(backend), Opened(backend, "other")
        store.create({A: b"one", B: b"two\r\n"})
        store.put(A, "é".encode())
        store.move(B, C)
        store.delete(A)
        other.create({A: b"other"})
        states, stores = (store.state(), other.state()), backend.list_stores()
        for _ in range(3):
            backend.close()
            backend = self.opened(tmp_path)
            again, other_again = Opened(backend), Opened(backend, "other")
            assert (again.id, other_again.id) == (store.id, other.id)
            assert (again.state(), other_again.state()) == states
            assert backend.list_stores() == stores

    def test_time_does_not_go_back_over_opening_again(self, tmp_path: Path) -> None:
        """The clock may."""
        self._needs_lasting()
        for number, now in enumerate((1_800_000_000.0, 1_700_000_000.0)):
            backend = self.opened(tmp_path, clock=iter([now] * 100).__next__)
            store = Opened(backend)
            store.create({f"/memories/{number}": b""})
            times = [version.created_at for version in store.versions()]
            assert times == sorted(set(times), reverse=True)
            backend.close()

    def test_settings_are_kept_and_replaced(self, tmp_path: Path) -> None:
        """With the store, whatever text they are, and undone with the write that failed; the revision stays."""
        backend = self.opened(tmp_path)
        store = Opened(backend)
        store.create({A: b"one"})
        assert backend.read(store.id, lambda snapshot: snapshot.settings) is None
        settings = '{"a": "é😀"}' + "x" * 60_000
        backend.write(store.id, lambda tx: tx.set_metadata(settings=settings))

        def fail(tx: Transaction) -> None:
            assert tx.settings == settings
            tx.set_metadata(settings="refused")
            raise Bug

        with pytest.raises(Bug):
            backend.write(store.id, fail)
        if self.lasting:
            backend.close()
            backend = self.opened(tmp_path)
            store = Opened(backend)
        assert backend.read(store.id, lambda snapshot: (snapshot.get(A).data, snapshot.settings)) == (b"one", settings)
        assert backend.read(store.id, lambda snapshot: snapshot.settings) == settings
        assert (store.revision(), len(store.versions())) == (1, 1)
        backend.write(store.id, lambda tx: tx.set_metadata(settings=None))
        assert backend.read(store.id, lambda snapshot: snapshot.settings) is None

    def test_closing_twice_is_no_error(self, backend: Backend) -> None:
        """Nor three times."""
        for _ in range(3):
            backend.close()

    def test_a_closed_backend_is_unavailable(self, backend: Backend, store: Opened) -> None:
        """For everything."""
        store.create({A: b"one"})
        backend.close()
        calls = (
            lambda: backend.read(store.id, lambda snapshot: snapshot.revision),
            lambda: backend.write(store.id, lambda tx: tx.revision),
            lambda: backend.write(store.id, lambda tx: tx.revision, may_use_reserve=True),
            lambda: backend.create_store(key="new", name="new"),
            lambda: backend.create_store(key="tested", name="tested"),
            lambda: backend.get_store(store.id),
            backend.list_stores,
        )
        for call in calls:
            with pytest.raises(Unavailable):
                call()

    def test_what_looks_only_adds_nothing(self, store: Opened) -> None:
        """Reads, writes that record nothing, stores made again."""
        store.create({A: b"one"})
        before = store.state()
        store.backend.write(store.id, lambda tx: list(tx.memories("/memories")))
        store.backend.create_store(key="tested", name="again")
        assert store.state() == before

    def _needs_lasting(self) -> None:
        if not self.lasting:
            pytest.skip("this backend keeps nothing once it is closed")
