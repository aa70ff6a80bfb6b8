"""Stores with only the hosted routes: the six commands answer as a local store does, as far as the routes go."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import retentive
from contract.golden.transcript import TRANSCRIPTS, Transcript
from retentive import MemoryStore, MemoryTool, errors
from retentive.server import application
from retentive.server.handlers import ROUTES
from support.http_api import Api, serving

A, B = "/memories/a.md", "/memories/d/b.md"
OF_MEMORIES, OF_VERSIONS = r"memories(/{\w+})?", r"memory_versions(/{\w+}(/redact)?)?"
PATHS = re.compile(rf"/v1/memory_stores(/{{\w+}}(/archive|/{OF_MEMORIES}|/{OF_VERSIONS})?)?")
HOSTED = tuple(route for route in ROUTES if PATHS.fullmatch(route.path))


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server that has only the routes of the hosted API."""
    path: Path = tmp_path_factory.mktemp("hosted") / "memory.db"
    with pytest.MonkeyPatch.context() as patch, retentive.open(f"sqlite:///{path}") as opened:
        patch.setattr(application, "ROUTES", HOSTED)
        with serving(opened) as found:
            yield found


@pytest.fixture
def store(api: Api) -> Iterator[MemoryStore]:
    with retentive.open(api.url, api_key=api.key, hosted=True) as place:
        yield place.store(place.create_store("Team").id)


@pytest.fixture
def local(api: Api, store: MemoryStore) -> MemoryStore:
    return api.place.opened.store(store.id)


def test_only_the_routes_of_the_hosted_api_are_served(api: Api, store: MemoryStore) -> None:
    assert len(HOSTED) == 14
    assert api.post(f"/v1/memory_stores/{store.id}/commands", {"command": {}}).status == 404


PLAIN = [each for each in TRANSCRIPTS if not each.limits]


@pytest.mark.parametrize("transcript", PLAIN, ids=lambda each: each.name)
def test_replies_match_the_transcripts(store: MemoryStore, transcript: Transcript) -> None:
    """Changes of several memories say so after the reply."""
    for one in transcript.exchanges:
        reply = store.execute(one.command)
        text = reply.text.partition("\n2 memories were")[0].partition("\n3 memories were")[0]
        where = f"{transcript.name}.txt, line {one.line}: {one.raw}"
        assert (text, reply.is_error) == (one.text, one.is_error), where


def test_the_tool(api: Api, store: MemoryStore, local: MemoryStore) -> None:
    tool = MemoryTool(store)
    tool.call({"command": "create", "path": A, "file_text": "one\n"})
    tool.call({"command": "str_replace", "path": A, "old_str": "one", "new_str": "two"})
    assert local.read(A) == "two\n"


def test_a_directory_changes_memory_by_memory_and_says_so(store: MemoryStore, local: MemoryStore) -> None:
    for name in ("a", "b", "c"):
        store.create(f"/memories/d/{name}", name)
    reply = store.execute({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/e"})
    assert reply.text.endswith("\n3 memories were changed one by one, not in one transaction.")
    assert [each.path for each in local.memories()] == ["/memories/e/a", "/memories/e/b", "/memories/e/c"]
    assert len(local.versions()) == 6
    done = store.delete("/memories/e")
    assert (done.memories, done.notes) == (3, ("3 memories were changed one by one, not in one transaction.",))
    assert local.memories() == []


def test_an_edit_of_another_client_is_kept(
    store: MemoryStore, local: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other client is faster once: the hash differs, and the command runs again on the new text."""
    store.create(A, "one\n")
    send, turns = type(store)._send, [lambda: local.append(A, "other")]  # type: ignore[attr-defined]

    def slow(self: Any, changes: Any) -> Any:
        if turns:
            turns.pop()()
        return send(self, changes)

    monkeypatch.setattr(type(store), "_send", slow)
    store.edit(A, "one", "two")
    assert local.read(A) == "two\nother\n"


def test_a_memory_that_another_client_creates_first(
    store: MemoryStore, local: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = type(store)._send  # type: ignore[attr-defined]

    def slow(self: Any, changes: Any) -> Any:
        local.write(A, "other")
        return send(self, changes)

    monkeypatch.setattr(type(store), "_send", slow)
    with pytest.raises(errors.AlreadyExists) as taken:
        store.create(A, "one")
    assert (str(taken.value), local.read(A)) == (f"File {A} already exists", "other")


def test_other_methods(store: MemoryStore, local: MemoryStore) -> None:
    made = store.create(B, "one")
    assert (made.version_id, made.memory_id) == (local.versions()[0].id, local.memories()[0].id)
    assert store.read(B) == store.by_id.get(made.memory_id)[1] == "one"
    store.write(B, "two", if_version=made.version_id)
    with pytest.raises(errors.Conflict):
        store.write(B, "three", if_version=made.version_id)
    store.append(B, "three")
    assert local.read(B) == "two\nthree\n"
    assert [each.path for each in store.memories()] == [B]
    assert [each.operation for each in store.history.log(B)] == ["modified", "modified", "created"]
    assert store.version_text(made.version_id) == "one"
    assert store.history.redact([made.version_id]).versions == 1
    assert store.execute({"command": "view", "path": "/memories"}) == local.execute(
        {"command": "view", "path": "/memories"}
    )
    assert store.clear().is_error is False


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("`undo`", lambda store: store.undo("HEAD")),
        ("`settings`", lambda store: store.settings()),
        ("`history.restore`", lambda store: store.history.restore("/memories", "HEAD")),
        ("`history.changes`", lambda store: store.history.changes()),
        ("`review`", lambda store: store.review),
        ("`trust`", lambda store: store.trust),
        ("setting the actor of a change", lambda store: store.create(A, "x", actor="user:ann")),
        ("setting the actor, source or session of a change", lambda store: store.create(A, "x", source="user")),
    ],
)
def test_what_is_missing_names_itself(store: MemoryStore, name: str, call: Callable[[MemoryStore], Any]) -> None:
    with pytest.raises(errors.InvalidInput, match=f"{name} is not available over HTTP"):
        call(store)


def test_stores_are_opened_by_id(api: Api) -> None:
    with retentive.open(api.url, api_key=api.key, hosted=True) as place:
        with pytest.raises(errors.InvalidInput, match="can be opened only by id"):
            place.store("team")
        with pytest.raises(errors.NotFound):
            place.store("memstore_" + "0" * 32)
        made = place.create_store("Team", metadata={"a": "1"})
        assert place.archive_store(made.id).archived_at is not None
        reply = place.store(made.id).execute({"command": "create", "path": A, "file_text": "x"})
        assert (reply.is_error, reply.code) == (True, "archived")
        place.erase(made.id)
    with pytest.raises(errors.InvalidInput, match="omit `actor`"):
        retentive.open("https://api.anthropic.com", api_key="k", actor="user:ann")
