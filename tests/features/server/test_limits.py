"""Rate limits, limits of bodies, and the answers of a server that is overloaded or without its storage."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.request import urlopen

import anyio
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import retentive
from features.mcp.test_http import begun
from features.server.test_events import streaming
from retentive.errors import InvalidInput, StoreFull, Unavailable
from retentive.server.errors import HttpError, api_error
from retentive.server.keys import id_in
from retentive.server.limits import RateLimits, Workers
from retentive.wire.stores import RATE_PATTERN, rate_of
from support import servers
from support.clock import Clock
from support.http_api import Api, serving
from support.protocols import Postgresql
from support.proxy import Proxy
from support.tls import self_signed
from support.waiting import until

RATES = [("50/s", (50, 50.0)), ("600/m", (600, 10.0)), ("36/h", (36, 0.01)), ("none", None), (None, None)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize(("text", "rate"), RATES)
def test_texts_of_rates(text: str | None, rate: tuple[int, float] | None) -> None:
    assert rate_of(text) == rate
    assert text is None or re.search(RATE_PATTERN, text)


@pytest.mark.parametrize("text", ["", "0/s", "-1/s", "5", "5/d", "5/s ", "5/s\n", "\u0665/s", "NONE", "12345678/s"])
def test_malformed_rates(text: str) -> None:
    with pytest.raises(InvalidInput, match="50/s"):
        rate_of(text)


@given(steps=st.lists(st.sampled_from([0.0, 0.1, 1.0, 3.0]), max_size=60), burst=st.integers(1, 5))
def test_a_key_never_gets_more_than_its_rate(steps: list[float], burst: int) -> None:
    clock, taken = Clock(), 0
    begun = clock.now
    limits = RateLimits(f"{burst}/s", clock=clock)
    for step in steps:
        clock.now += step
        with suppress(HttpError):
            limits.check("a", None)
            taken += 1
    assert taken <= burst + (clock.now - begun) * burst + 1e-6


@pytest.fixture
def limited(tmp_path: Path, clock: Clock) -> Iterator[Api]:
    """A server with a rate, whose clock does not move."""
    with (
        retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened,
        serving(opened, limits=RateLimits("3/m", clock=clock, wall=clock)) as api,
    ):
        yield api


def test_a_key_over_its_rate_gets_429(limited: Api, clock: Clock) -> None:
    first, second = limited.with_key("read"), limited.with_key("read")
    answers = [first.get("/v1/memory_stores") for _ in range(4)]
    assert [each.status for each in answers] == [200, 200, 200, 429]
    assert answers[3].error["type"] == "rate_limit_error"
    assert answers[3].error["details"] == {"error_code": "rate_limited"}
    assert answers[3].headers["retry-after"] == "20"
    told = [
        [each.headers[f"anthropic-ratelimit-requests-{name}"] for name in ("limit", "remaining")] for each in answers
    ]
    assert told == [["3", "2"], ["3", "1"], ["3", "0"], ["3", "0"]]
    reset = [datetime.fromisoformat(each.headers["anthropic-ratelimit-requests-reset"]) for each in answers]
    assert [(each - datetime.fromtimestamp(clock.now, UTC)).total_seconds() for each in reset] == [20, 40, 60, 60]
    assert "anthropic-ratelimit-requests-limit" not in first.get("/readyz").headers
    assert second.get("/v1/memory_stores").status == 200
    assert first.get("/readyz").status == 200
    clock.now += 20
    assert first.get("/v1/memory_stores").status == 200


def test_a_key_has_a_number_of_streams(tmp_path: Path) -> None:
    """Of its own, for events and MCP together. One that ended makes room."""
    limits = RateLimits(streams=2)
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened, limits=limits) as api:
        at, other = f"/v1/memory_stores/{opened.store().id}/events", api.with_key("read")
        session = begun(api)
        with streaming(api, "/mcp", **session), streaming(api, at), streaming(other, at):
            refused = [api.get(at), api.get("/mcp", **session)]
            assert [(each.status, each.error["details"]["error_code"]) for each in refused] == [
                (429, "too_many_streams")
            ] * 2
            assert refused[0].error["message"] == "the API key has 2 open event streams, the maximum; close one first"
            assert b"\nretentive_event_streams 3.0\n" in api.get("/metrics").body
        until(lambda: b"\nretentive_event_streams 0.0\n" in api.get("/metrics").body)
        with streaming(api, at):
            pass


def test_browsers_learn_of_tls(tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path)
    context = ssl.create_default_context(cafile=cert)
    with (
        retentive.open("sqlite://") as opened,
        serving(opened) as plain,
        serving(opened, tls={"ssl_certfile": cert, "ssl_keyfile": key}) as api,
    ):
        with urlopen(api.url.replace("http:", "https:") + "/healthz", context=context) as answer:
            assert answer.headers["strict-transport-security"] == "max-age=31536000"
        assert "strict-transport-security" not in plain.get("/healthz").headers


def test_keys_have_rates_of_their_own(limited: Api) -> None:
    """The wait is never more than 60 s in the answer, and a rate can be changed while the key is used."""
    admin = limited.with_key("admin", rate_limit="none")
    made = admin.post("/v1/organizations/api_keys", {"name": "slow", "rate_limit": "1/h"}).body
    assert made["rate_limit"] == "1/h"
    slow = Api(limited.url, made["api_key"], limited.place)
    answers = [slow.get("/v1/memory_stores") for _ in range(2)]
    assert [each.status for each in answers] == [200, 429]
    assert answers[1].headers["retry-after"] == "60"
    changed = admin.post(f"/v1/organizations/api_keys/{made['id']}", {"rate_limit": "none"}).body
    assert changed["rate_limit"] == "none"
    assert {slow.get("/v1/memory_stores").status for _ in range(5)} == {200}
    refused = admin.post(f"/v1/organizations/api_keys/{made['id']}", {"rate_limit": "fast"})
    assert refused.error["message"].startswith("rate_limit: a rate must be a number")


def test_an_invalid_key_takes_no_token(limited: Api) -> None:
    key = limited.with_key("read")
    wrong = Api(limited.url, key.key[:-1] + "x", limited.place)
    assert {wrong.get("/v1/memory_stores").status for _ in range(5)} == {401}
    assert key.get("/v1/memory_stores").status == 200


def test_a_server_without_memory_for_bodies(tmp_path: Path) -> None:
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened) as api:
        assert api.server is not None
        api.server.max_bodies_bytes = 10
        answer = api.post("/v1/memory_stores", {"name": "more than ten bytes"})
        assert (answer.status, answer.error["type"], answer.headers["retry-after"]) == (503, "overloaded_error", "1")
        assert api.get("/v1/memory_stores").body["data"] == []


def test_deadlines() -> None:
    """A call that runs too long is 504, keeps its place, and ends; one that found no thread is 503 and never runs."""
    free, ran = Event(), list[str]()

    async def status(workers: Workers, name: str) -> int:
        def work() -> None:
            free.wait(30)
            ran.append(name)

        try:
            await workers.run(work)
        except HttpError as error:
            return error.status
        return 200

    async def calls() -> list[int]:
        workers = Workers(1, 1, deadline_s=0.05)
        found: list[int] = []
        found.append(await status(workers, "first"))
        found.append(await status(workers, "second"))
        free.set()
        workers.close()
        return found

    assert anyio.run(calls) == [504, 503]
    assert ran == ["first"]


@pytest.mark.parametrize(
    ("error", "status", "kind", "headers"),
    [
        (Unavailable("x"), 503, "overloaded_error", {"retry-after": "1"}),
        (StoreFull("x"), 507, "api_error", {"x-should-retry": "false"}),
        (HttpError(504, "timeout_error", "x", "deadline"), 504, "timeout_error", {}),
    ],
)
def test_failures_of_storage(error: Any, status: int, kind: str, headers: dict[str, str]) -> None:
    found = error if isinstance(error, HttpError) else api_error(error)
    assert (found.status, found.kind, found.headers()) == (status, kind, headers)


@pytest.mark.long
def test_storage_that_is_away() -> None:
    """Every request gets 503 with retry-after while the database cannot be reached, and succeeds afterwards."""
    server = servers.postgresql()
    url = server.new_database("server_limits_away")
    with (
        Proxy(server.port, Postgresql) as proxy,
        retentive.open(f"{proxy.through(url)}?timeout_s=1") as opened,
        serving(opened) as api,
    ):
        at = f"/v1/memory_stores/{opened.store().id}/memories"
        body = {"path": "/a", "content": "x"}
        proxy.down = True
        proxy.cut_all()
        for answer in (api.post(at, body), api.get(at)):
            assert (answer.status, answer.error["type"]) == (503, "overloaded_error")
            assert answer.headers["retry-after"] == "1"
        proxy.heal()
        assert api.post(at, body).status in {200, 409}  # 409: the outcome of the first one was unknown


def test_a_store_that_is_locked_for_too_long() -> None:
    """A command that failed gets 503, although the storage can be read, and succeeds when it is sent again.

    An invalid command gets it too, so that it is sent again and the audit log gets its entry.
    """
    url = servers.postgresql().new_database("server_limits_locked")
    with retentive.open(f"{url}?timeout_s=1") as opened, serving(opened) as api, psycopg.connect(url) as other:
        at = f"/v1/memory_stores/{opened.store().id}"
        create = {"command": "create", "path": "/memories/a", "file_text": "x"}
        block = {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": create}
        invalid = {"command": {"command": "create"}}
        opened.store().change_settings({"audit": True})
        other.execute("SELECT 1 FROM stores FOR UPDATE")
        bodies = [("tool", block), ("commands", invalid)]
        for answer in [api.post(f"{at}/{route}", body) for route, body in bodies]:
            assert (answer.status, answer.error["type"]) == (503, "overloaded_error")
            assert answer.headers["retry-after"] == "1"
        other.rollback()
        assert "is_error" not in api.post(f"{at}/tool", block).body
        assert api.post(f"{at}/commands", invalid).body["is_error"]
        assert opened.store().read("/memories/a") == "x"


def test_many_calls_of_one_client_are_answered(tmp_path: Path) -> None:
    """More calls at once than threads and places: each is done, or refused with 503 and without an effect."""
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened, workers=Workers(1, 2)) as api:
        store, found = opened.store(), list[tuple[int, str]]()
        at = f"/v1/memory_stores/{store.id}/memories"

        def create(path: str) -> None:
            found.append((api.post(at, {"path": path, "content": json.dumps(path)}).status, path))

        threads = [Thread(target=create, args=(f"/{number}",)) for number in range(24)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert {status for status, _ in found} <= {200, 503}
        done = sorted(f"/memories{path}" for status, path in found if status == 200)
        assert sorted(memory.path for memory in store.memories()) == done
        assert id_in(api.key) is not None
