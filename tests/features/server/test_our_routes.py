"""Routes beyond the hosted API: tool and commands, history, review, trust, search, the past, export and erasure."""

from __future__ import annotations

import time as clock
from datetime import UTC, datetime
from typing import Any

import pytest

import retentive
from retentive import MemoryStore
from retentive.store.by_id import ById
from support.http_api import Api

A, B = "/memories/a.md", "/memories/b.md"


def versions(store: MemoryStore) -> list[str]:
    return [each.id for each in reversed(store.versions())]


def test_a_cursor_belongs_to_one_list(api: Api, store: MemoryStore, at: str) -> None:
    store.change_settings({"review": ["session:*"]})
    for name in ("a", "b"):
        store.create(f"/memories/{name}", "", actor="session:s1")
    page = api.get(f"{at}/proposals?limit=1").body["next_page"]
    assert api.get(f"{at}/proposals?limit=1&actor=session:s1&page={page}").error["message"] == (
        "page: the cursor belongs to another list, or to a list with other filters"
    )
    for wrong in ("page", page[:-3], "page_", "page_" + "x" * 40, page.upper()):
        assert api.get(f"{at}/proposals?page={wrong}").error["message"].startswith("page: ")


def test_own_changes_are_undone_by_their_actor_only(api: Api, store: MemoryStore, at: str) -> None:
    key = api.with_key("read", "write", act_as=("session:*",))
    mine, theirs = key.send_as("session:mine"), key.send_as("session:theirs")
    for sender, path in ((mine, "/a.md"), (theirs, "/b.md")):
        assert sender.post(f"{at}/memories", {"path": path, "content": "x"}).status == 200
    refused = mine.post(f"{at}/undo", {"own": True, "revision": "HEAD"})
    assert refused.error["message"] == "r2 is a change by session:theirs, not by session:mine"
    assert mine.post(f"{at}/undo", {"own": True, "path": "/b.md"}).status == 404
    assert mine.post(f"{at}/undo", {"own": True, "dry_run": True}).status == 400
    undone = mine.post(f"{at}/undo", {"own": True})
    assert [(step["operation"], step["path"]) for step in undone.body["steps"]] == [("deleted", "/a.md")]
    assert [memory.path for memory in store.memories()] == ["/memories/b.md"]


def block(block_id: str, command: object) -> dict[str, object]:
    return {"type": "tool_use", "id": block_id, "name": "memory", "input": command}


def test_the_result_is_that_of_the_library(api: Api, store: MemoryStore, at: str) -> None:
    commands: list[object] = [
        {"command": "create", "path": A, "file_text": "one\r\nzwei ü\u2028\x00"},
        {"command": "create", "path": A, "file_text": "one\r\nzwei ü\u2028\U0001f600"},
        {"command": "create", "path": A, "file_text": "x"},
        {"command": "str_replace", "path": A, "old_str": "one", "new_str": "1"},
        {"command": "view", "path": A},
        {"command": "rename", "old_path": A, "new_path": "/memories/b.md"},
        {"command": "delete", "path": "/memories/../etc"},
        {"command": "nothing"},
        None,
        "text",
    ]
    twin = api.place.opened.store(f"twin of {store.key}"[-250:])
    for number, command in enumerate(commands):
        sent = block(f"toolu_{number}", command)
        answer = api.post(f"{at}/tool", sent)
        assert (answer.status, answer.body) == (200, retentive.tool_result(twin, sent))
    assert [store.load(each.path)[1] for each in store.memories()] == ["1\r\nzwei ü\u2028\U0001f600"]


def test_an_erased_store(api: Api, store: MemoryStore, at: str) -> None:
    """A store that was erased elsewhere is unknown, also if this process has used it."""
    assert api.post(f"{at}/tool", block("t", {"command": "view", "path": "/memories"})).status == 200
    api.place.opened.erase(store.id)
    answer = api.post(f"{at}/tool", block("u", {"command": "view", "path": "/memories"}))
    assert (answer.status, answer.error["message"]) == (404, "memory store not found")


def test_a_body_that_names_nothing_or_too_much(api: Api, store: MemoryStore, at: str) -> None:
    made = store.create(A, "one\n")
    update, redaction = "content: specify content, path or both", "specify memory_version_ids or path, but not both"
    refused = [
        (f"memories/{made.memory_id}", {}, update),
        ("redact", {}, f"memory_version_ids: {redaction}"),
        ("redact", {"memory_version_ids": [made.version_id], "path": A}, f"memory_version_ids: {redaction}"),
    ]
    for route, body, message in refused:
        answer = api.post(f"{at}/{route}", body)
        assert (answer.status, answer.error["message"]) == (400, message)
    assert [(each.id, each.redacted_at) for each in store.versions()] == [(made.version_id, None)]


def test_a_field_that_is_null_counts_as_absent(api: Api, store: MemoryStore, at: str) -> None:
    assert api.post(f"{at}/commands", {"command": None}).error["message"] == "command: Field required"
    made = api.post(at.rpartition("/")[0], {"name": "other", "description": None, "metadata": None})
    assert (made.status, made.body["description"], made.body["metadata"]) == (200, "", {})


TEAM = "/memories/team/a.md"


def test_memories_as_they_were(api: Api, store: MemoryStore, at: str) -> None:
    memory_id = store.create(TEAM, "one\n").memory_id
    first = store.versions()[0].id
    clock.sleep(0.002)
    between = datetime.now(UTC).isoformat()
    store.rename(TEAM, B)
    store.write(B, "two\n")
    store.create("/memories/new.md", "new\n")
    for moment in (first, between.replace("+00:00", "Z")):
        body = api.get(f"{at}/memories/{memory_id}?at={moment}").body
        assert (body["path"], body["content"], body["memory_version_id"]) == ("/team/a.md", "one\n", first)
        assert api.get(f"{at}/memory?path=/team/a.md&at={moment}").body == body
        listed = api.get(f"{at}/memories?at={moment}&view=full").body
        assert listed == {"data": [body], "next_page": None}
    assert api.get(f"{at}/memories/{memory_id}").body["content"] == "two\n"
    assert api.get(f"{at}/memory?path=/b.md&at={first}").status == 404
    assert api.get(f"{at}/memories/{memory_id}?at=2020-01-01T00:00:00Z").status == 404
    assert api.get(f"{at}/memories/{memory_id}?at=2020-13-01").status == 400


@pytest.mark.parametrize("change", ["edit", "rename", "delete"])
def test_a_create_that_others_change_at_once(
    api: Api, store: MemoryStore, at: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Id, hash and content are those of the version that the request made."""
    read, changes = (
        ById.get,
        {
            "edit": lambda: store.write(A, "theirs"),
            "rename": lambda: store.rename(A, "/memories/b.md"),
            "delete": lambda: store.delete(A),
        },
    )

    def late(self: ById, memory_id: str) -> Any:
        changes.pop(change, lambda: None)()
        return read(self, memory_id)

    monkeypatch.setattr(ById, "get", late)
    body = api.post(f"{at}/memories?view=full", {"path": "/a.md", "content": "ours"}).body
    first = store.versions()[-1]
    assert (body["path"], body["content"], body["memory_version_id"]) == ("/a.md", "ours", first.id)
    assert (body["content_sha256"], body["content_size_bytes"]) == (first.sha256, 4)
    assert change not in changes
