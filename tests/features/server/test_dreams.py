"""The SDK's client of dreams against a server in a process of its own, whose Claude is scripted."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Queue
from threading import Event
from typing import Any

import anthropic
import pytest
from anthropic.resources.beta.dreams import Dreams
from anthropic.types.beta import BetaDream

import retentive
from retentive import MemoryStore, Retentive
from retentive.testing.scripted_claude import Call, Prompt, ScriptedClaude, scripted_claude
from support.http_api import Api, api_of
from support.listener import Answer, Received, listening
from support.served_process import started
from support.waiting import until

A, B, SECRET = "/memories/a.md", "/memories/b.md", "/memories/key.md"
STEPS = [
    {"command": "view", "path": "/memories"},
    {"command": "str_replace", "path": A, "old_str": "tea", "new_str": "tea and milk"},
    {"command": "delete", "path": B},
]
INPUT = {"type": "memory_store", "memory_store_id": "memstore_x"}
BEFORE = {A: "likes tea\n", B: "likes milk\n", SECRET: "AWS key AKIAIOSFODNN7EXAMPLQ\n"}


@dataclass
class World:
    """A server, its location, and a client. Claude answers only while `gate` is set."""

    api: Api
    dreams: Dreams
    opened: Retentive
    gate: Event
    process: Any

    def create(self, store: MemoryStore, kind: str = "create_new", **options: Any) -> BetaDream:
        behavior = {"type": kind} | ({"memory_store_id": store.id} if kind == "update_existing" else {})
        inputs = [
            {"type": "memory_store", "memory_store_id": store.id},
            {"type": "sessions", "session_ids": ["s1"]},
        ]
        return self.dreams.create(**{"inputs": inputs, "model": "claude-x", "output_behavior": behavior} | options)

    def until(self, dream: BetaDream, *statuses: str) -> BetaDream:
        found = [dream]

        def is_so() -> bool:
            found.append(self.dreams.retrieve(dream.id))
            return found[-1].status in statuses

        until(is_so, pause_s=0.1)
        return found[-1]


@pytest.fixture(scope="module")
def gate() -> Event:
    return Event()


@pytest.fixture(scope="module")
def claude(gate: Event) -> Iterator[ScriptedClaude]:
    def play(prompt: Prompt) -> Call | str:
        gate.wait(60)
        return Call(STEPS[len(prompt.calls)]) if len(prompt.calls) < len(STEPS) else "Both notes are one now."

    with scripted_claude(play) as server:
        yield server
        gate.set()


@contextmanager
def running(home: Path, claude: ScriptedClaude, gate: Event, **variables: str) -> Iterator[World]:
    at = f"sqlite:///{home}/memory.db"
    flags = ("--at", at, "--gateway-upstream", claude.url, "--lease-s", "5", "--webhooks-to-private")
    with started(*flags, directory=home, **variables) as (process, lines), retentive.open(at) as opened:
        url = lines[-1].rpartition(" ")[2]
        api = api_of(url, "", opened)
        api.key = api.place.keys.create("test", scopes=("admin",)).text
        with client(api) as sdk:
            yield World(api, sdk.beta.dreams, opened, gate, process)


def client(api: Api, **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key=api.key, base_url=api.url, _strict_response_validation=True, max_retries=0, **options
    )


KEY = {"RETENTIVE_DREAMS_API_KEY": "of the server"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, claude: ScriptedClaude, gate: Event) -> Iterator[World]:
    with running(tmp_path_factory.mktemp("dreams"), claude, gate, **KEY) as found:
        yield found


@pytest.fixture
def store(world: World, request: pytest.FixtureRequest) -> MemoryStore:
    return filled(world, request.node.nodeid[-200:])


def filled(world: World, key: str) -> MemoryStore:
    world.gate.set()
    store = world.opened.store(key)
    store.change_settings({"sensitive": "off", "max_memories": 77, "read_only_paths": ["/memories/law/**"]})
    for path, text in BEFORE.items():
        store.create(path, text, actor="session:s1")
    return store


def texts(store: MemoryStore) -> dict[str, str]:
    return {each.path: store.read(each.path) for each in store.memories()}


def test_into_a_new_store(world: World, store: MemoryStore, claude: ScriptedClaude) -> None:
    world.gate.clear()
    made = world.create(store, model={"id": "claude-x", "speed": "standard"}, instructions="Mind the drinks.")
    assert (made.status, made.outputs, made.session_id, made.usage.input_tokens) == ("pending", [], None, 0)
    assert (made.model.id, made.model.speed, made.output_behavior.type) == ("claude-x", "standard", "create_new")
    assert world.until(made, "running").outputs
    world.gate.set()
    done = world.until(made, "completed", "failed")
    assert (done.status, done.error) == ("completed", None)
    assert done.ended_at is not None
    assert done.usage.input_tokens > 0
    assert done.usage.output_tokens > 0
    new = world.opened.store(done.outputs[0].memory_store_id)
    assert texts(new) == {A: "likes tea and milk\n"}
    assert texts(store) == BEFORE
    assert (new.settings().max_memories, new.settings().read_only_paths) == (77, ("/memories/law/**",))
    authors = [str(each.actor) for each in new.versions(path=A)]
    assert (authors[0], authors[-1]) == (f"session:{done.session_id}", "session:s1")
    new.undo_by(f"session:{done.session_id}")
    assert texts(new) == {A: BEFORE[A], B: BEFORE[B]}
    asked = claude.requests[-1]
    assert "of the server" in str(asked.headers)
    assert "Mind the drinks." in str(asked.body)
    assert "AKIA" not in str(asked.body)


def test_into_the_same_store(world: World, store: MemoryStore) -> None:
    world.gate.clear()
    made = world.create(store, "update_existing")
    with pytest.raises(anthropic.ConflictError):
        world.create(store, "update_existing")
    world.gate.set()
    done = world.until(made, "completed", "failed")
    assert (done.status, done.outputs[0].memory_store_id) == ("completed", store.id)
    assert texts(store) == BEFORE
    actor = f"session:{done.session_id}"
    assert len(store.review.pending(actor=actor)) == 2
    store.review.accept(proposed_by=actor, actor="user:ann")
    assert texts(store) == {A: "likes tea and milk\n", SECRET: BEFORE[SECRET]}
    store.undo_by(actor)
    assert texts(store) == BEFORE


def test_a_copy_is_whole_under_review_and_over_limits(world: World, store: MemoryStore) -> None:
    store.change_settings({"review": ["*"], "max_proposals_each": 1, "max_memories": 1, "max_memory_bytes": 9})
    done = world.until(world.create(store), "completed", "failed")
    new = world.opened.store(done.outputs[0].memory_store_id)
    assert (texts(new), new.settings()) == ({A: BEFORE[A]}, store.settings())  # it may not grow, and B was deleted


def test_webhooks_are_delivered_while_a_dream_runs(world: World, store: MemoryStore) -> None:
    got = Queue[Received]()

    def answer(request: Received) -> Answer:
        got.put(request)
        return 200, b""

    with listening(answer) as url:
        world.api.post("/v1/webhook_endpoints", {"url": f"{url}/", "enabled_events": ["memory_store.created"]})
        world.gate.clear()
        made = world.create(store, "update_existing")
        world.until(made, "running")
        world.api.post("/v1/memory_stores", {"name": "new"})
        got.get(timeout=60)
        assert world.dreams.retrieve(made.id).status == "running"
        world.gate.set()
        world.until(made, "completed")


def test_failures(world: World, store: MemoryStore) -> None:
    done = world.until(world.create(store, extra_body={"budget_tokens": 1}), "failed", "completed")
    assert (done.status, done.error and done.error.type) == ("failed", "budget")
    inputs = [{"type": "memory_store", "memory_store_id": store.id}, {"type": "sessions", "session_ids": ["none"]}]
    done = world.until(world.create(store, inputs=inputs), "failed", "completed")
    assert (done.status, done.error and done.error.type) == ("failed", "not_found")


def test_cancel_and_archive(world: World, store: MemoryStore) -> None:
    world.gate.clear()
    known = [each.id for each in world.opened.stores()]
    first, second = world.create(store, "update_existing"), world.create(store)
    world.until(first, "running")
    with pytest.raises(anthropic.BadRequestError):
        world.dreams.archive(first.id)
    for each in (second, first):  # else the second could begin
        assert world.dreams.cancel(each.id).status == "canceled"
        assert world.dreams.cancel(each.id).status == "canceled"
    world.gate.set()
    until(lambda: status_of(partial(world.create, store, "update_existing")) == 200)  # the first has stopped by now
    third = world.until(world.dreams.list(limit=1).data[0], "completed", "failed")
    assert third.status == "completed"
    assert (world.dreams.retrieve(first.id).status, world.dreams.retrieve(second.id).outputs) == ("canceled", [])
    assert [each.id for each in world.opened.stores()] == known
    with pytest.raises(anthropic.BadRequestError):
        world.dreams.cancel(third.id)
    at = world.dreams.archive(third.id).archived_at
    assert at is not None
    assert world.dreams.archive(third.id).archived_at == at
    assert third.id not in [each.id for each in world.dreams.list()]
    assert third.id in [each.id for each in world.dreams.list(include_archived=True)]


def test_lists(world: World, store: MemoryStore) -> None:
    made = [world.create(store) for _ in range(3)]
    for each in made[1:]:
        world.dreams.cancel(each.id)
    ids = [each.id for each in reversed(made)]
    assert [each.id for each in world.dreams.list(limit=1)][:3] == ids  # all pages
    assert len(world.dreams.list(limit=2).data) == 2
    later = world.dreams.list(created_at_gt=made[0].created_at, created_at_lt=made[2].created_at)
    assert [each.id for each in later] == [made[1].id]
    stopped = world.dreams.list(statuses=["canceled", "failed"])
    assert {each.status for each in stopped} <= {"canceled", "failed"}
    assert set(ids[:2]) <= {each.id for each in stopped}
    world.until(made[0], "completed", "canceled")


@pytest.mark.parametrize(
    "wrong",
    [
        {"inputs": []},
        {"inputs": [{"type": "sessions", "session_ids": ["s1"]}]},
        {"model": ""},
        {"model": {"id": "m", "speed": "fast"}},
        {"instructions": ""},
        {"inputs": [INPUT, INPUT]},
        {"inputs": [INPUT, {"type": "sessions", "session_ids": ["s1", "s1"]}]},
        {"instructions": "x" * 4_097},
        {"output_behavior": {"type": "update_existing", "memory_store_id": "memstore_other"}},
        {"extra_body": {"budget_tokens": 0}},
    ],
)
def test_malformed_requests(world: World, store: MemoryStore, wrong: dict[str, Any]) -> None:
    with pytest.raises(anthropic.BadRequestError):
        world.create(store, **wrong)


@pytest.mark.parametrize(
    ("scopes", "options", "statuses"),
    [
        (("read",), {}, (403, 403, 200, 403, 403)),
        (("read", "write"), {}, (403, 200, 200, 400, 200)),
        (("read", "write"), {"paths": ("/memories/x/**",)}, (403, 403, 404, 404, 404)),
        (("admin",), {"workspace_id": "wrkspc_other"}, (404, 404, 404, 404, 404)),
        (("admin",), {"stores": ("elsewhere",)}, (404, 404, 404, 404, 404)),
    ],
)
def test_rights(
    world: World, store: MemoryStore, scopes: tuple[str, ...], options: dict[str, Any], statuses: tuple[int, ...]
) -> None:
    done = world.until(world.create(store), "completed", "failed")
    inputs: Any = [{"type": "memory_store", "memory_store_id": store.id}]
    into: Any = {"type": "update_existing", "memory_store_id": store.id}
    with client(world.api.with_key(*scopes, **options)) as sdk:
        calls = {
            "new": partial(sdk.beta.dreams.create, inputs=inputs, model="m"),
            "into": partial(sdk.beta.dreams.create, inputs=inputs, model="m", output_behavior=into),
            "retrieve": partial(sdk.beta.dreams.retrieve, done.id),
            "cancel": partial(sdk.beta.dreams.cancel, done.id),
            "archive": partial(sdk.beta.dreams.archive, done.id),
        }
        assert {name: status_of(call) for name, call in calls.items()} == dict(zip(calls, statuses, strict=True))
        assert (done.id in [each.id for each in sdk.beta.dreams.list(include_archived=True)]) == (statuses[2] == 200)


def status_of(call: Callable[[], BetaDream]) -> int:
    try:
        call()
    except anthropic.APIStatusError as error:
        return error.status_code
    return 200


@pytest.mark.long
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_restart(tmp_path: Path, claude: ScriptedClaude, gate: Event, sent: signal.Signals) -> None:
    with running(tmp_path, claude, gate, **KEY) as world:
        store = filled(world, "default")
        world.gate.clear()
        made, waiting = world.create(store, "update_existing"), world.create(store)
        world.until(made, "running")
        world.process.send_signal(sent)
        assert world.process.wait() == (0 if sent == signal.SIGTERM else -sent)
    gate.set()
    with running(tmp_path, claude, gate, **KEY) as world:
        lost = world.until(made, "failed", "completed")
        assert (lost.status, lost.error and lost.error.type) == ("failed", "interrupted")
        assert world.until(waiting, "completed", "failed").status == "completed"
        assert texts(world.opened.store()) == BEFORE


def put(world: World, dream: BetaDream, number: int, **changes: Any) -> str:
    """Record another dream, which is `number` later than one that ended long ago."""
    records, dream_id = world.opened.records, f"drm_{int(dream.id[4:], 16) + number:032x}"
    found = json.loads(records.get("dream", dream.id) or "") | {"ended_at": "2026-01-01T00:00:00Z"}
    records.put("dream", dream_id, json.dumps(found | {"id": dream_id} | changes))
    return dream_id


def test_dreams_that_ended_are_not_read_each_second(world: World, store: MemoryStore) -> None:
    done, records = world.until(world.create(store), "completed", "failed"), world.opened.records
    for key, text in records.list("dream"):
        records.put("dream", key, json.dumps(json.loads(text) | {"ended_at": "2026-01-01T00:00:00Z"}))

    def is_ended(number: int) -> None:
        dream_id = put(world, done, number, status="running", ended_at=None)
        until(lambda: json.loads(records.get("dream", dream_id) or "")["status"] == "failed")

    before = records.get("dream", done.id)
    is_ended(1)
    records.put("dream", done.id, json.dumps({**json.loads(before or ""), "status": "unreadable"}))
    is_ended(2)
    records.put("dream", done.id, before)


@pytest.mark.long
def test_a_workspace_keeps_1000_dreams(world: World, store: MemoryStore) -> None:
    done, other = world.until(world.create(store), "completed", "failed"), {"workspace_id": "wrkspc_full"}
    ids = [put(world, done, number, **other) for number in range(1, 1_001)]
    api = world.api.with_key("admin", **other)
    inputs = [{"type": "memory_store", "memory_store_id": api.post("/v1/memory_stores", {"name": "s"}).body["id"]}]
    made = api.post("/v1/dreams", {"inputs": inputs, "model": "m"}).body["id"]
    api.post(f"/v1/dreams/{made}/cancel")
    found = [key for key, text in world.opened.records.list("dream") if "wrkspc_full" in text]
    assert found == [*ids[1:], made]
    for each in found:
        world.opened.records.put("dream", each, None)


def test_without_an_api_key(tmp_path: Path, claude: ScriptedClaude, gate: Event) -> None:
    with running(tmp_path, claude, gate) as world:
        with pytest.raises(anthropic.BadRequestError, match="RETENTIVE_DREAMS_API_KEY"):
            world.create(filled(world, "default"))
        assert list(world.dreams.list()) == []
        for method in (world.dreams.retrieve, world.dreams.cancel, world.dreams.archive):
            with pytest.raises(anthropic.NotFoundError):
                method("drm_none")
