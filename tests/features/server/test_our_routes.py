"""Routes beyond the hosted API: history, review, settings, usage, audit, export and erasure."""

from __future__ import annotations

import io
import tarfile

import pytest

from retentive import MemoryStore
from support.http_api import Api

A, B = "/memories/a.md", "/memories/b.md"


def versions(store: MemoryStore) -> list[str]:
    return [each.id for each in reversed(store.versions())]


@pytest.mark.parametrize("body", [{}, {"actor": "x", "memory_version_id": "y"}, {"actor": "nobody"}, {"mode": "all"}])
def test_a_malformed_undo(api: Api, at: str, body: object) -> None:
    assert api.post(f"{at}/undo", body).status == 400


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


@pytest.mark.parametrize("form", ["tar", "tar.gz"])
def test_an_export(api: Api, store: MemoryStore, at: str, form: str) -> None:
    store.create(A, "one\n")
    answer = api.get(f"{at}/export?format={form}")
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as archive:
        assert "retentive-archive.json" in archive.getnames()
    assert answer.status == 200


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
