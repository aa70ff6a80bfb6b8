"""Memories by id, whose preconditions are checked in a fixed order, and batches: several commands as one change."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from hashlib import sha256

import pytest

from retentive import AlreadyExists, Conflict, MemoryStore, NotFound, errors
from retentive.engine.handlers import MAX_BATCH
from retentive.errors import NotADirectory, RetentiveError
from retentive.values.commands import Append, Write
from retentive.values.paths import MemoryPath

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


def test_a_new_path_has_no_sensitive_value(store: MemoryStore) -> None:
    made = store.create(A, "one")
    with pytest.raises(errors.InvalidPath, match="aws_access_key_id"):
        store.by_id.update(made.memory_id, path="/memories/AKIAQYLPMN5HXRZW2TVB.md")
    assert [memory.path for memory in store.memories()] == [A]


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


A, B = "/memories/a.md", "/memories/b.md"


def create(path: str, text: str = "text\n", **more: object) -> dict[str, object]:
    return {"command": "create", "path": path, "file_text": text, **more}


def test_a_batch_is_one_change(store: MemoryStore) -> None:
    written = store.batch(
        [
            create(A),
            {"command": "str_replace", "path": A, "old_str": "text", "new_str": "more"},
            {"command": "rename", "old_path": A, "new_path": "/memories/c.md"},
            create(B),
            {"command": "delete", "path": B},
        ]
    )
    assert [(each.path, each.memories) for each in written] == [(path, 1) for path in (A, A, "/memories/c.md", B, B)]
    assert {each.path: store.read(each.path) for each in store.memories()} == {"/memories/c.md": "more\n"}
    versions = list(store.versions())
    assert len({each.revision for each in versions}) == 1
    assert [each.id for each in reversed(versions)] == [each.version_id for each in written]
    store.history.undo("HEAD")
    assert store.memories() == []


def test_nothing_is_changed_if_a_command_is_refused(store: MemoryStore) -> None:
    store.create(B, "kept")
    with pytest.raises(errors.AlreadyExists, match=r"/memories/b\.md already exists") as refused:
        store.batch([create(A), create(B)])
    assert refused.value.position == 1
    assert [each.path for each in store.memories()] == [B]
    assert len(list(store.versions())) == 1


def test_each_command_may_need_a_version(store: MemoryStore) -> None:
    first = store.create(A, "one\n")
    second = store.write(A, "two\n")
    edit = {"command": "insert", "path": A, "insert_line": 0, "insert_text": "top\n"}
    with pytest.raises(errors.Conflict) as refused:
        store.batch([create(B), {**edit, "if_version": first.version_id}])
    assert refused.value.position == 1
    assert store.read(A) == "two\n"
    store.batch([create(B), {**edit, "if_version": second.version_id}])
    assert store.read(A) == "top\ntwo\n"


def test_parsed_commands_and_those_of_applications(store: MemoryStore) -> None:
    path = MemoryPath.parse(A)
    store.batch([Write(path, "one\n"), Append(path, "two\n"), {**create(A, "three\n"), "command": "append"}])
    assert store.read(A) == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("commands", "kind", "position"),
    [
        ([], errors.InvalidInput, None),
        ([create(A)] * (MAX_BATCH + 1), errors.InvalidInput, None),
        ([create(A), {"command": "view", "path": A}], errors.InvalidInput, 1),
        ([create(A), {"command": "delete", "path": "/memories/../x"}], errors.RetentiveError, 1),
        ([{"command": "nothing"}], errors.RetentiveError, 0),
        ([{"command": ["write"]}], errors.RetentiveError, 0),
        ([create(A, if_version=3)], errors.InvalidInput, 0),
    ],
    ids=["none", "too many", "view", "path", "unknown", "no string", "version"],
)
def test_invalid_batches(
    store: MemoryStore, commands: list[object], kind: type[errors.RetentiveError], position: int | None
) -> None:
    with pytest.raises(kind) as raised:
        store.batch(commands)
    assert raised.value.position == position
    assert store.memories() == []


def test_a_batch_under_review_waits_as_one_proposal(store: MemoryStore) -> None:
    store.change_settings({"review": ["session:*"]})
    written = store.batch([create(A), create(B)], actor="session:s")
    assert [each.is_proposed for each in written] == [True, True]
    assert store.memories() == []
    (proposal,) = store.review.pending()
    store.review.accept([proposal.id], actor="user:u")
    assert [each.path for each in store.memories()] == [A, B]
