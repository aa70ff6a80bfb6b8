"""Backend suite: records of a store and side records."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from retentive.errors import NotFound
from retentive.storage.contract import Change, Transaction
from retentive.testing.backend_suite.opening import A, Opened, SuiteOpening

LONG = "é\n'\"\\" + "x" * 200_000


class SideRecordsSuite(SuiteOpening):
    """Tests of records and side records."""

    def test_records_are_stored_by_kind_and_key(self, store: Opened) -> None:
        """In key order. A new record replaces the old one, and None removes it."""
        put(store, "first", {"b": "1", "a": "é \U0001f600 'x'", "c": LONG})
        put(store, "second", {"a": "other"})
        assert notes(store, "first") == [("a", "é \U0001f600 'x'"), ("b", "1"), ("c", LONG)]
        put(store, "first", {"b": "", "c": None, "d": None})
        assert notes(store, "first") == [("a", "é \U0001f600 'x'"), ("b", "")]
        assert notes(store, "second") == [("a", "other")]
        assert notes(store, "third") == []
        assert (note(store, "first", "b"), note(store, "first", "c"), note(store, "first", "\0")) == ("", None, None)

    def test_many_records_are_stored(self, store: Opened) -> None:
        """Written one by one and together."""
        for number in range(120):
            put(store, "kind", {f"{number:03}": f"value {number}"})
        put(store, "kind", {f"{number:03}": "again" for number in range(100, 400)})
        put(store, "kind", {f"{number:03}": None for number in range(0, 400, 2)})
        expected = [(f"{number:03}", f"value {number}" if number < 100 else "again") for number in range(1, 400, 2)]
        assert notes(store, "kind") == expected
        assert note(store, "kind", "001") == "value 1"
        assert note(store, "kind", "002") is None

    def test_records_are_part_of_the_write(self, store: Opened) -> None:
        """Visible in the same write, to others after the commit, and never if it fails. The revision stays."""
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

    def test_records_belong_to_one_store(self, store: Opened) -> None:
        """Other stores do not see them."""
        other = Opened(store.backend, "other")
        put(store, "kind", {"key": "here"})
        store.backend.put_side_records(store.id, "beside", {"key": "here"})
        assert notes(other, "kind") == list(other.backend.side_records(other.id, "beside")) == []

    def test_side_records_do_not_change_the_revision(self, store: Opened) -> None:
        """Otherwise they behave like records."""
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

    def test_side_records_of_an_unknown_store_are_rejected(self, store: Opened) -> None:
        """Raises `NotFound`."""
        with pytest.raises(NotFound):
            store.backend.put_side_records("memstore_nothing", "kind", {"a": "b"})
        with pytest.raises(NotFound):
            list(store.backend.side_records("memstore_nothing", "kind"))


def put(store: Opened, kind: str, values: Mapping[str, str | None]) -> None:
    """Write records in one write."""

    def work(tx: Transaction) -> None:
        for key, value in values.items():
            tx.put_record(kind, key, value)

    store.backend.write(store.id, work)


def notes(store: Opened, kind: str) -> list[tuple[str, str]]:
    """Return all records of a kind."""
    return store.backend.read(store.id, lambda snapshot: list(snapshot.records(kind)))


def note(store: Opened, kind: str, key: str) -> str | None:
    """Return one record."""
    return store.backend.read(store.id, lambda snapshot: snapshot.get_record(kind, key))
