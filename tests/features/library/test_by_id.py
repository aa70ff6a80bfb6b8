"""Memories by id: an update is one version, and preconditions and conflicts are checked in a fixed order."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from hashlib import sha256

import pytest

from retentive import AlreadyExists, Conflict, MemoryStore, NotFound
from retentive.errors import NotADirectory, RetentiveError

A, B, DEEP = "/memories/a.md", "/memories/b.md", "/memories/d/e/f.md"
OTHER = "0" * 64


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_an_update_of_text_and_path_is_one_version(store: MemoryStore) -> None:
    made = store.create(A, "one")
    memory = store.by_id.get(made.memory_id)[0]
    done = store.by_id.update(made.memory_id, text="two", path=B, if_sha256=digest("one"), actor="user:bob")
    assert store.by_id.get(made.memory_id) == (done.memory, "two")
    assert (done.path, done.memory_id, done.memories) == (B, made.memory_id, 1)
    assert done.memory is not None
    assert (done.memory.sha256, done.memory.created_at) == (digest("two"), memory.created_at)
    newest, oldest = store.versions(memory_id=made.memory_id)
    assert (newest.operation, newest.path, str(newest.actor), newest.id) == ("modified", B, "user:bob", done.version_id)
    assert newest.revision == oldest.revision + 1
    assert [memory.path for memory in store.memories()] == [B]
    store.undo("HEAD")
    assert [(each.path, store.read(each.path)) for each in store.memories()] == [(A, "one")]


def test_the_hash_is_checked_before_the_path(store: MemoryStore) -> None:
    made, other = store.create(A, "one"), store.create(B, "two")
    with pytest.raises(Conflict):
        store.by_id.update(made.memory_id, path=B, if_sha256=OTHER)
    with pytest.raises(AlreadyExists) as found:
        store.by_id.update(made.memory_id, path=B, if_sha256=digest("one"))
    assert found.value.conflicting is not None
    assert (found.value.conflicting.memory_id, found.value.conflicting.path) == (other.memory_id, B)
    assert len(store.versions()) == 2


PATHS = {
    "at": (B, AlreadyExists, B),
    "below": ("/memories/d", AlreadyExists, DEEP),
    "above": (f"{B}/x/y", NotADirectory, B),
    "itself": (f"{A}/x", NotADirectory, A),
}


@pytest.mark.parametrize("case", PATHS)
def test_a_path_conflict_names_the_memory(case: str, store: MemoryStore) -> None:
    """The same for an update, a creation, a write and a rename. The error can be pickled."""
    path, error, expected = PATHS[case]
    made = store.create(A, "one")
    store.create(B, "two")
    store.create(DEEP, "three")
    store.create("/memories/d/z.md", "later")
    calls: list[Callable[[], object]] = [
        lambda: store.by_id.update(made.memory_id, path=path),
        lambda: store.create(path, "new"),
        lambda: store.rename(A, path),
    ]
    if case != "at":
        calls.append(lambda: store.write(path, "new"))
    for call in calls:
        with pytest.raises(error) as found:
            call()
        again: RetentiveError = pickle.loads(pickle.dumps(found.value))
        for each in (found.value, again):
            assert each.conflicting is not None
            assert (each.conflicting.path, each.conflicting.memory_id) == (expected, store.load(expected)[0].id)
    assert len(store.versions()) == 4


def test_a_deletion_checks_the_hash(store: MemoryStore) -> None:
    made = store.create(A, "one")
    with pytest.raises(Conflict):
        store.by_id.delete(made.memory_id, if_sha256=OTHER)
    before = store.by_id.get(made.memory_id)[0]
    done = store.by_id.delete(made.memory_id, if_sha256=digest("one"))
    assert (done.memory, done.path) == (before, A)
    gone = made.memory_id
    calls: list[Callable[[], object]] = [lambda: store.by_id.get(gone), lambda: store.by_id.delete(gone)]
    calls.append(lambda: store.by_id.update(gone, text="x"))
    for call in calls:
        with pytest.raises(NotFound):
            call()
    assert [version.operation for version in store.versions()] == ["deleted", "created"]
    with pytest.raises(NotFound):
        store.by_id.delete("mem_\0")
