"""The backend suite: what a backend keeps for a layer that encrypts, without knowing what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentive.storage.contract import Backend, Change, Kept, Sealing, Version
from retentive.testing.backend_suite.opening import A, B, Opened, SuiteOpening


def sealing(data: bytes | None, size: int | None) -> Sealing:
    """Keeps `data` in place of a text of `size` bytes, and the ids it was made for."""
    return Sealing(size, lambda memory, version: Kept(data, "", f"{memory}|{version}".encode()))


def ids(version: Version) -> bytes:
    """The seal a version must have."""
    return f"{version.memory_id}|{version.id}".encode()


class SealsSuite(SuiteOpening):
    """Seals of stores, versions and memories."""

    def test_a_sealed_change_rests_as_it_was_sealed(self, store: Opened) -> None:
        """Creations, edits, renames and deletions: the bytes and the seal made for their ids; sizes of the plain."""
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
        """Neither its version nor its memory."""
        self._needs_seals()
        store.create({A: b"one"})
        assert (store.memory(A).seal, store.versions()[0].seal, store.seal()) == (None, None, None)

    def test_the_seal_of_a_store_is_kept_and_replaced(self, tmp_path: Path) -> None:
        """Given when it is made; changed in a write; the revision stays."""
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
