"""The engine on every backend: history, actors, limits, and the methods for programs."""

from __future__ import annotations

import hashlib

import pytest

from retentive import Actor, InvalidInput, MemoryStore, NotFound, Reply, Usage
from support.places import OpenPlace

A = "/memories/a"


def create(store: MemoryStore, path: str, text: str = "", **options: str) -> Reply:
    return store.execute({"command": "create", "path": path, "file_text": text}, **options)


def test_one_version_per_change_with_hash_actor_and_operation(store: MemoryStore) -> None:
    """Each version has the operation, the time, the actor and the hash of the new text.

    The newest version comes first.
    """
    create(store, A, "é\n", actor="session:s1")
    store.execute({"command": "insert", "path": A, "insert_line": 1, "insert_text": "x"}, actor="user:ann")
    store.execute({"command": "str_replace", "path": A, "old_str": "x", "new_str": "y"}, actor="session:loose words")
    store.execute({"command": "rename", "old_path": A, "new_path": "/memories/d/b"}, actor=Actor("job", "mover"))
    store.execute({"command": "delete", "path": "/memories/d"})
    versions = list(store.versions())
    assert [(one.operation, one.path, one.actor and str(one.actor)) for one in versions] == [
        ("deleted", "/memories/d/b", None),
        ("modified", "/memories/d/b", "job:mover"),
        ("modified", A, "session:loose words"),
        ("modified", A, "user:ann"),
        ("created", A, "session:s1"),
    ]
    texts = ["", "é\ny\n", "é\ny\n", "é\nx\n", "é\n"]
    assert [store.version_text(one.id) for one in versions] == texts
    kept = [None, *(hashlib.sha256(text.encode()).hexdigest() for text in texts[1:])]
    assert [one.sha256 for one in versions] == kept
    assert [one.size_bytes for one in versions] == [None, *(len(text.encode()) for text in texts[1:])]
    assert len({one.memory_id for one in versions}) == 1
    assert [one.revision for one in versions] == [5, 4, 3, 2, 1]
    assert all(one.id.startswith("memver_") for one in versions)
    assert versions[0].memory_id.startswith("mem_")
    assert store.id.startswith("memstore_")


def test_ids_and_history_stay_with_a_memory_that_moves(store: MemoryStore) -> None:
    create(store, "/memories/d/a", "x")
    (before,) = store.memories()
    store.execute({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/e/f"})
    (after,) = store.memories()
    assert (after.id, after.path, after.sha256) == (before.id, "/memories/e/f/a", before.sha256)
    assert after.created_at == before.created_at < after.updated_at
    assert [one.path for one in store.versions(memory_id=before.id)] == ["/memories/e/f/a", "/memories/d/a"]
    assert [one.path for one in store.versions("/memories/d/a")] == ["/memories/d/a"]


def test_a_command_without_effect_adds_no_version(store: MemoryStore) -> None:
    create(store, A, "abc")
    reply = store.execute({"command": "str_replace", "path": A, "old_str": "b", "new_str": "b"})
    assert reply.text.endswith("\n     1\tabc")
    assert len(list(store.versions())) == 1
    assert store._core.read(lambda found: found.state.revision) == 1


def test_create_overwrites_replaces_a_memory_and_never_a_directory(place: str, open_place: OpenPlace) -> None:
    """With the setting `create_overwrites`, create replaces the text, and the version has the operation `modified`."""
    store = open_place(place, create_overwrites=True).store()
    create(store, "/memories/d/a", "one")
    assert create(store, "/memories/d/a", "two") == Reply("File created successfully at: /memories/d/a")
    assert create(store, "/memories/d", "x").text == "Error: File /memories/d already exists"
    assert create(store, "/memories", "x").text == "Error: File /memories already exists"
    assert create(store, "/memories/d/a/b", "x").text == "Error: The path /memories/d/a is a file, not a directory"
    assert [one.operation for one in store.versions()] == ["modified", "created"]
    assert store.read("/memories/d/a") == "two"


def test_a_rename_that_exceeds_a_limit_of_paths_is_refused(store: MemoryStore) -> None:
    """The limits are the number of levels and the bytes of the path. No memory is moved."""
    deep = "/memories/d" + "/x" * 18
    create(store, deep, "x")
    create(store, "/memories/w/" + "n" * 250, "x")
    tree = list(store.memories())
    too_deep = store.execute({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/e/f/g"})
    assert too_deep.text.startswith("Error: Invalid path /memories/e/f/g: ")
    long = "/memories/" + "/".join(["y" * 200] * 4)
    too_long = store.execute({"command": "rename", "old_path": "/memories/w", "new_path": long})
    assert too_long.text.startswith(f"Error: Invalid path {long}: ")
    assert (too_deep.is_error, too_long.is_error) == (True, True)
    assert list(store.memories()) == tree
    assert not store.execute({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/e/f"}).is_error


def test_clear_deletes_all_and_keeps_history(store: MemoryStore) -> None:
    for name in ("a", ".hidden", "d/e"):
        create(store, f"/memories/{name}", name)
    assert store.clear(actor="user:ann") == Reply("All memory cleared")
    assert store.usage() == Usage(0, 0)
    assert [(one.operation, str(one.actor)) for one in store.versions(limit=3)] == [("deleted", "user:ann")] * 3
    assert store.clear() == Reply("All memory cleared")
    assert len(list(store.versions())) == 6


def test_methods_raise_not_found_for_missing_memories(store: MemoryStore) -> None:
    create(store, "/memories/d/a", "x")
    for path in (A, "/memories/d", "/memories", "/memories/d/a/b"):
        with pytest.raises(NotFound):
            store.read(path)
    for unknown in ("memver_" + "0" * 32, "", "nothing"):
        with pytest.raises(NotFound):
            store.version_text(unknown)
    for wrong in ("/etc/passwd", "", "/memories/../x"):
        with pytest.raises(InvalidInput):
            store.read(wrong)
        with pytest.raises(InvalidInput):
            store.memories(wrong)
        with pytest.raises(InvalidInput):
            store.versions(wrong)
    assert list(store.versions(memory_id="mem_unknown")) == []
    assert list(store.memories("/memories/d/a")) == []


def test_an_impossible_id_is_not_found(store: MemoryStore) -> None:
    """An id with a lone surrogate is not found; the driver does not raise an error."""
    with pytest.raises(NotFound):
        store.version_text("memver_\ud800")
    assert list(store.versions(memory_id="mem_\ud800")) == []


def test_changes_accepted_at_once_keep_their_authors(store: MemoryStore) -> None:
    """One change of the store has the changes of several actors, each with its own versions."""
    store.change_settings({"review": ["session:*"]})
    for name in "aba":
        create(store, f"/memories/{name}{len(store.review.pending())}", name, actor=f"session:{name}")
    store.review.accept([each.id for each in store.review.pending()], actor="user:ann")
    assert {(one.path, str(one.actor)) for one in store.versions()} == {
        ("/memories/a0", "session:a"),
        ("/memories/b1", "session:b"),
        ("/memories/a2", "session:a"),
    }
