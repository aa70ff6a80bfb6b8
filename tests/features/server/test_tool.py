"""The tool route: a tool_use block in, a tool_result block out, exactly once by its id."""

from __future__ import annotations

import threading

import pytest

import retentive
from retentive import MemoryStore
from support.http_api import Api

A = "/memories/a.md"


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


def test_another_tool_is_an_error_of_the_model(api: Api, at: str) -> None:
    answer = api.post(f"{at}/tool", {**block("t", {}), "name": "bash"})
    assert (answer.status, answer.body["is_error"]) == (200, True)


@pytest.mark.parametrize("given", [{"type": "tool_use"}, {"type": "tool_use", "id": ""}, {"type": "text", "id": "t"}])
def test_what_is_no_block(api: Api, at: str, given: dict[str, object]) -> None:
    assert api.post(f"{at}/tool", given).status == 400


def test_one_id_changes_once(api: Api, store: MemoryStore, at: str) -> None:
    """The same block from several connections at the same time, and again later."""
    store.create(A, "")
    sent = block(f"toolu_{24 * 'a'}", {"command": "insert", "path": A, "insert_line": 0, "insert_text": "line"})
    results: list[object] = []
    threads = [threading.Thread(target=lambda: results.append(api.post(f"{at}/tool", sent).body)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.append(api.post(f"{at}/tool", sent).body)
    assert results == [results[0]] * 7
    assert store.read(A) == "line\n"


def test_an_erased_store(api: Api, store: MemoryStore, at: str) -> None:
    """A store that was erased elsewhere is unknown, also if this process has used it."""
    assert api.post(f"{at}/tool", block("t", {"command": "view", "path": "/memories"})).status == 200
    api.place.opened.erase(store.id)
    answer = api.post(f"{at}/tool", block("u", {"command": "view", "path": "/memories"}))
    assert (answer.status, answer.error["message"]) == (404, "memory store not found")
