"""Stores of a location, created, updated, archived and listed by pages, and records of a location."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive import Conflict, InvalidInput, NotFound, Retentive
from retentive.errors import Archived, ReadOnly
from retentive.storage.capabilities import below_encryption
from retentive.storage.paging import stores_of_users
from retentive.transfer.archive import open_archive
from retentive.transfer.export import back_up
from retentive.transfer.restore import migrate, restore
from retentive.values.records import SYSTEM_STORE
from support.places import KEYS, opened

A = "/memories/a.md"


@pytest.fixture
def place(backend: str, tmp_path: Path) -> Iterator[Retentive]:
    with opened(backend, tmp_path) as found:
        yield found


def test_a_store_has_properties(place: Retentive) -> None:
    """An update replaces the given properties only. Metadata is merged, and None removes an entry."""
    made = place.create_store("Team", description="What we know", metadata={"a": "1", "b": "2"}, key="team")
    assert (made.name, made.description, made.metadata, made.key) == (
        "Team",
        "What we know",
        {"a": "1", "b": "2"},
        "team",
    )
    assert (made.updated_at, made.archived_at) == (made.created_at, None)
    assert place.create_store("Another", key="team") == made
    changed = place.update_store("team", name="Teäm", metadata={"a": None, "c": "3"})
    assert (changed.name, changed.description, changed.metadata) == ("Teäm", "What we know", {"b": "2", "c": "3"})
    assert changed.updated_at > made.updated_at
    assert place.update_store(made.id, description="").description == ""
    again = place.update_store(made.id, name="Teäm", metadata={"c": "3", "none": None})
    assert again == place.get_store("team") == place.stores()[0] == place.list_stores().items[0]
    place.store("team").create(A, "x")
    assert place.get_store("team").updated_at == again.updated_at
    assert place.store("team").name == "Teäm"


def test_a_model_is_told_that_the_store_is_archived(place: Retentive) -> None:
    """The reply is the same for a path that exists."""
    store = place.store()
    store.create(A, "one\n")
    first = place.archive_store(store.id)
    assert first.archived_at is not None
    assert place.archive_store(store.id) == first
    for path in (A, "/memories/new.md"):
        reply = store.execute({"command": "create", "path": path, "file_text": "x"})
        assert (reply.code, reply.is_error) == ("archived", True)


def test_an_archived_store_is_not_updated(place: Retentive) -> None:
    made = place.create_store("Old")
    archived_at = place.archive_store(made.id).archived_at
    with pytest.raises(Archived):
        place.update_store(made.id, name="New")
    found = place.get_store(made.id)
    assert (found.name, found.archived_at) == ("Old", archived_at)
    assert place.list_stores().items == ()
    assert [info.id for info in place.list_stores(include_archived=True).items] == [made.id]
    place.erase(made.id)
    assert place.stores() == []


def test_a_pinned_process_cannot_update_a_store(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as place:
        place.store()
    with retentive.open(at, read_only=True) as pinned:
        with pytest.raises(ReadOnly):
            pinned.archive_store("default")
        with pytest.raises(ReadOnly):
            pinned.update_store("default", name="x")


def test_stores_are_listed_in_pages(place: Retentive) -> None:
    """Pages list each store once, newest first, also if archived stores and those of others are left out."""
    made = [place.create_store(str(number), workspace=f"w{number % 2}") for number in range(9)]
    place.archive_store(made[4].id)
    wanted = [info.id for info in reversed(made) if info.workspace_id == "w0" and info.id != made[4].id]
    found, after = list[str](), None
    while True:
        page = place.list_stores(workspace="w0", after=after, limit=2)
        found += [info.id for info in page.items]
        after = page.next
        if after is None:
            break
    assert found == wanted
    with pytest.raises(InvalidInput):
        place.list_stores(limit=0)


def test_copies_keep_properties_and_workspace(tmp_path: Path) -> None:
    """A backup and a migration keep them, also from an encrypted store to a plain one."""
    with opened("sealed sqlite", tmp_path) as source:
        made = source.create_store("Secret name", description="d", metadata={"a": "b"}, key="k", workspace="w")
        source.store(made.id).create(A, "x")
        source.archive_store(made.id)
        wanted = source.get_store(made.id)
        back_up(source.backend, str(tmp_path / "b.tar"))
        with (
            retentive.open(f"sqlite:///{tmp_path}/copy.db") as target,
            retentive.open(tmp_path / "o", keys=KEYS) as other,
        ):
            migrate(source.backend, target.backend)
            with open_archive(str(tmp_path / "b.tar")) as archive:
                restore(archive, below_encryption(other.backend))
            for copy in (target.get_store("k", workspace="w"), other.get_store(made.id)):
                names = ("id", "key", "workspace_id", "name", "properties", "created_at", "archived_at", "metadata")
                assert [getattr(copy, name) for name in names] == [getattr(wanted, name) for name in names]
    data = (tmp_path / "sealed" / "memory.db").read_bytes()
    assert not [word for word in (b"Secret name", b'"metadata"', b'"description"') if word in data]


def test_a_record_is_written_read_and_removed(place: Retentive) -> None:
    records = place.records
    assert (records.get("key", "a"), records.list("key")) == (None, [])
    records.put("key", "a", "one")
    records.put("key", "a", "é\n" * 1_000)
    assert records.get("key", "a") == "é\n" * 1_000
    assert (records.get("key", "b"), records.get("kex", "a")) == (None, None)
    records.put("key", "a", None)
    records.put("key", "a", None)
    assert records.list("key") == []


def test_a_write_checks_the_expected_value(place: Retentive) -> None:
    records = place.records
    records.put("key", "a", "one", expected=None)
    for expected in (None, "other", ""):
        with pytest.raises(Conflict):
            records.put("key", "a", "two", expected=expected)
    records.put("key", "a", "one", expected="repeated")
    records.put("key", "a", "two", expected="one")
    with pytest.raises(Conflict):
        records.put("key", "a", None, expected="one")
    records.put("key", "a", None, expected="two")
    with pytest.raises(Conflict):
        records.put("key", "a", "three", expected="two")


def test_records_of_a_kind_are_listed_in_pages(place: Retentive) -> None:
    records, keys = place.records, [f"k{number:02}" for number in range(7)]
    for kind in ("key", "key2", "ke", "key.x"):
        for key in keys:
            records.put(kind, key, f"{kind} {key}")
    assert records.list("key") == [(key, f"key {key}") for key in keys]
    assert [key for key, _ in records.list("key", after="k02", limit=3)] == keys[3:6]
    assert records.list("key", after="k06") == records.list("none") == []


def test_the_store_of_the_records_is_hidden(place: Retentive) -> None:
    store = place.store()
    place.records.put("key", "a", "one")
    assert [info.id for info in place.stores()] == [info.id for info in place.list_stores().items] == [store.id]
    assert [info.id for info in stores_of_users(place.backend)] == [store.id]
    for call in (place.store, place.get_store, place.erase, place.archive_store):
        with pytest.raises(NotFound):
            call(SYSTEM_STORE)


@pytest.mark.parametrize(
    ("kind", "key"), [("", "a"), ("a/b", "a"), ("A", "a"), ("a", "é"), ("a", "x" * 151), ("a", " ")]
)
def test_invalid_names_are_refused(kind: str, key: str, tmp_path: Path) -> None:
    with retentive.open(f"sqlite:///{tmp_path}/m.db") as place:
        with pytest.raises(InvalidInput):
            place.records.put(kind, key, "x")
        with pytest.raises(InvalidInput):
            place.records.put("a", "a", "\0")
