"""The command route: replies with their codes and versions, and memories by path."""

from __future__ import annotations

import pytest

from retentive import MemoryStore
from support.http_api import Api

A = "/memories/a.md"


def send(api: Api, at: str, command: object, **more: object) -> dict[str, object]:
    answer = api.post(f"{at}/commands", {"command": command, **more})
    assert answer.status == 200, answer.body
    body: dict[str, object] = answer.body
    return body


def test_a_change_and_its_versions(api: Api, store: MemoryStore, at: str) -> None:
    made = send(api, at, {"command": "create", "path": A, "file_text": "one"}, source="user", session="s1")
    memory = store.load(A)[0]
    assert (made["content"], made["error_code"]) == (f"File created successfully at: {A}", None)
    assert (made["memory_id"], made["memory_version_id"]) == (memory.id, memory.version_id)
    ids = {"memory_id": memory.id, "memory_version_id": memory.version_id}
    assert made["changes"] == [{"path": "/a.md", **ids, "operation": "created"}]
    assert (memory.provenance.source, memory.provenance.session) == ("user", "s1")
    seen = send(api, at, {"command": "view", "path": A})
    assert (seen["memory_version_id"], seen["change_count"]) == (memory.version_id, 0)


def test_commands_that_only_applications_send(api: Api, store: MemoryStore, at: str) -> None:
    send(api, at, {"command": "write", "path": A, "file_text": "one\n"})
    send(api, at, {"command": "append", "path": A, "file_text": "two"})
    assert store.read(A) == "one\ntwo\n"
    stale = send(api, at, {"command": "write", "path": A, "file_text": "x"}, if_version="")
    assert (stale["is_error"], stale["error_code"]) == (True, "conflict")
    assert send(api, at, {"command": "clear"})["change_count"] == 1
    assert store.memories() == []


def test_the_memory_in_the_way(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "one")
    taken = send(api, at, {"command": "create", "path": f"{A}/b", "file_text": "x"})
    assert (taken["error_code"], taken["conflicting_path"]) == ("not_a_directory", "/a.md")


@pytest.mark.parametrize("command", [None, "view", {"command": "nothing"}, {"command": "write", "path": A}])
def test_a_malformed_command_is_an_error_reply(api: Api, at: str, command: object) -> None:
    if command is None:
        assert api.post(f"{at}/commands", {"command": None}).status == 400
    else:
        assert send(api, at, command)["is_error"] is True


def test_a_key_that_only_reads(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "one")
    reader = api.with_key("read")
    assert send(reader, at, {"command": "view", "path": A})["is_error"] is False
    assert reader.post(f"{at}/commands", {"command": {"command": "delete", "path": A}}).status == 403


def test_a_memory_by_its_path(api: Api, store: MemoryStore, at: str) -> None:
    store.create("/memories/ü b.md", "one")
    found = api.get(f"{at}/memory?path=/%C3%BC%20b.md").body
    assert (found["path"], found["content"]) == ("/ü b.md", "one")
    assert api.get(f"{at}/memory?path=/none").status == 404


def test_undo_by_the_name_of_a_change(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "one")
    store.write(A, "two")
    newest = api.get(f"{at}/memory_versions?limit=1").body["data"][0]
    assert newest["revision"] == store.versions()[0].revision
    assert api.post(f"{at}/undo", {"revision": "HEAD", "path": "/a.md"}).status == 200
    assert store.read(A) == "one"
    assert api.post(f"{at}/undo", {"revision": "HEAD", "actor": "user:ann"}).status == 400
    assert api.post(f"{at}/undo", {"memory_version_id": newest["id"], "path": "/a.md"}).status == 400
