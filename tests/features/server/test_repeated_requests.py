"""The header `Idempotency-Key`: a request that is sent again gets its first answer, and changes nothing."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from typing import Any

import pytest

from retentive import MemoryStore
from retentive.engine import repeats
from retentive.server.handlers import ROUTES
from retentive.store import core_of
from support.http_api import Answer, Api

A = "/memories/a.md"


def changes(store: MemoryStore) -> int:
    return len(list(store.history.log()))


def create(api: Api, at: str, key: str) -> Answer:
    return api.post(f"{at}/memories", {"path": "/new.md", "content": "secret text"}, idempotency_key=key)


def interfere(store: MemoryStore) -> None:
    """Change all memories, so that a request which runs again would change them back or be refused."""
    for each in store.memories():
        store.write(each.path, "of somebody else")
        store.rename(each.path, f"{each.path}.moved")
    store.create("/memories/later.md", "later")


def test_records_hold_no_text_and_no_path(api: Api, store: MemoryStore, at: str) -> None:
    assert create(api, at, "a-key-of-a-client").status == 200
    records = core_of(store).read(lambda found: list(found.records(repeats.KIND)))
    assert records
    kept = json.dumps(records)
    assert not [each for each in ("secret", "/", ".md", "two", "a-key-of-a-client") if each in kept]


def test_a_key_names_one_request(api: Api, store: MemoryStore, at: str) -> None:
    api = api.with_key("write", act_as=("session:*",))
    assert create(api, at, "k").status == 200
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
    assert create(api, at, "k").status == 200
    assert create(other, at, "k").status == 409  # its own request: the path is taken
    assert create(api, at, "k").status == 200


def test_a_key_ends_after_a_day(api: Api, store: MemoryStore, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert create(api, at, "k").status == 200
    monkeypatch.setattr(repeats, "KEPT_S", 0.0)
    assert create(api, at, "k").status == 409


@pytest.mark.parametrize("key", ["", "with space", "k" * 256, "k\u00fc"])
def test_invalid_keys(api: Api, store: MemoryStore, at: str, key: str) -> None:
    answer = create(api, at, key)
    assert answer.status == 400
    assert "Idempotency-Key" in answer.error["message"]
    assert store.memories() == []


def test_one_change_of_many_at_once(api: Api, store: MemoryStore, at: str) -> None:
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(create(api, at, "once").body)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [answers[0]] * 6
    assert changes(store) == 1


def test_an_audit_entry_says_that_a_request_was_repeated(api: Api, store: MemoryStore, at: str) -> None:
    store.change_settings({"audit": True})
    create(api, at, "k")
    create(api, at, "k")
    entries = [each for each in store.audit.entries() if each.operation == "create"]
    assert [each.repeated for each in entries] == [False, True]


READS = {"search_memories", "recall_memories"}
"""Routes with POST that change nothing."""
CHANGES = [
    route
    for route in ROUTES
    if route.method != "GET"
    and route.path.startswith("/v1/memory_stores/{memory_store_id}/")
    and route.name not in {*READS, "archive_memory_store"}
]
"""Routes that change something in a memory store."""


def tar(name: str, text: str) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
    return raw.getvalue()


def filled(api: Api, store: MemoryStore) -> dict[str, str]:
    """Fill a store, and return the ids of one thing of each kind."""
    store.change_settings({"review": ["session:*"], "trust": {"user:ann": "unconfirmed"}, "quarantine": ["user:mal"]})
    memory = store.create(A, "one\n", actor="user:ann")
    store.write(A, "two\n", actor="user:ann")
    store.write(A, "three\n", actor="session:s")
    return {
        "memory_store_id": store.id,
        "memory_id": memory.memory_id,
        "memory_version_id": memory.version_id,
        "proposal_id": store.review.pending()[0].id,
        "other": api.place.opened.store("other").id,
    }


BODIES: dict[str, dict[str, Any]] = {
    "create_memory": {"path": "/new.md", "content": "x"},
    "update_memory": {"content": "x"},
    "redact_memory_version": {},
    "redact_versions": {"path": "/a.md"},
    "undo_change": {"revision": "r2"},
    "restore_path": {"path": "/a.md", "at": "r1"},
    "accept_proposal": {},
    "refuse_proposal": {},
    "accept_proposals": {"session": "s"},
    "refuse_proposals": {"session": "s"},
    "promote_memories": {"path": "/a.md", "to": "{other}"},
    "run_tool": {
        "type": "tool_use",
        "id": "call_0",
        "name": "memory",
        "input": {"command": "insert", "path": A, "insert_line": 0, "insert_text": "x"},
    },
    "run_command": {"command": {"command": "append", "path": A, "file_text": "x\n"}},
    "run_batch": {"commands": [{"command": "append", "path": A, "file_text": "x\n"}]},
    "update_settings": {"view_chars": 900},
    "erase_memory": {},
    "confirm_memories": {"path": "/a.md"},
    "verify_citations": {"citations": []},
    "quarantine_contributors": {"pattern": "session:q"},
    "release_contributors": {"pattern": "user:mal"},
}


def state(api: Api, at: str) -> list[Any]:
    """All that a request may change."""
    paths = [f"{at}/memory_versions?limit=100", f"{at}/settings", f"{at}/proposals", f"{at}/trust", at]
    found = [api.get(path) for path in paths]
    return [{**each.body, "request_id": "", "last_used_at": ""} for each in found]


@pytest.mark.parametrize("route", CHANGES, ids=lambda route: route.name)
def test_every_route_that_changes_something_honours_the_key(api: Api, store: MemoryStore, at: str, route: Any) -> None:
    """A request that is sent again is answered as the first time, and changes nothing more."""
    ids = filled(api, store)
    path, headers = route.path.format(**ids), {"idempotency-key": f"key-{route.name}"}
    body: bytes | None = None
    if route.upload:
        body, headers["content-type"] = tar("new.md", "x"), "application/x-tar"
    elif route.method != "DELETE":
        body = json.dumps(BODIES[route.name]).replace("{other}", ids["other"]).encode()
    admin = api.with_key("admin")
    first = admin.send(route.method, path, body, headers)
    assert first.status == 200, first.body
    interfere(store)
    store.change_settings({"view_chars": 800, "quarantine": ["user:mal"], "trust": {"user:*": "unconfirmed"}})
    before = state(api, at)
    again = admin.send(route.method, path, body, headers)
    assert state(api, at) == before
    if route.name == "update_settings":
        assert again.body["settings"]["view_chars"] == 800
    else:
        assert (again.status, again.body) == (200, first.body)
    other = admin.send(route.method, f"{path}?x=1" if route.method == "DELETE" else path, b'{"x": 1}', headers)
    assert other.status == 400


def test_a_view_ignores_the_key(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "one\n")
    view = {"command": {"command": "view", "path": A}}
    first = api.post(f"{at}/commands", view, idempotency_key="k").body["content"]
    store.write(A, "two\n")
    assert api.post(f"{at}/commands", view, idempotency_key="k").body["content"] != first


@pytest.mark.parametrize(("run", "lines"), [(None, 4), ("conversation 7, turn 3", 1)])
def test_the_header_names_the_run_in_which_an_id_counts(
    api: Api, store: MemoryStore, at: str, run: str | None, lines: int
) -> None:
    store.create(A, "")
    insert = {"command": "insert", "path": A, "insert_line": 0, "insert_text": "x"}
    headers = {} if run is None else {"retentive_run": run}
    sent: list[tuple[str, dict[str, Any]]] = [
        ("commands", {"id": "call_0", "command": insert}),
        ("tool", {"type": "tool_use", "id": "call_0", "name": "memory", "input": insert}),
    ]
    for route, body in sent * 2:
        assert api.post(f"{at}/{route}", body, **headers).status == 200
        assert api.post(f"{at}/{route}", body, retentive_run="x" * 256).status == 400
    assert store.read(A) == "x\n" * lines
