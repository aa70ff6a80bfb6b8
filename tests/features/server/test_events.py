"""Event streams: every change once and in order, resumable, and ended by a revoked key or a stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import retentive
from retentive import MemoryStore
from retentive.server import events
from retentive.server.keys import id_in
from support.http_api import Api, serving

A = "/memories/a.md"


class Stream:
    """An open stream. Reading waits for the next event; comments are skipped."""

    def __init__(self, response: HTTPResponse) -> None:
        self.response = response

    def next(self) -> dict[str, str]:
        """Fields of the next event; empty at the end of the stream."""
        found: dict[str, str] = {}
        while line := self.response.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            if name:
                found[name] = value
            else:
                self.response.readline()
        return found


@contextmanager
def streaming(api: Api, path: str, **headers: str) -> Iterator[Stream]:
    parts = urlsplit(api.url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", path, headers={"authorization": f"Bearer {api.key}", **sent})
        response = connection.getresponse()
        assert (response.status, response.headers.get_content_type()) == (200, "text/event-stream")
        yield Stream(response)
    finally:
        connection.close()


def ids(store: MemoryStore) -> list[str]:
    return [each.id.removeprefix("memver_") for each in reversed(store.versions())]


def test_changes_arrive_once_and_in_order(api: Api, store: MemoryStore, at: str) -> None:
    """Those of the server, and those of another process, which the poller finds."""
    store.create("/memories/before.md", "")
    with streaming(api, f"{at}/events") as stream:
        command = {"command": "create", "path": A, "file_text": "one\n"}
        api.post(f"{at}/tool", {"type": "tool_use", "id": "t", "name": "memory", "input": command})
        store.write(A, "two\n")
        store.delete(A)
        found = [stream.next() for _ in range(3)]
    assert [each["id"] for each in found] == ids(store)[1:]
    assert [each["event"] for each in found] == ["memory_version"] * 3
    bodies = [json.loads(each["data"]) for each in found]
    assert [each["operation"] for each in bodies] == ["created", "modified", "deleted"]
    expected = api.get(f"{at}/memory_versions/memver_{found[1]['id']}?view=basic").body
    assert bodies[1] == expected


def test_changes_without_a_version_are_events(api: Api, store: MemoryStore, at: str) -> None:
    """They come in their order with the versions, and a stream continues after them. A stream has one audit entry."""
    store.change_settings({"audit": True})
    first = store.write(A, "one").version_id
    store.write(A, "two")
    store.history.redact(first)
    store.write(A, "three")
    with streaming(api, f"{at}/events?after={first.removeprefix('memver_')}") as stream:
        found = [stream.next() for _ in range(3)]
    assert [each["event"] for each in found] == ["memory_version", "memory_store_event", "memory_version"]
    body = json.loads(found[1]["data"])
    assert (body["event"], body["ids"], body["count"]) == ("redacted", [first], 1)
    with streaming(api, f"{at}/events?after={found[1]['id']}") as stream:
        assert stream.next() == found[2]
    assert [entry.operation for entry in store.audit.entries() if entry.operation == "events"] == ["events"] * 2


@pytest.mark.parametrize("by", ["header", "query"])
def test_a_stream_continues_after_an_event(api: Api, store: MemoryStore, at: str, by: str) -> None:
    for text in ("one", "two", "three"):
        store.write(A, text)
    first, second, third = ids(store)
    path = f"{at}/events" if by == "header" else f"{at}/events?after={first}"
    with streaming(api, path, **({"last_event_id": first} if by == "header" else {})) as stream:
        assert [stream.next()["id"] for _ in range(2)] == [second, third]


def test_a_stream_from_the_beginning_in_batches(
    api: Api, store: MemoryStore, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BATCH", 2)
    for number in range(5):
        store.create(f"/memories/{number}", "")
    with streaming(api, f"{at}/events?after=0") as stream:
        assert [stream.next()["id"] for _ in range(5)] == ids(store)


@pytest.mark.parametrize("after", ["1", "memver_x", "g" * 32, "0" * 31])
def test_a_malformed_cursor(api: Api, at: str, after: str) -> None:
    assert api.get(f"{at}/events?after={after}").error["message"] == "after: must be the id of an event, or 0"


def test_pruned_history_is_reported(api: Api, store: MemoryStore, at: str) -> None:
    store.write(A, "one")
    first = ids(store)[0]
    store.write(A, "two")
    from retentive.engine.lists import HISTORY, PRUNED
    from retentive.store import core_of

    core_of(store).follow_up(lambda tx: tx.put_record(HISTORY, PRUNED, str(1 << 52)))
    with streaming(api, f"{at}/events?after={first}") as stream:
        assert stream.next() == {"event": "resync", "data": "{}"}
        assert stream.next()["id"] == ids(store)[1]


def test_a_revoked_key_ends_the_stream(api: Api, store: MemoryStore, at: str) -> None:
    reader = api.with_key("read")
    with streaming(reader, f"{at}/events") as stream:
        store.write(A, "one")
        assert stream.next()["event"] == "memory_version"
        api.post(f"/v1/organizations/api_keys/{id_in(reader.key)}", {"status": "archived"})
        store.write(A, "two")
        assert stream.next() == {}


def test_the_stop_ends_open_streams(tmp_path: Path) -> None:
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened) as api:
        store = opened.store()
        with streaming(api, f"/v1/memory_stores/{store.id}/events") as stream:
            assert api.server is not None
            api.server.stop()  # as the handler of SIGTERM does
            assert stream.next() == {"event": "stopping", "data": "{}"}
            assert stream.next() == {}
        assert api.get("/readyz").status == 503
