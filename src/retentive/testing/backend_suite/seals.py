"""Backend suite: data of an encryption layer, which the backend stores without interpreting it."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentive.storage.contract import Backend, Change, Kept, Sealing, Version
from retentive.testing.backend_suite.opening import A, B, Opened, SuiteOpening


def sealing(data: bytes | None, size: int | None) -> Sealing:
    """Seal that stores `data` instead of a text of `size` bytes, with the ids of its version."""
    return Sealing(size, lambda memory, version: Kept(data, "", f"{memory}|{version}".encode()))


def ids(version: Version) -> bytes:
    """The expected seal of a version."""
    return f"{version.memory_id}|{version.id}".encode()


class SealsSuite(SuiteOpening):
    """Tests of seals of stores, versions and memories."""

    def test_sealed_changes_are_stored_unchanged(self, store: Opened) -> None:
        """Creations, edits, renames and deletions: the sealed bytes and their ids, with the sizes of the plain text."""
        self._needs_seals()
        backend = store.backend
        backend.write(store.id, lambda tx: tx.record([Change(None, A, None, sealing(b"\x00\xff one", 3))], None))
        made = store.memory(A)
        assert (made.size_bytes, made.sha256) == (3, "")
        assert store.get(A).data == b"\x00\xff one"
        backend.write(store.id, lambda tx: tx.record([Change(tx.get(A).memory, A, None, sealing(b"two", 9))], None))
        backend.write(store.id, lambda tx: tx.record([Change(tx.get(A).memory, B, None, sealing(None, None))], None))
        moved = store.memory(B)
        assert (moved.id, moved.size_bytes, store.usage().size_bytes) == (made.id, 9, 9)
        assert store.get(B).data == b"two"
        backend.write(store.id, lambda tx: tx.record([Change(tx.get(B).memory, None, None, sealing(None, None))], None))
        versions = store.versions()
        assert [version.seal for version in versions] == [ids(version) for version in versions]
        assert [version.size_bytes for version in versions] == [None, 9, 9, 3]
        assert [store.version_text(version.id) for version in versions] == [None, b"two", b"two", b"\x00\xff one"]
        assert moved.seal == versions[1].seal
        assert store.usage().memories == store.usage().size_bytes == 0

    def test_an_unsealed_change_has_no_seal(self, store: Opened) -> None:
        """Neither the version nor the memory."""
        self._needs_seals()
        store.create({A: b"one"})
        assert (store.memory(A).seal, store.versions()[0].seal, store.seal()) == (None, None, None)

    def test_the_seal_of_a_store_is_stored_and_replaced(self, tmp_path: Path) -> None:
        """Set at creation and changed in a write. The revision stays."""
        self._needs_seals()
        backend = self.opened(tmp_path)
        made = backend.create_store(key="sealed", name="sealed", seal="first")
        assert made.seal == "first"
        assert backend.create_store(key="sealed", name="again", seal="other") == made
        store = Opened(backend, "sealed")
        store.create({A: b"one"})
        backend.write(store.id, lambda tx: tx.set_metadata(seal="é" * 500))
        assert (store.seal(), store.revision()) == ("é" * 500, 1)
        if self.lasting:
            backend.close()
            backend = self.opened(tmp_path)
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
            pytest.skip("this backend seals by itself, and keeps no seals for others")
