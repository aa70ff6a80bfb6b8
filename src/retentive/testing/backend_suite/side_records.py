"""The backend suite: small records kept with a store, and beside it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from retentive.errors import NotFound
from retentive.storage.contract import Change, Transaction
from retentive.testing.backend_suite.opening import A, Opened, SuiteOpening

LONG = "é\n'\"\\" + "x" * 200_000


class NotesSuite(SuiteOpening):
    """Notes, and jottings."""

    def test_notes_are_kept_by_kind_and_key(self, store: Opened) -> None:
        """In the order of their keys; a new one replaces the old one, None removes it."""
        put(store, "first", {"b": "1", "a": "é \U0001f600 'x'", "c": LONG})
        put(store, "second", {"a": "other"})
        assert notes(store, "first") == [("a", "é \U0001f600 'x'"), ("b", "1"), ("c", LONG)]
        put(store, "first", {"b": "", "c": None, "d": None})
        assert notes(store, "first") == [("a", "é \U0001f600 'x'"), ("b", "")]
        assert notes(store, "second") == [("a", "other")]
        assert notes(store, "third") == []
        assert (note(store, "first", "b"), note(store, "first", "c"), note(store, "first", "\0")) == ("", None, None)

    def test_many_notes_stay(self, store: Opened) -> None:
        """Written one by one and together."""
        for number in range(120):
            put(store, "kind", {f"{number:03}": f"value {number}"})
        put(store, "kind", {f"{number:03}": "again" for number in range(100, 400)})
        put(store, "kind", {f"{number:03}": None for number in range(0, 400, 2)})
        expected = [(f"{number:03}", f"value {number}" if number < 100 else "again") for number in range(1, 400, 2)]
        assert notes(store, "kind") == expected
        assert note(store, "kind", "001") == "value 1"
        assert note(store, "kind", "002") is None

    def test_notes_are_part_of_the_write(self, store: Opened) -> None:
        """Seen at once by the same, by others when it is committed, by nobody when it fails. The revision stays."""
        store.create({A: b"one"})

        def work(tx: Transaction) -> list[tuple[str, str]]:
            tx.put_record("kind", "key", "value")
            return list(tx.records("kind"))

        assert store.backend.write(store.id, work) == [("key", "value")]
        assert store.revision() == 1

        def failing(tx: Transaction) -> None:
            tx.put_record("kind", "key", "lost")
            tx.put_record("kind", "more", "lost")
            tx.record([Change(tx.get(A).memory, None)], None)
            raise ValueError("no more")

        with pytest.raises(ValueError, match="no more"):
            store.backend.write(store.id, failing)
        assert notes(store, "kind") == [("key", "value")]
        assert store.get(A).exists

    def test_notes_belong_to_their_store(self, store: Opened) -> None:
        """Nothing of one is seen in another."""
        other = Opened(store.backend, "other")
        put(store, "kind", {"key": "here"})
        store.backend.put_side_records(store.id, "beside", {"key": "here"})
        assert notes(other, "kind") == list(other.backend.side_records(other.id, "beside")) == []

    def test_jottings_are_kept_beside_the_store(self, store: Opened) -> None:
        """As notes, and without the revision."""
        jot = store.backend.put_side_records
        jot(store.id, "seen", {"b": "1", "a": "2"})
        for number in range(80):
            jot(store.id, "seen", {f"c{number:02}": str(number)})
        jot(store.id, "seen", {"b": "3", "a": None, "z": None})
        jot(store.id, "heard", {"a": LONG})
        expected = [("b", "3"), *((f"c{number:02}", str(number)) for number in range(80))]
        assert list(store.backend.side_records(store.id, "seen")) == expected
        assert list(store.backend.side_records(store.id, "seen", after="c77")) == expected[-2:]
        assert list(store.backend.side_records(store.id, "heard")) == [("a", LONG)]
        assert list(store.backend.side_records(store.id, "nothing")) == []
        assert store.revision() == 0

    def test_nothing_is_jotted_for_a_store_that_is_not_there(self, store: Opened) -> None:
        """`NotFound`, as for all else."""
        with pytest.raises(NotFound):
            store.backend.put_side_records("memstore_nothing", "kind", {"a": "b"})
        with pytest.raises(NotFound):
            list(store.backend.side_records("memstore_nothing", "kind"))


def put(store: Opened, kind: str, values: Mapping[str, str | None]) -> None:
    """Write notes, all in one write."""

    def work(tx: Transaction) -> None:
        for key, value in values.items():
            tx.put_record(kind, key, value)

    store.backend.write(store.id, work)


def notes(store: Opened, kind: str) -> list[tuple[str, str]]:
    """All notes of a kind."""
    return store.backend.read(store.id, lambda snapshot: list(snapshot.records(kind)))


def note(store: Opened, kind: str, key: str) -> str | None:
    """One note."""
    return store.backend.read(store.id, lambda snapshot: snapshot.get_record(kind, key))
