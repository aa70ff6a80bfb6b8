"""Batches: several commands as one change, all or none."""

from __future__ import annotations

import pytest

from retentive import MemoryStore, errors
from retentive.engine.handlers import MAX_BATCH
from retentive.values.commands import Append, Write
from retentive.values.paths import MemoryPath

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
