"""Stores of a location: created with properties, updated, archived, and listed page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import retentive
from retentive import InvalidInput, MemoryStore, Retentive
from retentive.errors import Archived, ReadOnly
from retentive.storage.capabilities import below_encryption
from retentive.transfer.archive import open_archive
from retentive.transfer.export import back_up
from retentive.transfer.restore import migrate, restore
from support.places import COMPARED, KEYS, opened

A, B = "/memories/a.md", "/memories/b.md"


@pytest.fixture(params=COMPARED)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Retentive]:
    with opened(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Retentive]:
    with retentive.open(f"sqlite:///{tmp_path}/memory.db", actor="user:ann") as found:
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


def test_names_need_not_be_unique(place: Retentive) -> None:
    one, other = place.create_store("Same"), place.create_store("Same")
    assert one.id != other.id
    assert [info.id for info in place.list_stores().items] == [other.id, one.id]


def test_a_store_without_properties_has_the_defaults(local: Retentive) -> None:
    store = local.store("k", name="Shown")
    info = local.get_store("k")
    assert (info.name, info.description, info.metadata, info.archived_at) == ("Shown", "", {}, None)
    assert (info.updated_at, info.id) == (info.created_at, store.id)
    assert local.update_store("k", description="d").name == "Shown"


REFUSED: dict[str, Callable[[MemoryStore], object]] = {
    "create": lambda store: store.create("/memories/new.md", "x"),
    "create, taken": lambda store: store.create(A, "x"),
    "write": lambda store: store.write(A, "x"),
    "append": lambda store: store.append(A, "x"),
    "edit": lambda store: store.edit(A, "one", "1"),
    "insert": lambda store: store.insert(A, 0, "x"),
    "rename": lambda store: store.rename(A, "/memories/new.md"),
    "undo": lambda store: store.undo("HEAD"),
    "dry run": lambda store: store.undo("HEAD", dry_run=True),
    "undo of a creation": lambda store: store.undo(store.versions(B)[-1].id),
    "restore": lambda store: store.history.restore(A, store.versions(A)[-1].id),
    "scan": lambda store: store.scan(redact=True),
    "accept": lambda store: store.review.accept([store.review.pending()[0].id], actor="user:bob"),
}
ALLOWED: dict[str, Callable[[MemoryStore], object]] = {
    "read": lambda store: store.read(A),
    "view": lambda store: store.view(),
    "search": lambda store: store.search("one"),
    "log": lambda store: store.history.log(),
    "delete": lambda store: store.delete(A),
    "clear": lambda store: store.clear().raise_for_error(),
    "redact": lambda store: store.history.redact([store.versions(A)[-1].id]),
    "erase": lambda store: store.history.erase(A),
    "settings": lambda store: store.change_settings({"view_chars": 4_000}),
    "sweep": lambda store: store.sweep(),
    "refuse": lambda store: store.review.refuse([store.review.pending()[0].id], actor="user:bob"),
}


def archived(place: Retentive) -> MemoryStore:
    """A store with some history and a proposal, then archived."""
    store = place.store()
    store.change_settings({"review": ["session:*"]})
    store.create(A, "one\n")
    store.edit(A, "one", "two")
    store.create(B, "b")
    store.create("/memories/p.md", "proposed", actor="session:s")
    first = place.archive_store(store.id)
    assert first.archived_at is not None
    assert place.archive_store(store.id) == first
    return store


@pytest.mark.parametrize("call", REFUSED)
def test_an_archived_store_refuses_changes(call: str, local: Retentive) -> None:
    store = archived(local)
    before = store.versions(), store.memories()
    if call == "accept":
        assert [each.code for each in [REFUSED[call](store)] if hasattr(each, "code")] in ([], ["archived"])
    else:
        with pytest.raises(Archived):
            REFUSED[call](store)
    assert (store.versions(), store.memories()) == before


@pytest.mark.parametrize("call", ALLOWED)
def test_an_archived_store_allows_reads_and_removal(call: str, local: Retentive) -> None:
    ALLOWED[call](archived(local))


def test_a_model_is_told_that_the_store_is_archived(local: Retentive) -> None:
    """The reply is the same for a path that exists."""
    store = archived(local)
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


def test_read_only_refuses_deletes_and_updates(tmp_path: Path) -> None:
    """The setting refuses the deletion of a memory; a process with the pin cannot archive or update the store."""
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as place:
        place.store().create(A, "x")
        place.store().change_settings({"read_only": True})
        store = place.store()
        with pytest.raises(ReadOnly):
            store.delete(A)
        with pytest.raises(ReadOnly):
            store.clear().raise_for_error()
    with retentive.open(at, read_only=True) as pinned:
        with pytest.raises(ReadOnly):
            pinned.archive_store("default")
        with pytest.raises(ReadOnly):
            pinned.update_store("default", name="x")


@pytest.mark.parametrize(
    "given",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"name": "x" * 256},
        {"description": "x" * 1_025},
        {"description": "\0"},
        {"metadata": {"": "x"}},
        {"metadata": {"x" * 65: "x"}},
        {"metadata": {"x": "y" * 513}},
        {"metadata": {"x": "\ud800"}},
        {"metadata": {f"x{number}": "" for number in range(17)}},
        {"workspace": "a\nb"},
        {"key": ""},
    ],
)
def test_invalid_properties_are_refused(given: dict[str, object], local: Retentive) -> None:
    with pytest.raises(InvalidInput):
        local.create_store(**({"name": "Name"} | given))  # type: ignore[arg-type] # invalid on purpose
    assert local.stores() == []


def test_the_largest_properties_are_stored(place: Retentive) -> None:
    metadata = {f"{number:02}" + "é" * 62: "ü" * 512 for number in range(16)}
    made = place.create_store("n" * 255, description="d" * 1_024, metadata=metadata)
    assert place.get_store(made.id) == made
    assert made.metadata == metadata


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


def test_stores_are_listed_by_their_time(tmp_path: Path) -> None:
    """Both bounds are inclusive, to the microsecond."""
    start, now = datetime(2026, 1, 1, tzinfo=UTC), 0.0
    with retentive.open(f"sqlite:///{tmp_path}/m.db", clock=lambda: now) as place:
        for number in range(4):
            now = (start + timedelta(seconds=number)).timestamp()
            place.create_store(str(number))

        def names(**times: datetime) -> list[str]:
            return [info.name for info in place.list_stores(**times).items]  # type: ignore[arg-type] # times only

        one, two, tick = start + timedelta(seconds=1), start + timedelta(seconds=2), timedelta(microseconds=1)
        assert names(created_from=one, created_to=two) == ["2", "1"]
        assert names(created_from=one + tick) == ["3", "2"]
        assert names(created_to=two - tick) == ["1", "0"]
        with pytest.raises(InvalidInput):
            names(created_from=datetime(2026, 1, 1))


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
