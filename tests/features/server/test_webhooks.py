"""Webhook endpoints, events, signatures, attempts, dead letters, and the leader that delivers them."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Event
from typing import Any

import anthropic
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

import retentive
from retentive.errors import Damaged, InvalidInput
from retentive.server.background import Background, Leader
from retentive.server.calls import ServedLocation
from retentive.server.deliveries import BATCH, LOOK_S, MARKED_S, PAUSES_S, SEEN, Deliverer
from retentive.server.webhooks import PENDING, Webhooks, check_url, is_public
from support.clock import Clock
from support.http_api import Api, another_version, serving
from support.listener import Answer, Received, listening
from support.places import LASTING, place_of
from support.served_process import process_serving

ALL: list[Any] = ["memory_store.created", "memory_store.archived", "memory_store.deleted"]


class Receiver:
    """Keeps the requests to `url`. It answers when `go` is set: with the next of `statuses`, then 200."""

    url: str

    def __init__(self) -> None:
        self.got: Queue[Received] = Queue()
        self.statuses: list[int] = []
        self.go = Event()
        self.go.set()

    def answer(self, request: Received) -> Answer:
        self.got.put(request)
        self.go.wait()
        return self.statuses.pop(0) if self.statuses else 200, b""

    def events(self) -> list[Received]:
        """The requests received until now."""
        return [self.got.get() for _ in range(self.got.qsize())]


@contextmanager
def running() -> Iterator[Receiver]:
    found = Receiver()
    with listening(found.answer, location="/elsewhere") as url:
        found.url = f"{url}/hook?a=b"
        try:
            yield found
        finally:
            found.go.set()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running() as found:
        yield found


class Rounds:
    """Rounds of the deliverer with a clock that moves by itself, each until its deliveries are done."""

    def __init__(self, opened: retentive.Retentive) -> None:
        self.now = time.time()
        console, clock = "https://m.example/console", lambda: self.now
        self.deliverer = Deliverer(opened, to_private=True, console=console, clock=clock, monotonic=clock)

    def __call__(self, after_s: float = 0.0) -> None:
        self.now += after_s
        self.deliverer(lambda: True)
        for future in self.deliverer._running.values():
            future.result()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[retentive.Retentive]:
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as found:
        yield found


@pytest.fixture
def api(opened: retentive.Retentive) -> Iterator[Api]:
    with serving(opened, to_private=True) as found:
        yield found


@pytest.fixture
def rounds(opened: retentive.Retentive) -> Iterator[Rounds]:
    found = Rounds(opened)
    yield found
    found.deliverer.close()


def endpoint(api: Api, receiver: Receiver, *events: str) -> dict[str, Any]:
    body = {"url": receiver.url, "enabled_events": list(events or ALL)}
    answer = api.post("/v1/webhook_endpoints", body)
    assert answer.status == 200, answer.body
    made: dict[str, Any] = answer.body
    return made


def data_of(received: list[Received]) -> list[tuple[str, str]]:
    found = [json.loads(body)["data"] for _, _, body in received]
    return [(each["type"], each["id"]) for each in found]


def test_the_life_of_an_endpoint(api: Api, receiver: Receiver) -> None:
    made = endpoint(api, receiver)
    secret = made.pop("signing_secret")
    assert secret.startswith("whsec_")
    at = f"/v1/webhook_endpoints/{made['id']}"
    assert api.get(at).body == made
    assert api.get("/v1/webhook_endpoints").body == {"data": [made], "next_page": None}
    changed = api.post(at, {"name": "n", "state": "disabled", "enabled_events": []}).body
    assert (changed["name"], changed["state"], changed["enabled_events"]) == ("n", "disabled", ALL)
    assert secret not in json.dumps(changed)
    assert api.delete(at).body == {"id": made["id"], "type": "webhook_endpoint_deleted"}
    assert api.get(at).status == api.delete(at).status == 404


def test_signed_events_of_memory_stores(api: Api, receiver: Receiver, rounds: Rounds) -> None:
    """The SDK and the package standardwebhooks accept them, and refuse a changed body and another secret."""
    secret = endpoint(api, receiver)["signing_secret"]
    store = api.post("/v1/memory_stores", {"name": "s"}).body["id"]
    api.post(f"/v1/memory_stores/{store}/archive")
    api.post(f"/v1/memory_stores/{store}/archive")
    api.delete(f"/v1/memory_stores/{store}")
    rounds()
    rounds()
    received = sorted(receiver.events(), key=lambda each: json.loads(each[2])["created_at"])
    assert data_of(received) == [(event, store) for event in ALL]
    client = anthropic.Anthropic(api_key="x")
    for path, headers, data in received:
        body = data.decode()
        assert path == "/hook?a=b"
        event = client.beta.webhooks.unwrap(body, headers=headers, key=secret)
        assert (event.type, event.id, event.data.type in ALL) == ("event", headers["webhook-id"], True)
        assert type(event.data).__name__.startswith("BetaWebhookMemoryStore")
        about: Any = event.data
        assert (about.organization_id, about.workspace_id) == ("org_default", "wrkspc_default")
        Webhook(secret).verify(body, headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body + " ", headers)
        with pytest.raises(WebhookVerificationError):
            Webhook("whsec_AAAA").verify(body, headers)


def test_events_of_the_library_and_the_command_line(
    api: Api, receiver: Receiver, rounds: Rounds, opened: retentive.Retentive
) -> None:
    """A change marks its store, and a store from before the endpoint has no event of its creation."""
    old = opened.create_store("old").id
    endpoint(api, receiver)
    new = opened.create_store("new").id
    opened.archive_store(old)
    rounds()
    assert sorted(data_of(receiver.events())) == sorted([(ALL[1], old), (ALL[0], new)])
    opened.erase(new)
    rounds()
    assert data_of(receiver.events()) == [(ALL[2], new)]
    rounds(after_s=MARKED_S)
    rounds(after_s=LOOK_S)
    assert (receiver.events(), opened.records.list("webhook_mark")) == ([], [])
    assert [store for store, _ in opened.records.list(SEEN)] == [old]


def test_changes_of_memories_for_endpoints_that_ask(
    api: Api, receiver: Receiver, rounds: Rounds, opened: retentive.Retentive
) -> None:
    """One event has the id of the newest change, and this id continues an event stream."""
    old = opened.store("old")
    old.write("/memories/a", "before")
    endpoint(api, receiver, "memory_store.deleted")
    endpoint(api, receiver, "memory.changed")
    rounds()
    assert receiver.events() == []
    old.write("/memories/a", "one")
    old.write("/memories/a", "two")
    rounds()
    (received,) = receiver.events()
    assert json.loads(received[2])["data"] == {
        "type": "memory.changed",
        "id": old.id,
        "organization_id": "org_default",
        "workspace_id": "wrkspc_default",
        "last_event_id": old.history.newest(),
    }
    rounds()
    assert receiver.events() == []


def test_waiting_proposals(api: Api, opened: retentive.Retentive, receiver: Receiver, rounds: Rounds) -> None:
    """One event for all new proposals, with a link to the newest that still waits, and no contents."""
    store = opened.store("reviewed")
    store.change_settings({"review": ["session:*"]})
    endpoint(api, receiver, "review.waiting")
    for name in ("a", "b", "c"):
        store.create(f"/memories/{name}", "secret", actor="session:s1")
    third = store.review.pending()[-1].id
    rounds()
    (received,) = receiver.events()
    data = json.loads(received[2])["data"]
    assert (data["type"], data["id"], data["proposal_id"]) == ("review.waiting", store.id, third)
    assert data["url"] == f"https://m.example/console/s/{store.id}/review/{third}"
    assert b"secret" not in received[2]
    store.review.refuse([third], actor="user:ann")
    rounds()
    assert receiver.events() == []


def test_attempts_pauses_and_dead_letters(api: Api, receiver: Receiver, rounds: Rounds) -> None:
    """Redirects and errors are failures; after the last attempt the delivery is dead until somebody retries it."""
    made = endpoint(api, receiver)
    at = f"/v1/webhook_endpoints/{made['id']}/deliveries"
    receiver.statuses = [500, 302, 404, 301, 429, 503, 410, 400, 500, 500]
    assert len(receiver.statuses) == len(PAUSES_S) + 1
    api.post("/v1/memory_stores", {"name": "s"})
    rounds()
    for number, pause in enumerate(PAUSES_S, 1):
        (waiting,) = api.get(f"{at}?state=pending").body["data"]
        assert waiting["attempts"] == number
        rounds(after_s=pause)
        assert api.get(f"{at}?state=pending").body["data"] == [waiting]  # a fifth is added
        rounds(after_s=pause * 0.2 + 1)
    assert api.get(f"{at}?state=pending").body["data"] == []
    (dead,) = api.get(f"{at}?state=dead").body["data"]
    assert (dead["state"], dead["attempts"], dead["last_error"]) == ("dead", 10, "status 500")
    received = receiver.events()
    assert len(received) == 10
    assert {path for path, _, _ in received} == {"/hook?a=b"}
    assert len({headers["webhook-id"] for _, headers, _ in received}) == 1
    rounds(after_s=100_000)
    assert receiver.events() == []


def test_pending_deliveries_are_bounded(
    api: Api, receiver: Receiver, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest become dead letters that say so; another endpoint loses nothing."""
    monkeypatch.setattr("retentive.server.deliveries.MAX_DELIVERIES", 2)
    made, other = endpoint(api, receiver), endpoint(api, receiver, ALL[2])
    receiver.statuses = [500, 500]
    stores = [api.post("/v1/memory_stores", {"name": "s"}).body["id"] for _ in range(4)]
    rounds()
    rounds()
    assert sorted(data_of(receiver.events())) == sorted((ALL[0], store) for store in stores[2:])
    at = f"/v1/webhook_endpoints/{made['id']}/deliveries"
    dead = api.get(f"{at}?state=dead").body["data"]
    assert [(each["state"], each["attempts"], each["last_attempt_at"]) for each in dead] == [("dead", 0, None)] * 2
    assert {each["last_error"] for each in dead} == {"dropped: more than 2 deliveries were pending"}
    api.delete(f"/v1/memory_stores/{stores[0]}")
    rounds()
    assert data_of(receiver.events()) == [(ALL[2], stores[0])] * 2
    assert len(api.get(f"{at}?state=dead").body["data"]) == 3
    assert api.get(f"/v1/webhook_endpoints/{other['id']}/deliveries?state=dead").body["data"] == []
    rounds(after_s=PAUSES_S[0] * 1.2 + 1)
    assert data_of(receiver.events()) == [(ALL[0], stores[3])]


def test_workspaces_patterns_and_disabled_endpoints(api: Api, receiver: Receiver, rounds: Rounds) -> None:
    """An endpoint gets the events of its workspace, and only those of stores that its key includes."""
    other = api.with_key("admin", workspace_id="wrkspc_other")
    limited = api.with_key("admin", stores=("team-*",))
    foreign, own = endpoint(other, receiver), endpoint(limited, receiver)
    assert limited.get("/v1/webhook_endpoints").body["data"][0]["id"] == own["id"]
    assert api.get(f"/v1/webhook_endpoints/{foreign['id']}").status == 404
    whole = endpoint(api, receiver)
    assert limited.get(f"/v1/webhook_endpoints/{whole['id']}").status == 404
    api.post(f"/v1/webhook_endpoints/{whole['id']}", {"state": "disabled"})
    api.post("/v1/memory_stores", {"name": "hidden"})
    seen = api.post("/v1/memory_stores", {"name": "t", "key": "team-a"}).body["id"]
    rounds()
    assert data_of(receiver.events()) == [("memory_store.created", seen)]


def test_a_disabled_endpoint_gets_nothing_that_was_pending(api: Api, receiver: Receiver, rounds: Rounds) -> None:
    """Its pending deliveries are removed, and do not arrive when it is enabled again."""
    at = f"/v1/webhook_endpoints/{endpoint(api, receiver)['id']}"
    receiver.statuses = [500]
    api.post("/v1/memory_stores", {"name": "s"})
    rounds()
    assert len(receiver.events()) == len(api.get(f"{at}/deliveries?state=pending").body["data"]) == 1
    api.post(at, {"state": "disabled"})
    rounds(after_s=100_000)
    assert api.get(f"{at}/deliveries?state=pending").body["data"] == []
    api.post(at, {"state": "enabled"})
    rounds(after_s=100_000)
    assert receiver.events() == []


def test_a_slow_endpoint_does_not_delay_the_others(api: Api, receiver: Receiver, rounds: Rounds) -> None:
    """It has more events than one turn has, and gets one after the other."""
    with running() as slow:
        slow.go.clear()
        endpoint(api, slow, "memory_store.created")
        endpoint(api, receiver, "memory_store.deleted")
        made = [api.post("/v1/memory_stores", {"name": "s"}).body["id"] for _ in range(BATCH + 1)]
        api.delete(f"/v1/memory_stores/{made[0]}")
        rounds.deliverer(lambda: True)
        assert data_of([receiver.got.get(timeout=20)]) == [("memory_store.deleted", made[0])]
        assert slow.got.qsize() <= 1
        slow.go.set()
        rounds()
        rounds()
        assert {store for _, store in data_of(slow.events())} == set(made)


def test_a_crash_before_the_record_of_the_event(
    api: Api, receiver: Receiver, rounds: Rounds, opened: retentive.Retentive
) -> None:
    """The event is queued again with the same id, so that a receiver can recognise it."""
    endpoint(api, receiver)
    store = opened.create_store("s")
    rounds()
    opened.records.put(SEEN, store.id, None)
    rounds(after_s=30)
    first, second = receiver.events()
    assert first[1]["webhook-id"] == second[1]["webhook-id"]


WRITER = """
import os, sys, retentive
opened = retentive.open(sys.argv[1])
store = opened.store("killed")
store.write("/memories/a", "one")
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("backend", sorted({"directory", *LASTING}))
def test_a_killed_process_loses_no_event(receiver: Receiver, tmp_path: Path, backend: str) -> None:
    """A process of its own changes a store and is killed at once. Nothing else reads or writes that store."""
    at = place_of(backend, tmp_path)
    with retentive.open(at) as opened, serving(opened, to_private=True) as api:
        endpoint(api, receiver, "memory.changed")
        rounds = Rounds(opened)
        subprocess.run([sys.executable, "-c", WRITER, at], check=False)
        rounds()
        assert [event for event, _ in data_of(receiver.events())] == ["memory.changed"]
        rounds.deliverer.close()


def test_a_change_without_a_mark(api: Api, receiver: Receiver, rounds: Rounds, opened: retentive.Retentive) -> None:
    """An hourly look at all stores finds it: the process did not know of the endpoint."""
    endpoint(api, receiver, "memory.changed")
    rounds()
    opened.marks._looked_at, opened.marks._workspaces = time.monotonic(), set()
    opened.store("s").write("/memories/a", "x")
    rounds()
    assert receiver.events() == []
    rounds(after_s=LOOK_S)
    assert [event for event, _ in data_of(receiver.events())] == ["memory.changed"]


def test_quiet_stores_are_not_read(
    api: Api, receiver: Receiver, rounds: Rounds, opened: retentive.Retentive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round reads the marked stores and the records of the location, and no other store."""
    stores = [opened.store(f"s{number}") for number in range(5)]
    endpoint(api, receiver, "memory.changed")
    rounds()
    read = Counter[str]()
    inner = opened.backend.read

    def counted(store_id: str, *arguments: Any, **options: Any) -> Any:
        read[store_id] += 1
        return inner(store_id, *arguments, **options)

    monkeypatch.setattr(opened.backend, "read", counted)
    stores[0].write("/memories/a", "one")
    read.clear()
    rounds()
    assert read.keys() & {store.id for store in stores} == {stores[0].id}


def test_a_damaged_store_does_not_hold_up_the_others(
    api: Api, receiver: Receiver, rounds: Rounds, opened: retentive.Retentive, tmp_path: Path
) -> None:
    endpoint(api, receiver, "memory.changed")
    damaged, sound = opened.store("damaged"), opened.store("sound")
    for store in (damaged, sound):
        store.write("/memories/a", "one")
    with sqlite3.connect(tmp_path / "memory.db") as database:
        database.execute("UPDATE stores SET created_at = 'x' WHERE id = ?", (damaged.id,))
    with pytest.raises(Damaged):
        opened.get_store(damaged.id)
    rounds()
    assert ("memory.changed", sound.id) in data_of(receiver.events())


def test_a_test_event_and_a_new_secret(api: Api, receiver: Receiver, rounds: Rounds) -> None:
    """After a rotation, both secrets sign for a day; then only the new one does."""
    made = endpoint(api, receiver)
    at = f"/v1/webhook_endpoints/{made['id']}"
    new = api.post(f"{at}/rotate_secret").body["signing_secret"]
    assert new != made["signing_secret"]
    sent = api.post(f"{at}/test").body
    assert (sent["event"], sent["state"]) == ("webhook.test", "pending")
    rounds()
    ((_, headers, body),) = receiver.events()
    for secret in (new, made["signing_secret"]):
        Webhook(secret).verify(body, headers)
    rounds(after_s=90_000)
    api.post(f"{at}/test")
    rounds()
    ((_, headers, _),) = receiver.events()
    assert len(headers["webhook-signature"].split()) == 1
    assert [each["state"] for each in api.get(f"{at}/deliveries").body["data"]] == ["delivered"] * 2
    rounds(after_s=30 * 86_400 + 1)
    assert api.get(f"{at}/deliveries").body["data"] == []  # kept for 30 days
    api.post(at, {"state": "disabled"})
    assert api.post(f"{at}/test").status == 400


@pytest.mark.parametrize(
    "url",
    ["http://example.com/", "https://u:p@example.com/", "https://127.0.0.1/", "https://[::1]/", "https://10.1.2.3",
     "https://169.254.169.254/", "https://[::ffff:127.0.0.1]/", "https://localhost/", "ftp://example.com", "x", "",
     "https://example.com/\r\nx", "https://exämple.com/", "https://example.com/#f", "https://[64:ff9b::7f00:1]/"],
)  # fmt: skip
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        check_url(url, to_private=False)


def test_addresses() -> None:
    public = ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"]
    private = ["127.0.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.1.1", "100.64.0.1",
               "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:10.0.0.1",
               "2002:7f00:1::", "64:ff9b::a00:1"]  # fmt: skip
    assert [each for each in public if not is_public(each)] == [each for each in private if is_public(each)] == []


@pytest.mark.parametrize(
    ("scheme", "addresses", "error"),
    [
        ("https", ["127.0.0.1"], "the host has a private address"),
        ("https", ["93.184.216.34", "127.0.0.1"], "the host has a private address"),
        ("http", ["93.184.216.34"], "the URL must begin with https://"),
    ],
)
def test_a_url_that_may_not_be_used_now_gets_nothing(
    opened: retentive.Retentive, scheme: str, addresses: list[str], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that was public may resolve to another address later, and the server may have had other options."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 443)) for each in addresses]
    Webhooks(opened).create("wrkspc_default", f"{scheme}://hooks.example/", ALL)
    opened.create_store("s")
    deliverer = Deliverer(opened)
    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        deliverer(lambda: True)
        deliverer.close()
    (waiting,) = Webhooks(opened).deliveries(PENDING)
    assert (waiting.last_error, waiting.attempts) == (error, 1)


def test_what_another_version_stored_can_be_changed_once(opened: retentive.Retentive) -> None:
    hooks = Webhooks(opened)
    made = hooks.create("wrkspc_default", "https://hooks.example/", ALL)
    hooks.queue(made, "webhook.test", made.created_at, made.id)
    for kind in ("webhook_endpoint", PENDING):
        another_version(opened, kind)
    assert hooks.change(made.id, name="new").name == "new"
    (read,) = hooks.deliveries(PENDING)
    for attempts in (1, 7):  # the second was decided before the first was stored
        hooks.settle(read, attempts=attempts)
    assert [each.attempts for each in hooks.deliveries(PENDING)] == [1]


def test_one_leader_within_a_lease(opened: retentive.Retentive) -> None:
    """The first leads; the second takes over within a lease of the last renewal, after the first has stopped."""
    clock = Clock()
    first, second = (Leader(opened.records, lease_s=10, monotonic=clock) for _ in range(2))
    assert (first.tick(), second.tick()) == (True, False)
    for _ in range(20):
        clock.now += 2
        assert (first.tick(), second.tick()) == (True, False)
    renewed = clock.now
    while not second.leads:
        clock.now += 2
        second.tick()
        assert not (first.leads and second.leads)
    assert clock.now - renewed <= 10
    assert first.tick() is False
    second.resign()
    assert first.tick() is True


def test_of_many_processes_one_leads_at_a_time(opened: retentive.Retentive) -> None:
    """The result holds for each order of their steps and each pause between them."""
    import random

    chooser, clock = random.Random(7), Clock()
    leaders = [Leader(opened.records, lease_s=10, monotonic=clock) for _ in range(4)]
    for _ in range(400):
        clock.now += chooser.choice([0, 0.5, 2, 7])
        chooser.choice(leaders).tick()
        assert sum(each.leads for each in leaders) <= 1


def test_background_work_goes_on_after_an_error(opened: retentive.Retentive) -> None:
    done: Queue[None] = Queue()

    def works(_: Callable[[], bool]) -> None:
        done.put(None)
        raise ValueError("once more")

    background = Background(Leader(opened.records), [works], every_s=0.001)
    done.get(timeout=30)
    done.get(timeout=30)
    background.stop()
    assert Leader(opened.records).tick()  # the lease was given up


@pytest.mark.long
def test_events_survive_a_kill(receiver: Receiver, tmp_path: Path) -> None:
    """The leader is killed after its first failed attempt; another server delivers the event."""
    at, options = f"sqlite:///{tmp_path}/memory.db", ("--webhooks-to-private", "--lease-s", "1")
    receiver.statuses = [500]
    with retentive.open(at) as opened:
        place = ServedLocation(opened)
        key = place.keys.create("t", scopes=("admin",)).text
        with process_serving(at, *options) as running_server:
            api = Api(running_server.url, key, place)
            made = endpoint(api, receiver)
            store = api.post("/v1/memory_stores", {"name": "s"}).body["id"]
            assert data_of([receiver.got.get(timeout=60)]) == [("memory_store.created", store)]
            running_server.process.kill()
        with process_serving(at, *options):
            again = receiver.got.get(timeout=60)
            assert data_of([again]) == [("memory_store.created", store)]
            Webhook(made["signing_secret"]).verify(again[2], again[1])
