"""Backend suite: creating, finding, listing and erasing memory stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from retentive.errors import NotFound
from retentive.storage.contract import DEFAULT_WORKSPACE, Actor, Backend, Transaction
from retentive.testing.backend_suite.opening import A, C, Opened, SuiteOpening

ODD_KEYS = ["a", "A", "é", "e\u0301", "a b", "a/b", "..", "%", "_", "it's", "😀", "x" * 255, "\u2028", "/etc/passwd"]


class StoresSuite(SuiteOpening):
    """Tests of creating, finding, listing and erasing memory stores."""

    def test_a_new_store_has_an_id_and_is_empty(self, backend: Backend) -> None:
        """It is found by its id and by its key, and by no other string. The same key returns the same store."""
        made = backend.create_store(key="k", name="Name")
        assert made.id.startswith("memstore_")
        assert (made.key, made.name, made.memories, made.size_bytes) == ("k", "Name", 0, 0)
        assert made.created_at.utcoffset() == timedelta(0)
        assert backend.get_store(made.id) == backend.get_store("k") == made
        for unknown in ("K", "k ", "", "Name", "memstore_" + "0" * 32):
            assert backend.get_store(unknown) is None
        assert backend.create_store(key="k", name="two") == made
        assert len(backend.list_stores()) == 1

    def test_an_imported_store_keeps_its_id_and_creation_time(self, backend: Backend) -> None:
        """A store can be created with a given id and creation time, as for an import."""
        there = backend.create_store(key="there", name="there")
        store_id, born = "memstore_" + "0" * 30 + "42", datetime(2020, 1, 2, 3, 4, 5, 678_901, UTC)
        made = backend.create_store(key="moved", name="Moved", store_id=store_id, created_at=born)
        assert (made.id, made.key, made.name, made.created_at) == (store_id, "moved", "Moved", born)
        assert backend.get_store(store_id) == backend.get_store("moved") == made
        assert backend.create_store(key="other", name="again", store_id=store_id) == made
        assert backend.create_store(key="there", name="again", store_id="memstore_" + "0" * 32) == there
        assert [info.id for info in backend.list_stores()] == [store_id, there.id]
        backend.create_store(key=store_id, name="its key is an id")
        assert backend.get_store(store_id) == made
        backend.erase_store(store_id, None)
        assert backend.create_store(key="moved", name="again", store_id=store_id).erased_at is not None

    def test_keys_are_unique_in_their_workspace(self, backend: Backend) -> None:
        """Two workspaces can use the same key for different stores. An id finds its store from every workspace."""
        one = backend.create_store(key="k", name="one")
        other = backend.create_store(key="k", name="other", workspace="wrkspc_other")
        assert (one.workspace_id, other.workspace_id) == (DEFAULT_WORKSPACE, "wrkspc_other")
        assert one.id != other.id
        assert backend.create_store(key="k", name="again", workspace="wrkspc_other") == other
        assert backend.get_store("k") == backend.get_store(one.id, workspace="wrkspc_other") == one
        assert backend.get_store("k", workspace="wrkspc_other") == other
        assert backend.get_store("k", workspace="wrkspc_none") is None
        assert [info.id for info in backend.list_stores(workspace="wrkspc_other")] == [other.id]
        assert [info.id for info in backend.list_stores()] == sorted([one.id, other.id])
        backend.erase_store(one.id, None)
        assert backend.get_store("k") is None
        assert backend.get_store("k", workspace="wrkspc_other") is not None

    def test_metadata_is_stored_with_the_store(self, tmp_path: Path) -> None:
        """Settings and properties are any texts, part of the write, and do not change the revision."""
        backend = self.opened(tmp_path)
        made = backend.create_store(key="k", name="n", properties='{"name":"é"}')
        assert backend.create_store(key="k", name="n", properties="{}").properties == made.properties
        long = '{"a": "é😀"}' + "x" * 60_000
        for settings, properties in ((long, "{}"), ("{}", '{"description":"' + "d" * 1_024 + '"}'), (None, None)):
            seen = backend.write(made.id, partial(_set_metadata, settings=settings, properties=properties))
            assert seen == (settings, properties)
            backend = self.reopened(backend, tmp_path)
            (listed,) = backend.list_stores()
            assert backend.get_store("k") == listed
            state = backend.read(made.id, lambda snapshot: snapshot.state)
            assert (state.settings, state.properties, state.revision) == (settings, listed.properties, 0)
            assert listed.properties == properties

    def test_keys_are_compared_exactly(self, backend: Backend) -> None:
        stores = {key: Opened(backend, key) for key in ODD_KEYS}
        for key, store in stores.items():
            store.create({A: key.encode()})
        for key, store in stores.items():
            found = backend.get_store(key)
            assert found is not None
            assert (found.id, found.key, store.tree()) == (store.id, key, {A: key.encode()})

    def test_stores_are_listed_a_page_at_a_time(self, backend: Backend) -> None:
        """By ids in both orders. `after` and `before` are exclusive bounds, and need not be ids of stores."""
        ids = sorted(backend.create_store(key=None, name="same").id for _ in range(6))
        assert len(set(ids)) == 6
        bounds = (None, "\0", ids[0], ids[3], ids[4] + "\0", "memstore_\uffff")
        for after, before, newest_first, limit in product(bounds, bounds, (False, True), (None, 0, 2)):
            wanted = [one for one in ids if (after is None or one > after) and (before is None or one < before)]
            wanted = wanted[::-1] if newest_first else wanted
            found = backend.list_stores(after=after, before=before, newest_first=newest_first, limit=limit)
            assert [info.id for info in found] == wanted[:limit], (after, before, newest_first, limit)

    def test_stores_are_independent(self, backend: Backend) -> None:
        one, other = Opened(backend, "one"), Opened(backend, "other")
        one.create({A: b"one", C: b"1"})
        other.create({A: b"other"})
        sizes = [(info.key, info.memories, info.size_bytes) for info in backend.list_stores()]
        assert sizes == [("one", 2, 4), ("other", 1, 5)]
        before = other.state()
        version, memory = one.versions()[0], one.memory(A)
        one.put(A, b"changed")
        one.delete(A)
        one.write(lambda tx: tx.put_record("kind", "key", "here"))
        assert (other.state(), other.tree()) == (before, {A: b"other"})
        assert other.found(memory.id) is None
        assert other.versions(memory_id=memory.id) == other.versions(revision_of=version.id) == []
        assert other.read(lambda snapshot: list(snapshot.records("kind"))) == []
        with pytest.raises(NotFound):
            other.version_text(version.id)

    def test_an_erased_store_is_removed(self, backend: Backend, store: Opened) -> None:
        """The id of the erased store cannot be used again, but its key can. Erasing again does nothing."""
        store.create({A: b"one", C: b"two"})
        store.write(lambda tx: tx.put_record("kind", "key", "value"))
        other = Opened(backend, "other")
        other.create({A: b"stays"})
        backend.erase_store(store.id, Actor("user", "ann"))
        info = backend.get_store(store.id)
        assert info is not None
        assert info.erased_at is not None
        assert (info.id, info.key, info.name, info.memories, info.size_bytes) == (store.id, None, "", 0, 0)
        assert (info.properties, backend.get_store("tested")) == (None, None)
        backend.erase_store(store.id, None)
        assert backend.get_store(store.id) == info
        assert [one.id for one in backend.list_stores()] == [other.id]
        self._is_unknown(backend, store.id)
        again = Opened(backend)
        assert again.id != store.id
        assert (again.tree(), again.versions()) == ({}, [])
        again.create({A: b"new"})
        assert other.tree() == {A: b"stays"}

    def test_an_unknown_store_cannot_be_used(self, backend: Backend) -> None:
        for unknown in ("memstore_" + "0" * 32, "", "tested"):
            self._is_unknown(backend, unknown)

    def _is_unknown(self, backend: Backend, store_id: str) -> None:
        for call in (
            lambda: backend.read(store_id, lambda snapshot: snapshot.state),
            lambda: backend.write(store_id, lambda tx: tx.put_record("kind", "key", "value")),
        ):
            with pytest.raises(NotFound):
                call()


def _set_metadata(tx: Transaction, settings: str | None, properties: str | None) -> tuple[str | None, str | None]:
    tx.set_metadata(settings="replaced")
    tx.set_metadata(settings=settings, properties=properties)
    return tx.state.settings, tx.state.properties
