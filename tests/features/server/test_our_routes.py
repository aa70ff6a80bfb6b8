"""Routes beyond the hosted API: history, review, settings, usage, audit, export and erasure."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest

from retentive import MemoryStore
from retentive.server.keys import id_in
from support.http_api import Api

A, B = "/memories/a.md", "/memories/b.md"


def versions(store: MemoryStore) -> list[str]:
    return [each.id for each in reversed(store.versions())]


def test_diffs(api: Api, store: MemoryStore, at: str) -> None:
    for text in ("one\n", "two\n", "three\n"):
        store.write(A, text)
    first, second, third = versions(store)
    body = api.get(f"{at}/memory_versions/{third}/diff").body
    assert body == {
        "type": "memory_diff",
        "memory_version_id": third,
        "against_memory_version_id": second,
        "unified": f"--- /a.md@{second}\n+++ /a.md@{third}\n@@ -1 +1 @@\n-two\n+three\n",
    }
    assert "-one\n+three\n" in api.get(f"{at}/memory_versions/{third}/diff?against={first}").body["unified"]
    assert api.get(f"{at}/memory_versions/{first}/diff").body["against_memory_version_id"] is None
    assert api.get(f"{at}/memory_versions/{third}/diff?against=memver_{'f' * 32}").status == 404
    assert api.get(f"{at}/memory_versions/HEAD/diff").status == 404
    store.history.redact([first])
    assert api.get(f"{at}/memory_versions/{second}/diff").error["details"] == {"error_code": "invalid_input"}


def test_undo_of_a_change(api: Api, store: MemoryStore, at: str) -> None:
    memory = store.create(A, "one\n")
    store.write(A, "two\n")
    answer = api.post(f"{at}/undo", {"memory_version_id": versions(store)[1], "dry_run": True})
    step = {"operation": "modified", "memory_id": store.memories()[0].id, "path": "/a.md"}
    expected = {"type": "change_result", "steps": [step], "left": [], "proposed": False, "dry_run": True}
    assert answer.body == expected
    assert store.read(A) == "two\n"
    assert api.post(f"{at}/undo", {"memory_version_id": versions(store)[1]}).body == {**expected, "dry_run": False}
    assert store.read(A) == "one\n"
    assert str(store.versions()[0].actor) == f"api_key:{id_in(api.key)}"
    store.write(A, "three\n")
    refused = api.post(f"{at}/undo", {"memory_version_id": memory.version_id})
    assert (refused.status, refused.error["type"]) == (409, "conflict_error")
    assert [each["path"] for each in refused.error["conflicts"]] == ["/a.md"]


def test_undo_of_an_actor(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "kept\n", actor="user:ann")
    store.create(B, "reverted\n", actor="session:s1")
    assert [each["path"] for each in api.post(f"{at}/undo", {"actor": "session:s*"}).body["steps"]] == ["/b.md"]
    assert [each.path for each in store.memories()] == [A]


@pytest.mark.parametrize("body", [{}, {"actor": "x", "memory_version_id": "y"}, {"actor": "nobody"}, {"mode": "all"}])
def test_a_malformed_undo(api: Api, at: str, body: object) -> None:
    assert api.post(f"{at}/undo", body).status == 400


def test_restore(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "one\n")
    store.create(B, "two\n")
    store.delete(A)
    moment = versions(store)[1]
    assert api.post(f"{at}/restore", {"path": "/a.md", "at": moment}).body["steps"][0]["operation"] == "created"
    assert store.read(A) == "one\n"
    time = store.versions()[-1].created_at.isoformat()
    answer = api.post(f"{at}/restore", {"path": "/", "at": time})
    assert [(each["operation"], each["path"]) for each in answer.body["steps"]] == [("deleted", "/b.md")]
    assert api.post(f"{at}/restore", {"path": "/none", "at": moment}).status == 404
    assert api.post(f"{at}/restore", {"path": "/a//b", "at": moment}).error["details"]["error_code"] == "invalid_path"
    assert api.post(f"{at}/restore", {"path": "/", "at": "HEAD"}).body["steps"] == []
    assert api.post(f"{at}/restore", {"path": "/", "at": "2026-01-01T25:00:00Z"}).status == 400
    assert api.post(f"{at}/restore", {"path": "/", "at": "nothing"}).status == 400


def test_proposals(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "one\n")
    store.change_settings({"review": ["session:*"]})
    for text in ("two\n", "three\n"):
        store.write(A, text, actor="session:s1")
    store.create(B, "new\n", actor="session:s2")
    first = api.get(f"{at}/proposals?limit=2").body
    second = api.get(f"{at}/proposals?limit=2&page={first['next_page']}").body
    ids = [each["id"] for each in (*first["data"], *second["data"])]
    assert (len(first["data"]), len(second["data"]), second["next_page"]) == (2, 1, None)
    assert [each["id"] for each in api.get(f"{at}/proposals?actor=session:s2").body["data"]] == ids[2:]
    shown = api.get(f"{at}/proposals/{ids[0]}").body
    assert (shown["changes"][0]["before"], shown["changes"][0]["after"]) == ("one\n", "two\n")
    assert shown["proposed_by"] == {"type": "session_actor", "session_id": "s1"}
    assert api.post(f"{at}/proposals/{ids[0]}/accept").body["done"] == [ids[0]]
    assert store.read(A) == "two\n"
    assert api.post(f"{at}/proposals/{ids[0]}/accept").body["already"] == [ids[0]]
    assert api.post(f"{at}/proposals/{ids[2]}/refuse").body["done"] == [ids[2]]
    store.write(A, "other\n", actor="user:ann")
    refused = api.post(f"{at}/proposals/{ids[1]}/accept")
    assert (refused.status, refused.error["conflicts"][0]["path"]) == (409, "/a.md")
    assert api.post(f"{at}/proposals/{ids[1]}/accept", {"force": True}).body["done"] == [ids[1]]


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


def test_settings(api: Api, store: MemoryStore, at: str) -> None:
    assert api.get(f"{at}/settings").body["settings"]["max_memories"] == 10_000
    changed = api.post(f"{at}/settings", {"max_memories": 5, "read_only": True}).body
    assert (changed["settings"]["max_memories"], changed["settings"]["read_only"]) == (5, True)
    assert store.settings().max_memories == 5
    back = api.post(f"{at}/settings", {"read_only": None}).body["settings"]
    assert (back["max_memories"], back["read_only"]) == (5, False)
    assert api.post(f"{at}/settings", {"max_memories": "5"}).status == 400
    assert api.post(f"{at}/settings", {"max_memory": 5}).error["message"] == "max_memory: this field is unknown"


def test_usage(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "five\n")
    assert api.get(f"{at}/usage").body == {
        "type": "memory_store_usage",
        "memory_store_id": store.id,
        "memories": 1,
        "content_size_bytes": 5,
    }


def test_the_audit_log(api: Api, store: MemoryStore, at: str) -> None:
    api.post(f"{at}/settings", {"audit": True})
    command = {"command": "create", "path": A, "file_text": "one\n"}
    api.post(f"{at}/tool", {"type": "tool_use", "id": "t", "name": "memory", "input": command})
    found: list[dict[str, Any]] = []
    page = ""
    while True:
        body = api.get(f"{at}/audit_entries?limit=1{page}").body
        found += body["data"]
        if body["next_page"] is None:
            break
        page = f"&page={body['next_page']}"
    assert [(each["seq"], each["operation"], each["integration"], each["outcome"]) for each in found] == [
        (1, "settings", "http", "ok"),
        (2, "create", "http", "ok"),
    ]
    assert found[1]["actor"] == {"type": "api_actor", "api_key_id": id_in(api.key)}
    assert found[1]["memory_version_ids"] == versions(store)
    assert api.get(f"{at}/audit/verify").body["is_sound"] is True


@pytest.mark.parametrize("form", ["tar", "tar.gz"])
def test_an_export(api: Api, store: MemoryStore, at: str, form: str) -> None:
    store.create(A, "one\n")
    answer = api.get(f"{at}/export?format={form}")
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as archive:
        assert "retentive-archive.json" in archive.getnames()
    assert answer.status == 200


def test_erasure(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "one\n")
    store.write(A, "two\n")
    memory_id = store.memories()[0].id
    assert api.with_key("write").post(f"{at}/memories/{memory_id}/erase").status == 403
    answer = api.with_key("erase").post(f"{at}/memories/{memory_id}/erase")
    assert answer.body == {"id": memory_id, "type": "memory_erased", "versions": 3, "pending": False}
    assert (store.versions(), store.memories()) == ([], [])
    assert api.post(f"{at}/memories/{memory_id}/erase").status == 404


def test_a_read_only_store(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "one\n")
    store.change_settings({"read_only": True})
    answer = api.post(f"{at}/undo", {"memory_version_id": versions(store)[0]})
    assert (answer.status, answer.error["type"]) == (403, "permission_error")
    assert answer.error["details"] == {"error_code": "read_only"}


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
