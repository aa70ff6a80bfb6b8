"""Backend suite: records and seals. A backend stores these for other layers without interpreting them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from operator import methodcaller
from pathlib import Path

import pytest

from retentive.errors import Damaged
from retentive.storage.contract import (
    Created,
    Deleted,
    Kept,
    Memory,
    Moved,
    Sealing,
    Snapshot,
    Transaction,
    Updated,
    Version,
)
from retentive.testing.backend_suite.opening import A, B, Opened, SuiteOpening, memory_at
from retentive.values.paths import ROOT

LONG = "é\n'\"\\" + "x" * 200_000


class LayersSuite(SuiteOpening):
    """Tests of records and the seals of stores, versions and memories."""

    def test_records_are_stored_by_kind_and_key(self, store: Opened) -> None:
        """In key order. A new record replaces the old one, and None removes it. The revision stays."""
        put(store, "first", {"b": "1", "a": "é \U0001f600 'x'", "c": LONG})
        put(store, "second", {"a": "other"})
        assert notes(store, "first") == [("a", "é \U0001f600 'x'"), ("b", "1"), ("c", LONG)]
        put(store, "first", {"b": "", "c": None, "d": None})
        assert notes(store, "first") == [("a", "é \U0001f600 'x'"), ("b", "")]
        assert notes(store, "second") == [("a", "other")]
        assert notes(store, "third") == []
        put(store, "many", {f"{number:03}": "again" for number in range(400)})
        put(store, "many", {f"{number:03}": None for number in range(0, 400, 2)})
        assert notes(store, "many") == [(f"{number:03}", "again") for number in range(1, 400, 2)]
        assert store.read(lambda found: [found.get_record("first", key) for key in "bc"]) == ["", None]
        store.backend.write(store.id, lambda tx: tx.put_record("many", "001", None), wait=False)
        assert store.read(lambda found: list(found.records("many", after="000", limit=2)))[0] == ("003", "again")
        assert store.revision() == 0

    def test_sealed_changes_are_stored_unchanged(self, store: Opened) -> None:
        """Every kind of change stores the encrypted bytes, the seal, and the size of the plain text."""
        self._needs_seals()
        store = Opened(store.backend, "sealed", seal="kept")
        store.write(lambda tx: tx.record([Created(A, b"", sealing=sealing(b"\x00\xff one", 3))], None))
        made = store.memory(A)
        assert (made.size_bytes, made.sha256, store.get(A).data) == (3, "", b"\x00\xff one")
        store.write(lambda tx: tx.record([Updated(memory_at(tx, A), A, b"", sealing=sealing(b"two", 9))], None))
        store.write(lambda tx: tx.record([Moved(memory_at(tx, A), B, sealing=sealing(None, None))], None))
        moved = store.memory(B)
        assert (moved.id, moved.size_bytes, store.usage().size_bytes) == (made.id, 9, 9)
        assert store.get(B).data == b"two"
        store.write(lambda tx: tx.record([Deleted(memory_at(tx, B), sealing=sealing(None, None))], None))
        versions = store.versions()
        assert [version.seal for version in versions] == [ids(version) for version in versions]
        assert [version.size_bytes for version in versions] == [None, 9, 9, 3]
        assert [store.version_text(version.id) for version in versions] == [None, b"two", b"two", b"\x00\xff one"]
        assert moved.seal == versions[1].seal
        store.create({A: b"plain"})
        assert (store.memory(A).seal, store.versions()[0].seal) == (None, None)

    def test_provenance_is_stored_with_each_change(self, store: Opened) -> None:
        """In the version and in the memory. Redaction removes it."""

        store.write(lambda tx: tx.record([Created(A, b"one", '{"source": "web"}')], None))
        assert store.memory(A).provenance_text == '{"source": "web"}'
        store.write(lambda tx: tx.record([Updated(memory_at(tx, A), A, b"two", "2 é")], None))
        store.write(lambda tx: tx.record([Moved(memory_at(tx, A), B, "3")], None))
        assert [memory.provenance_text for memory in [store.memory(B), *store.memories()]] == ["3", "3"]
        store.write(lambda tx: tx.record([Updated(memory_at(tx, B), B, b"three")], None))
        assert store.memory(B).provenance_text is None
        store.write(lambda tx: tx.record([Deleted(memory_at(tx, B), "5")], None))
        versions = store.versions()
        assert [version.provenance_text for version in versions] == ["5", None, "3", "2 é", '{"source": "web"}']
        store.write(lambda tx: tx.redact([versions[-1].id], None))
        assert store.versions()[-1].provenance_text is None

    @pytest.mark.parametrize("stored", [b"two", b"on", b""], ids=["other", "cut", "empty"])
    def test_a_text_that_differs_from_its_hash_is_never_returned(self, store: Opened, stored: bytes) -> None:
        """Every read of a damaged text raises `Damaged`. The rest can be read, and the memory replaced or deleted."""
        self._needs_seals()
        store = Opened(store.backend, "sealed", seal="kept")
        store.create({A: b"one", B: b"other"})
        store.write(lambda tx: tx.record([Updated(memory_at(tx, A), A, b"", sealing=damaged(b"one!", stored))], None))
        newest, oldest = store.versions(path=A)
        for read in (
            lambda snapshot: snapshot.get(A),
            lambda snapshot: snapshot.version(newest.id),
            lambda snapshot: list(snapshot.list(ROOT, texts=True)),
        ):
            for call in (store.read, store.write):
                with pytest.raises(Damaged):
                    call(read)
        assert (store.get(B).data, store.version_text(oldest.id)) == (b"other", b"one")
        assert [memory.path for memory in store.memories()] == [A, B]
        store.write(lambda tx: tx.record([Updated(first(tx), A, b"three")], None))
        assert store.get(A).data == b"three"
        store.write(lambda tx: tx.record([Updated(memory_at(tx, A), A, b"", sealing=damaged(b"one", stored))], None))
        store.write(lambda tx: tx.record([Deleted(first(tx))], None))
        assert not store.get(A).exists

    def test_the_seal_of_a_store_is_stored_and_replaced(self, tmp_path: Path) -> None:
        """The seal of a store is set at its creation. A write can replace it without changing the revision."""
        self._needs_seals()
        backend = self.opened(tmp_path)
        made = backend.create_store(key="sealed", name="sealed", seal="first")
        assert backend.create_store(key="sealed", name="again", seal="other") == made
        Opened(backend, "sealed").create({A: b"one"})
        for seal in ("first", "é" * 500, None):
            backend.write(made.id, methodcaller("set_metadata", seal=seal))
            backend = self.reopened(backend, tmp_path)
            found = backend.get_store("sealed")
            assert found is not None
            assert [found.seal] == [store.seal for store in backend.list_stores()] == [seal]
            state = backend.read(found.id, lambda snapshot: snapshot.state)
            assert (state.seal, state.revision) == (seal, 1)

    def _needs_seals(self) -> None:
        if not self.seals:
            pytest.skip("this backend is an encryption layer, and does not store the seals of other layers")


def put(store: Opened, kind: str, values: Mapping[str, str | None]) -> None:
    """Write several records in one write, which sees them at once."""

    def work(tx: Transaction) -> None:
        for key, value in values.items():
            tx.put_record(kind, key, value)
            assert tx.get_record(kind, key) == value

    store.write(work)


def notes(store: Opened, kind: str) -> list[tuple[str, str]]:
    return store.read(lambda snapshot: list(snapshot.records(kind)))


def first(snapshot: Snapshot) -> Memory:
    """Return the first memory of the store, whose text may be damaged."""
    return next(snapshot.list(ROOT))[0]


def sealing(data: bytes | None, size: int | None) -> Sealing:
    """Return a sealing, which stores `data` in place of a text of `size` bytes."""
    return lambda memory, version: Kept(data, size, "", f"{memory}|{version}".encode())


def damaged(text: bytes, stored: bytes) -> Sealing:
    """Return the sealing of a damaged change. The bytes are `stored`, but the size and hash are those of `text`."""
    kept = Kept(stored, len(text), hashlib.sha256(text).hexdigest(), None)
    return lambda memory, version: kept


def ids(version: Version) -> bytes:
    return f"{version.memory_id}|{version.id}".encode()
