"""The header `Idempotency-Key`: a request that is sent again gets its first answer, and changes nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from retentive import MemoryStore
from retentive.engine import idempotency
from retentive.store import core_of
from support.http_api import Answer, Api

A = "/memories/a.md"
Send = Callable[[Api, str, str, str], Answer]


def changes(store: MemoryStore) -> int:
    return len(list(store.history.log()))


def create(api: Api, at: str, _: str, key: str) -> Answer:
    return api.post(f"{at}/memories", {"path": "/new.md", "content": "secret text"}, idempotency_key=key)


def update(api: Api, at: str, memory_id: str, key: str) -> Answer:
    return api.post(f"{at}/memories/{memory_id}", {"content": "two", "path": "/b.md"}, idempotency_key=key)


def delete(api: Api, at: str, memory_id: str, key: str) -> Answer:
    return api.delete(f"{at}/memories/{memory_id}", idempotency_key=key)


def undo(api: Api, at: str, _: str, key: str) -> Answer:
    return api.post(f"{at}/undo", {"revision": "r3"}, idempotency_key=key)


def restore(api: Api, at: str, _: str, key: str) -> Answer:
    body = {"path": "/", "at": api.get(f"{at}/memory_versions?limit=100").body["data"][-1]["id"]}
    return api.post(f"{at}/restore", body, idempotency_key=key)


def interfere(store: MemoryStore) -> None:
    """Change all memories, so that a request which runs again would change them back or be refused."""
    for each in store.memories():
        store.write(each.path, "of somebody else")
        store.rename(each.path, f"{each.path}.moved")
    store.create("/memories/later.md", "later")


@pytest.mark.parametrize("send", [create, update, delete, undo, restore], ids=lambda send: send.__name__)
def test_a_repeated_request_gets_the_first_answer(api: Api, store: MemoryStore, at: str, send: Send) -> None:
    memory_id = store.create(A, "one").memory_id
    store.create("/memories/other.md", "other")
    store.rename(A, "/memories/c.md")
    first = send(api, at, memory_id, "key-1")
    assert first.status == 200
    if first.body.get("type") == "change_result":
        assert first.body["steps"]
    interfere(store)
    before = changes(store)
    again = send(api, at, memory_id, "key-1")
    assert (again.status, again.body) == (200, first.body)
    assert changes(store) == before


@pytest.mark.parametrize("send", [create, update, undo], ids=lambda send: send.__name__)
def test_records_hold_no_text_and_no_path(api: Api, store: MemoryStore, at: str, send: Send) -> None:
    memory_id = store.create(A, "one").memory_id
    store.create("/memories/other.md", "other")
    store.rename(A, "/memories/c.md")
    assert send(api, at, memory_id, "a-key-of-a-client").status == 200
    records = core_of(store).read(lambda found: list(found.records(idempotency.KIND)))
    assert records
    kept = json.dumps(records)
    assert not [each for each in ("secret", "/", ".md", "two", "a-key-of-a-client") if each in kept]


def test_a_key_names_one_request(api: Api, store: MemoryStore, at: str) -> None:
    api = api.with_key("write", act_as=("session:*",))
    assert create(api, at, "", "k").status == 200
    body = {"path": "/new.md", "content": "another text"}
    for answer in (
        api.post(f"{at}/memories", body, idempotency_key="k"),
        api.post(f"{at}/memories?view=full", {"path": "/new.md", "content": "secret text"}, idempotency_key="k"),
        api.send_as("session:other").post(
            f"{at}/memories", {"path": "/new.md", "content": "secret text"}, idempotency_key="k"
        ),
    ):
        assert answer.status == 400
        assert "idempotency key was used for another request" in answer.error["message"]
    assert changes(store) == 1


def test_keys_of_two_callers_are_independent(api: Api, store: MemoryStore, at: str) -> None:
    other = api.with_key("write")
    assert create(api, at, "", "k").status == 200
    assert create(other, at, "", "k").status == 409  # its own request: the path is taken
    assert create(api, at, "", "k").status == 200


def test_a_refused_request_may_be_sent_again(api: Api, store: MemoryStore, at: str) -> None:
    memory_id = store.create("/memories/new.md", "in the way").memory_id
    assert create(api, at, "", "k").status == 409
    store.by_id.delete(memory_id)
    assert create(api, at, "", "k").status == 200


def test_a_key_ends_after_a_day(api: Api, store: MemoryStore, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert create(api, at, "", "k").status == 200
    monkeypatch.setattr(idempotency, "KEPT_S", 0.0)
    assert create(api, at, "", "k").status == 409


@pytest.mark.parametrize("key", ["", "with space", "k" * 256, "k\u00fc"])
def test_invalid_keys(api: Api, store: MemoryStore, at: str, key: str) -> None:
    answer = create(api, at, "", key)
    assert answer.status == 400
    assert "Idempotency-Key" in answer.error["message"]
    assert store.memories() == []


def test_one_change_of_many_at_once(api: Api, store: MemoryStore, at: str) -> None:
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(create(api, at, "", "once").body)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [answers[0]] * 6
    assert changes(store) == 1


def test_reads_ignore_the_header(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "one")
    for path in (f"{at}/memories", at):
        assert api.get(path, idempotency_key="k").status == 200


def test_an_audit_entry_says_that_a_request_was_repeated(api: Api, store: MemoryStore, at: str) -> None:
    store.change_settings({"audit": True})
    create(api, at, "", "k")
    create(api, at, "", "k")
    entries = [each for each in store.audit.entries() if each.operation == "create"]
    assert [each.repeated for each in entries] == [False, True]
