"""Backend suite: records, side records and seals. A backend stores these for other layers without interpreting them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from retentive.errors import Damaged, NotFound
from retentive.storage.contract import Backend, Change, Kept, Sealing, Snapshot, Transaction, Version
from retentive.storage.lookup import find_version, locate
from retentive.testing.backend_suite.opening import A, B, Opened, SuiteOpening
from retentive.values.paths import ROOT

LONG = "é\n'\"\\" + "x" * 200_000


class LayersSuite(SuiteOpening):
    """Tests of records, side records, and the seals of stores, versions and memories."""

    def test_records_are_stored_by_kind_and_key(self, store: Opened) -> None:
        """`records` returns the records of a kind in key order.

        A new record replaces the old one, and None removes it.
        """
        put(store, "first", {"b": "1", "a": "é \U0001f600 'x'", "c": LONG})
        put(store, "second", {"a": "other"})
        assert notes(store, "first") == [("a", "é \U0001f600 'x'"), ("b", "1"), ("c", LONG)]
        put(store, "first", {"b": "", "c": None, "d": None})
        assert notes(store, "first") == [("a", "é \U0001f600 'x'"), ("b", "")]
        assert notes(store, "second") == [("a", "other")]
        assert notes(store, "third") == []
        assert (note(store, "first", "b"), note(store, "first", "c"), note(store, "first", "\0")) == ("", None, None)

    def test_many_records_are_stored(self, store: Opened) -> None:
        """Many records can be written in separate writes or in one write."""
        for number in range(120):
            put(store, "kind", {f"{number:03}": f"value {number}"})
        put(store, "kind", {f"{number:03}": "again" for number in range(100, 400)})
        put(store, "kind", {f"{number:03}": None for number in range(0, 400, 2)})
        expected = [(f"{number:03}", f"value {number}" if number < 100 else "again") for number in range(1, 400, 2)]
        assert notes(store, "kind") == expected
        assert note(store, "kind", "001") == "value 1"
        assert note(store, "kind", "002") is None

    def test_records_are_part_of_the_write(self, store: Opened) -> None:
        """A new record is visible in its transaction at once, and to other callers after the commit.

        A failed write stores no records.
        """
        store.create({A: b"one"})

        def work(tx: Transaction) -> list[tuple[str, str]]:
            tx.put_record("kind", "key", "value")
            return list(tx.records("kind"))

        assert store.write(work) == [("key", "value")]
        assert store.revision() == 1

        def failing(tx: Transaction) -> None:
            tx.put_record("kind", "key", "lost")
            tx.put_record("kind", "more", "lost")
            tx.record([Change(tx.get(A).memory, None)], None)
            raise ValueError("this write is meant to fail")

        with pytest.raises(ValueError, match="this write is meant to fail"):
            store.write(failing)
        assert notes(store, "kind") == [("key", "value")]
        assert store.get(A).exists

    def test_records_belong_to_one_store(self, store: Opened) -> None:
        """Records of one store are not visible in other stores."""
        other = Opened(store.backend, "other")
        put(store, "kind", {"key": "here"})
        store.backend.put_side_records(store.id, "beside", {"key": "here"})
        assert notes(other, "kind") == list(other.backend.side_records(other.id, "beside")) == []

    def test_side_records_do_not_change_the_revision(self, store: Opened) -> None:
        """Side records are stored by kind and key, like records. They do not change the revision."""
        jot = store.backend.put_side_records
        jot(store.id, "seen", {"b": "1", "a": "2"})
        for number in range(80):
            jot(store.id, "seen", {f"c{number:02}": str(number)})
        jot(store.id, "seen", {"b": "3", "a": None, "z": None})
        jot(store.id, "heard", {"a": LONG})
        expected = [("b", "3"), *((f"c{number:02}", str(number)) for number in range(80))]
        assert list(store.backend.side_records(store.id, "seen")) == expected
        assert list(store.backend.side_records(store.id, "seen", after="c77")) == expected[-2:]
        assert list(store.backend.side_records(store.id, "seen", after="b", limit=2)) == expected[1:3]
        assert list(store.backend.side_records(store.id, "heard")) == [("a", LONG)]
        assert list(store.backend.side_records(store.id, "nothing")) == []
        assert store.revision() == 0

    def test_side_records_of_an_unknown_store_are_rejected(self, store: Opened) -> None:
        """Reading or writing side records of an unknown store raises `NotFound`."""
        with pytest.raises(NotFound):
            store.backend.put_side_records("memstore_nothing", "kind", {"a": "b"})
        with pytest.raises(NotFound):
            list(store.backend.side_records("memstore_nothing", "kind"))

    def test_sealed_changes_are_stored_unchanged(self, store: Opened) -> None:
        """Every kind of change stores the encrypted bytes, the seal, and the size of the plain text."""
        self._needs_seals()
        store.write(lambda tx: tx.record([Change(None, A, None, sealing(b"\x00\xff one", 3))], None))
        made = store.memory(A)
        assert (made.size_bytes, made.sha256) == (3, "")
        assert store.get(A).data == b"\x00\xff one"
        store.write(lambda tx: tx.record([Change(tx.get(A).memory, A, None, sealing(b"two", 9))], None))
        store.write(lambda tx: tx.record([Change(tx.get(A).memory, B, None, sealing(None, None))], None))
        moved = store.memory(B)
        assert (moved.id, moved.size_bytes, store.usage().size_bytes) == (made.id, 9, 9)
        assert store.get(B).data == b"two"
        store.write(lambda tx: tx.record([Change(tx.get(B).memory, None, None, sealing(None, None))], None))
        versions = store.versions()
        assert [version.seal for version in versions] == [ids(version) for version in versions]
        assert [version.size_bytes for version in versions] == [None, 9, 9, 3]
        assert [store.version_text(version.id) for version in versions] == [None, b"two", b"two", b"\x00\xff one"]
        assert moved.seal == versions[1].seal
        assert store.usage().memories == store.usage().size_bytes == 0

    def test_provenance_is_stored_with_each_change(self, store: Opened) -> None:
        """Every kind of change stores its provenance in the version and in the memory.

        Redaction removes the provenance.
        """

        def record(path: str | None, *, data: bytes | None = None, of: str | None = A, note: str | None) -> None:
            store.write(
                lambda tx: tx.record(
                    [Change(None if of is None else tx.get(of).memory, path, data, provenance_text=note)], None
                )
            )

        record(A, data=b"one", of=None, note='{"source": "web"}')
        assert store.memory(A).provenance_text == '{"source": "web"}'
        record(A, data=b"two", note="2 é")
        record(B, note="3")
        listed = store.read(lambda snapshot: list(snapshot.memories(ROOT)))
        assert [memory.provenance_text for memory in [store.memory(B), *listed]] == ["3", "3"]
        record(B, data=b"three", of=B, note=None)
        assert store.memory(B).provenance_text is None
        record(None, of=B, note="5")
        versions = store.versions()
        assert [version.provenance_text for version in versions] == ["5", None, "3", "2 é", '{"source": "web"}']
        store.write(lambda tx: tx.redact([versions[-1].id], None))
        assert store.versions()[-1].provenance_text is None

    @pytest.mark.parametrize("stored", [b"two", b"on", b""], ids=["other", "cut", "empty"])
    def test_a_text_that_differs_from_its_hash_is_never_returned(self, store: Opened, stored: bytes) -> None:
        """Every read of a damaged text raises `Damaged`. Other texts, listings and the history can still be read."""
        self._needs_seals()
        store.create({A: b"one", B: b"other"})
        store.write(lambda tx: tx.record([Change(tx.get(A).memory, A, None, damaged(b"one!", stored))], None))
        newest, oldest = store.versions(path=A)
        for read in reads_of(newest.id):
            with pytest.raises(Damaged):
                store.read(read)
            with pytest.raises(Damaged):
                store.write(read)
        assert store.get(B).data == b"other"
        assert store.version_text(oldest.id) == b"one"
        assert [memory.path for memory in store.memories()] == [A, B]
        assert store.read(lambda snapshot: find_version(snapshot, newest.id)) == newest

    def test_a_memory_with_a_damaged_text_can_be_replaced_and_deleted(self, store: Opened) -> None:
        """`locate` finds the memory although its text cannot be read.

        The memory can be replaced or deleted without its text.
        """
        self._needs_seals()
        store.write(lambda tx: tx.record([Change(None, A, None, damaged(b"one", b"two"))], None))
        located = store.read(lambda snapshot: locate(snapshot, A))
        assert (located.memory, located.data) == (store.memories()[0], None)
        store.write(lambda tx: tx.record([Change(locate(tx, A).memory, A, b"three")], None))
        assert store.read(lambda snapshot: locate(snapshot, A)) == store.get(A)
        assert store.get(A).data == b"three"
        store.write(lambda tx: tx.record([Change(tx.get(A).memory, A, None, damaged(b"one", b"two"))], None))
        store.write(lambda tx: tx.record([Change(locate(tx, A).memory, None)], None))
        assert not store.read(lambda snapshot: locate(snapshot, A)).exists

    def test_an_unsealed_change_has_no_seal(self, store: Opened) -> None:
        """The seal of the version and the seal of the memory are None."""
        self._needs_seals()
        store.create({A: b"one"})
        assert (store.memory(A).seal, store.versions()[0].seal, store.seal()) == (None, None, None)

    def test_the_seal_of_a_store_is_stored_and_replaced(self, tmp_path: Path) -> None:
        """The seal of a store is set at its creation. A write can replace it without changing the revision."""
        self._needs_seals()
        backend = self.opened(tmp_path)
        made = backend.create_store(key="sealed", name="sealed", seal="first")
        assert made.seal == "first"
        assert backend.create_store(key="sealed", name="again", seal="other") == made
        store = Opened(backend, "sealed")
        store.create({A: b"one"})
        store.write(lambda tx: tx.set_metadata(seal="é" * 500))
        assert (store.seal(), store.revision()) == ("é" * 500, 1)
        backend = self.reopened(backend, tmp_path)
        self._is_sealed(backend, "é" * 500)
        backend.write(made.id, lambda tx: tx.set_metadata(seal=None))
        self._is_sealed(backend, None)

    def _is_sealed(self, backend: Backend, seal: str | None) -> None:
        found = backend.get_store("sealed")
        assert found is not None
        assert [found.seal] == [store.seal for store in backend.list_stores()] == [seal]
        assert backend.read(found.id, lambda snapshot: snapshot.seal) == seal

    def _needs_seals(self) -> None:
        if not self.seals:
            pytest.skip("this backend is an encryption layer, and does not store the seals of other layers")


def put(store: Opened, kind: str, values: Mapping[str, str | None]) -> None:
    """Write several records in one write."""

    def work(tx: Transaction) -> None:
        for key, value in values.items():
            tx.put_record(kind, key, value)

    store.write(work)


def notes(store: Opened, kind: str) -> list[tuple[str, str]]:
    """Return all records of a kind."""
    return store.read(lambda snapshot: list(snapshot.records(kind)))


def note(store: Opened, kind: str, key: str) -> str | None:
    """Return one record."""
    return store.read(lambda snapshot: snapshot.get_record(kind, key))


def sealing(data: bytes | None, size: int | None) -> Sealing:
    """Return a sealing, which stores `data` in place of a text of `size` bytes.

    The seal has the ids of the memory and of the version.
    """
    return Sealing(size, lambda memory, version: Kept(data, "", f"{memory}|{version}".encode()))


def damaged(text: bytes, stored: bytes) -> Sealing:
    """Return the sealing of a damaged change. The bytes are `stored`, but the size and hash are those of `text`."""
    kept = Kept(stored, hashlib.sha256(text).hexdigest(), None)
    return Sealing(len(text), lambda memory, version: kept)


def reads_of(version_id: str) -> list[Callable[[Snapshot], object]]:
    """Return functions that read the text of the memory at `A`. Each function uses a different read method.

    `version_id` is the newest version of this memory.
    """
    return [
        lambda snapshot: snapshot.get(A),
        lambda snapshot: snapshot.text(version_id),
        lambda snapshot: snapshot.version(version_id),
        lambda snapshot: list(snapshot.texts(ROOT)),
    ]


def ids(version: Version) -> bytes:
    """Return the seal that `sealing` creates for a version."""
    return f"{version.memory_id}|{version.id}".encode()
