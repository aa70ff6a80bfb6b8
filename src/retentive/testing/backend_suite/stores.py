"""Backend suite: creating and finding memory stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from retentive.errors import InvalidInput, NotFound
from retentive.storage.contract import DEFAULT_WORKSPACE, Backend, Change, Transaction
from retentive.testing.backend_suite.opening import A, Opened, SuiteOpening

ODD_KEYS = ["a", "A", "é", "e\u0301", "a b", "a/b", "..", "%", "_", "it's", "😀", "x" * 255, "\u2028", "/etc/passwd"]


class StoresSuite(SuiteOpening):
    """Tests of creating and finding memory stores."""

    def test_a_new_store_has_an_id_and_is_empty(self, backend: Backend) -> None:
        """The id starts with `memstore_`, and the store has the given key and name."""
        made = backend.create_store(key="k", name="Name")
        assert made.id.startswith("memstore_")
        assert (made.key, made.name, made.memories, made.size_bytes) == ("k", "Name", 0, 0)
        assert made.created_at.utcoffset() == timedelta(0)

    def test_a_store_is_found_by_id_and_by_key(self, backend: Backend) -> None:
        """A store is found by its exact id or key, and by no other string."""
        made = backend.create_store(key="k", name="Name")
        assert backend.get_store(made.id) == made
        assert backend.get_store("k") == made
        for unknown in ("K", "k ", "", "Name", "memstore_" + "0" * 32):
            assert backend.get_store(unknown) is None

    def test_an_existing_key_returns_its_store(self, backend: Backend) -> None:
        """Creating a store with an existing key returns the existing store, which keeps its name."""
        made = backend.create_store(key="k", name="one")
        assert backend.create_store(key="k", name="two") == made
        assert len(backend.list_stores()) == 1

    def test_an_imported_store_keeps_its_id_and_creation_time(self, backend: Backend) -> None:
        """A store can be created with a given id and creation time, as for an import.

        If a store with this id or this key exists already, it is returned.
        """
        there = backend.create_store(key="there", name="there")
        store_id, born = "memstore_" + "0" * 30 + "42", datetime(2020, 1, 2, 3, 4, 5, 678_901, UTC)
        made = backend.create_store(key="moved", name="Moved", store_id=store_id, created_at=born)
        assert (made.id, made.key, made.name, made.created_at) == (store_id, "moved", "Moved", born)
        assert backend.get_store(store_id) == backend.get_store("moved") == made
        assert backend.create_store(key="other", name="again", store_id=store_id) == made
        assert backend.create_store(key="there", name="again", store_id="memstore_" + "0" * 32) == there
        assert [info.id for info in backend.list_stores()] == [store_id, there.id]
        backend.erase_store(store_id, None)
        assert backend.create_store(key="moved", name="again", store_id=store_id).erased_at is not None

    def test_stores_without_a_key_are_distinct(self, backend: Backend) -> None:
        """Two stores without a key are distinct even if they have the same name."""
        one, other = (backend.create_store(key=None, name="same") for _ in range(2))
        assert one.id != other.id
        assert one.key is None
        assert backend.get_store(other.id) == other

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
        Opened(backend, "k").create({A: b"one"})
        backend.write(other.id, lambda tx: tx.record([Change(None, A, b"other")], None))
        assert backend.read(one.id, lambda snapshot: snapshot.get(A).data) == b"one"
        assert backend.read(other.id, lambda snapshot: snapshot.get(A).data) == b"other"
        assert [info.id for info in backend.list_stores(workspace="wrkspc_other")] == [other.id]
        assert [info.id for info in backend.list_stores()] == sorted([one.id, other.id])
        backend.erase_store(one.id, None)
        assert backend.get_store("k") is None
        assert backend.get_store("k", workspace="wrkspc_other") is not None

    def test_properties_are_stored_with_the_store(self, backend: Backend) -> None:
        """The properties can be read in a transaction and in the list of stores.

        Changing the properties does not change the revision.
        """
        made = backend.create_store(key="k", name="n", properties='{"name":"é"}')
        assert made.properties == '{"name":"é"}'
        assert backend.read(made.id, lambda snapshot: snapshot.properties) == made.properties
        assert backend.create_store(key="k", name="n", properties="{}").properties == made.properties
        for text in ('{"name":"b"}', '{"description":"' + "d" * 1_024 + '"}', None):
            backend.write(made.id, partial(_set_properties, text=text))
            found = backend.get_store("k")
            assert found is not None
            assert text == found.properties == backend.list_stores()[0].properties
            assert backend.read(made.id, lambda snapshot: (snapshot.properties, snapshot.revision)) == (text, 0)
        plain = backend.create_store(key=None, name="n")
        assert plain.properties is None
        backend.write(plain.id, lambda tx: tx.set_metadata(properties="{}", settings="s"))
        assert backend.read(plain.id, lambda snapshot: (snapshot.properties, snapshot.settings)) == ("{}", "s")
        backend.erase_store(plain.id, None)
        erased = backend.get_store(plain.id)
        assert erased is not None
        assert erased.properties is None

    def test_a_failed_write_keeps_the_properties(self, backend: Backend) -> None:
        """A write that raises an exception does not change the properties that later writes see."""
        made = backend.create_store(key="k", name="n", properties="{}")

        def fail(tx: Transaction) -> None:
            tx.set_metadata(properties='{"name":"x"}')
            assert tx.properties == '{"name":"x"}'
            raise InvalidInput("no")

        with pytest.raises(InvalidInput):
            backend.write(made.id, fail)
        assert backend.write(made.id, lambda tx: tx.properties) == "{}"

    def test_keys_are_compared_exactly(self, backend: Backend) -> None:
        """Keys that differ in case, Unicode form or special characters belong to different stores."""
        stores = {key: Opened(backend, key) for key in ODD_KEYS}
        for key, store in stores.items():
            store.create({A: key.encode()})
        for key, store in stores.items():
            found = backend.get_store(key)
            assert found is not None
            assert (found.id, found.key, store.tree()) == (store.id, key, {A: key.encode()})

    def test_stores_are_listed_a_page_at_a_time(self, backend: Backend) -> None:
        """Stores are listed in the order of their ids. `after` is the last id of the previous page."""
        ids = sorted(backend.create_store(key=None, name=str(number)).id for number in range(7))
        assert [store.id for store in backend.list_stores(limit=3)] == ids[:3]
        assert [store.id for store in backend.list_stores(after=ids[2], limit=3)] == ids[3:6]
        assert [store.id for store in backend.list_stores(after=ids[4])] == ids[5:]
        assert backend.list_stores(after=ids[6]) == backend.list_stores(limit=0) == []

    def test_stores_are_listed_newest_first(self, backend: Backend) -> None:
        """`after` and `before` are exclusive bounds of the ids, in both orders. They need not be ids of stores."""
        ids = sorted(backend.create_store(key=None, name=str(number)).id for number in range(5))
        newest_first = [one.id for one in backend.list_stores(newest_first=True)]
        assert newest_first == ids[::-1]
        assert [one.id for one in backend.list_stores(newest_first=True, limit=2)] == ids[:2:-1]
        assert [one.id for one in backend.list_stores(newest_first=True, before=ids[3], limit=2)] == [ids[2], ids[1]]
        assert [one.id for one in backend.list_stores(after=ids[0], before=ids[3])] == ids[1:3]
        assert backend.list_stores(before="memstore_") == backend.list_stores(after="memstore_~") == []

    def test_stores_are_listed_oldest_first_with_their_sizes(self, backend: Backend) -> None:
        """Each store in the list comes with its current size and its current number of memories."""
        first, second = Opened(backend, "z"), Opened(backend, "a")
        first.create({A: b"12345"})
        first.create({"/memories/b": b"1"})
        listed = backend.list_stores()
        assert [(one.id, one.key, one.memories, one.size_bytes) for one in listed] == [
            (first.id, "z", 2, 6),
            (second.id, "a", 0, 0),
        ]
        assert backend.get_store("z") == listed[0]

    def test_an_id_takes_precedence_over_a_key(self, tmp_path: Path) -> None:
        """A store can have the id of another store as its key. This id still finds the other store."""
        ids = iter(["memstore_1", "memstore_2"])
        backend = self.opened(tmp_path, new_id=lambda prefix, time_us: next(ids))
        backend.create_store(key="memstore_2", name="one")
        second = backend.create_store(key="other", name="two")
        assert backend.get_store("memstore_2") == second

    def test_an_unknown_store_cannot_be_read_or_written(self, backend: Backend) -> None:
        """Reading or writing an unknown store raises `NotFound`."""
        for unknown in ("memstore_" + "0" * 32, "", "tested"):
            with pytest.raises(NotFound):
                backend.read(unknown, lambda snapshot: snapshot.revision)
            with pytest.raises(NotFound):
                backend.write(unknown, lambda tx: tx.revision)

    def test_stores_are_independent(self, backend: Backend) -> None:
        """Two stores can have different memories at the same path, each with its own history."""
        one, other = Opened(backend, "one"), Opened(backend, "other")
        one.create({A: b"one"})
        other.create({A: b"other"})
        before = other.state()
        version, memory = one.versions()[0], one.memory(A)
        one.put(A, b"changed")
        one.delete(A)
        assert other.state() == before
        assert other.tree() == {A: b"other"}
        assert backend.read(other.id, lambda snapshot: snapshot.find(memory.id)) is None
        assert backend.read(other.id, lambda snapshot: list(snapshot.versions(memory_id=memory.id))) == []
        with pytest.raises(NotFound):
            backend.read(other.id, lambda snapshot: snapshot.text(version.id))


def _set_properties(tx: Transaction, text: str | None) -> None:
    assert tx.properties != text
    tx.set_metadata(properties=text)
    assert tx.properties == text
