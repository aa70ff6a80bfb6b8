"""`/mcp` on a server: the tools of every revision, keys with scopes, and the end of streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client

import retentive
from retentive.server.limits import RateLimits
from support.http_api import Api, serving
from support.mcp_clients import MODES, agree, replies, reply_of, result_of

from .steps import READ_ONLY, A, B, use_every_tool

WAIT_S = 30


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """A server with the memory stores `default` and `team`, and the key of an admin."""
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened) as found:
        opened.store()
        opened.store("team")
        yield found


@asynccontextmanager
async def client_of(
    api: Api, *, mode: str = MODES[0], store: str = "default", before_sending: Any = None, **options: Any
) -> AsyncIterator[Client]:
    """A client with the key of `api`. `before_sending` is called with each request."""
    given = {"authorization": f"Bearer {api.key}"}
    hooks = {"request": [] if before_sending is None else [before_sending]}
    url = f"{api.url}/mcp{f'?store={store}' if store else ''}"
    async with httpx2.AsyncClient(headers=given, timeout=WAIT_S, event_hooks=hooks) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=agree, **options) as client:
            yield client


@pytest.mark.parametrize("mode", MODES)
def test_every_tool_works_in_both_revisions(api: Api, mode: str) -> None:
    key = api.with_key("read", "write", principal="user:ann")

    result_of(client_of(key, mode=mode), use_every_tool)
    versions = api.place.opened.store().versions()
    assert {(str(each.actor), each.provenance.integration) for each in versions} == {("user:ann", "mcp")}


def test_the_url_or_the_key_names_the_store(api: Api) -> None:
    team = api.place.opened.store("team")
    only = api.with_key("read", "write", stores=("team",))

    team.create(A, "")
    for key, store in ((api, "team"), (api, team.id), (only, "")):
        replies(client_of(key, store=store), ("memory_insert", {"path": A, "insert_line": 0, "insert_text": "tea"}))
    assert team.read(A) == "tea\n" * 3
    assert api.place.opened.store().memories() == []


@pytest.mark.parametrize("store", ["none", "memstore_" + "0" * 32, "memstore_system", "default", "xtheirs"])
def test_a_store_that_the_key_does_not_see_is_missing(api: Api, store: str) -> None:
    api.place.opened.store("xtheirs", workspace="wrkspc_theirs")
    key = api.with_key("read", "write", stores=("team", "x*"))
    found = key.post(f"/mcp?store={store}", {})
    assert (found.status, found.error["message"]) == (
        404,
        "memory store not found; name one in the URL, such as /mcp?store=KEY",
    )


def test_a_key_that_only_reads_has_no_tool_that_writes(api: Api) -> None:
    key = api.with_key("read")
    listed = result_of(client_of(key), lambda client: client.list_tools())
    assert {tool.name for tool in listed.tools} == READ_ONLY
    (reply,) = replies(client_of(key), ("memory_create", {"path": A, "file_text": "tea"}))
    assert reply == ("Error: the API key needs the scope write", True)


def test_a_key_that_only_writes_reads_nothing(api: Api) -> None:
    key = api.with_key("write")
    api.place.opened.store().create(B, "secret")

    async def run() -> tuple[str, bool]:
        async with client_of(key) as client:
            for read in (client.read_resource("memory://default/b.md"), client.list_resources()):
                with pytest.raises(MCPError, match="the API key needs the scope read"):
                    await read
            with pytest.raises(MCPError, match="the API key needs the scope read"):
                async with client.listen(resource_subscriptions=["memory://default/b.md"]):
                    pass
            return await reply_of(client, "memory_view", {"path": B})

    assert asyncio.run(run()) == ("Error: the API key needs the scope read", True)


def test_a_request_without_a_key_is_refused(api: Api) -> None:
    for key in ("", "rtv_wrong"):
        found = Api(api.url, key, api.place).post("/mcp", {})
        assert (found.status, found.error["message"]) == (401, "invalid API key")
        assert found.headers["www-authenticate"] == "Bearer"
    found = api.with_key("review").post("/mcp", {})
    assert (found.status, found.error["message"]) == (403, "the API key needs the scope read or write")
    assert found.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="read write"'


@pytest.mark.parametrize(
    ("origin", "host"), [("https://evil.example", None), ("http://evil.example", "evil.example"), ("null", None)]
)
def test_a_page_of_another_site_is_refused(api: Api, origin: str, host: str | None) -> None:
    """Also one whose name points at this machine."""
    found = api.post("/mcp", {}, origin=origin, **({} if host is None else {"host": host}))
    assert (found.status, found.error["message"]) == (403, "the header Origin names another site")


def test_a_session_belongs_to_its_key(api: Api) -> None:
    ping, headers = {"jsonrpc": "2.0", "id": 2, "method": "ping"}, begun(api)
    assert api.post("/mcp?store=default", ping, **headers).status == 200
    assert api.with_key("read").post("/mcp?store=default", ping, **headers).status == 404


def test_clients_hear_changes_whatever_key_was_first(api: Api) -> None:
    """All clients of a memory store share one poll. It adds nothing to the audit log, which is for their calls."""
    store = api.place.opened.store()
    store.create(A, "x")
    store.change_settings({"audit": True})
    mine = ["memory://default/a.md"]

    async def run() -> str:
        limited = api.with_key("read", paths=("/memories/only",))
        async with (
            client_of(limited) as first,
            first.listen(resource_subscriptions=mine),
            client_of(api) as second,
            second.listen(resource_subscriptions=mine) as events,
        ):
            await asyncio.to_thread(store.append, A, "more")
            async with asyncio.timeout(WAIT_S):
                return getattr(await anext(aiter(events)), "uri", "")

    assert [asyncio.run(run())] == mine
    operations = {entry.operation for entry in store.audit.entries()}
    assert not operations & {"feed", "versions"}


def test_a_client_hears_nothing_of_paths_that_it_may_not_see(api: Api) -> None:
    """Neither an event of the memory nor one of the list: both would tell that something is there."""
    store = api.place.opened.store()
    for path in (A, B):
        store.create(path, "x")
    limited = api.with_key("read", paths=(B,))
    mine = ["memory://default/a.md", "memory://default/b.md"]

    async def run() -> list[str]:
        async with (
            client_of(limited) as client,
            client.listen(resource_subscriptions=mine, resources_list_changed=True) as events,
            client_of(api) as other,
            other.listen(resource_subscriptions=mine) as all_events,
        ):
            await asyncio.to_thread(store.append, A, "more")
            async with asyncio.timeout(WAIT_S):
                await anext(aiter(all_events))  # so that the two changes are in two polls
                await asyncio.to_thread(store.append, B, "more")
                each = aiter(events)
                return [getattr(await anext(each), "uri", "list") for _ in range(2)]

    assert asyncio.run(run()) == [mine[1], "list"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning")
def test_changes_are_heard_until_the_key_is_revoked(api: Api, mode: str) -> None:
    """A subscription ends with the right to read: no event follows."""
    key = api.with_key("read")
    store = api.place.opened.store()
    store.create(A, "x")
    (record,) = [each for each in api.place.keys.all() if each.name == "test"]

    async def run() -> list[str]:
        heard: asyncio.Queue[str] = asyncio.Queue()

        async def note(message: Any) -> None:
            if mode == "legacy" and isinstance(message, types.ResourceUpdatedNotification):
                await heard.put(message.params.uri)

        async def listen(client: Client) -> None:
            async with client.listen(resource_subscriptions=["memory://default/a.md"]) as events:
                ready.set()
                async for event in events:
                    await heard.put(getattr(event, "uri", ""))

        ready = asyncio.Event()
        async with client_of(key, mode=mode, message_handler=note) as client:
            if mode == "legacy":
                await client.subscribe_resource("memory://default/a.md")
                listening = None
            else:
                listening = asyncio.create_task(listen(client))
                await asyncio.wait_for(ready.wait(), WAIT_S)
            await asyncio.to_thread(store.append, A, "more")
            first = await asyncio.wait_for(heard.get(), WAIT_S)
            api.place.keys.change(record.id, status="inactive")
            await asyncio.to_thread(store.append, A, "more")
            async with (
                client_of(api) as other,
                other.listen(resource_subscriptions=["memory://default/a.md"]) as events,
            ):
                await asyncio.to_thread(store.append, A, "more")
                async with asyncio.timeout(WAIT_S):
                    await anext(aiter(events))
            if listening is not None:
                listening.cancel()
        return [first, *(heard.get_nowait() for _ in range(heard.qsize()))]

    assert asyncio.run(run()) == ["memory://default/a.md"]


def test_a_server_that_stops_ends_the_streams(tmp_path: Path) -> None:
    """Otherwise it would wait for its clients as long as a stop may take."""
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened) as api:
        opened.store().create(A, "x")
        assert api.server is not None
        server = api.server

        async def run() -> None:
            uris = ["memory://default/a.md"]
            async with client_of(api) as client, client.listen(resource_subscriptions=uris) as events:
                server.stop()
                async with asyncio.timeout(WAIT_S):
                    assert [event async for event in events] == []

        asyncio.run(run())


@pytest.mark.long
def test_without_sessions_any_process_answers(tmp_path: Path) -> None:
    """As with several workers. A client of an older revision cannot be asked, so it needs the number."""
    with (
        retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened,
        serving(opened, is_alone=False) as api,
        serving(opened, is_alone=False) as another,
    ):
        store = opened.store()
        for n in range(6):
            store.create(f"/memories/d/{n}", "x")
        ports: list[int] = []

        async def alternate(request: httpx2.Request) -> None:
            """Send each second request to the other server, which has the same memory stores and keys."""
            servers = (httpx2.URL(api.url), httpx2.URL(another.url))
            request.url = request.url.copy_with(port=servers[len(ports) % 2].port)
            ports.append(request.url.port or 0)

        async def run() -> list[tuple[str, bool]]:
            found = []
            for mode in reversed(MODES):
                async with client_of(api, mode=mode, before_sending=alternate) as client:
                    await client.list_tools()
                    found.append(await reply_of(client, "memory_delete", {"path": "/memories/d"}))
            return found

        (legacy, agreed) = asyncio.run(run())
    assert legacy[1]
    assert "expected_count 6" in legacy[0]
    assert agreed == ("Successfully deleted /memories/d", False)
    assert len(set(ports)) == 2


def begun(api: Api) -> dict[str, str]:
    """Headers of a session of the revision 2025-06-18."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    answer = api.post(
        "/mcp?store=default", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}, **headers
    )
    return {**headers, "mcp-session-id": answer.headers["mcp-session-id"]}


def test_a_server_that_stops_ends_the_stream_of_a_session(api: Api) -> None:
    assert api.server is not None
    headers = {"authorization": f"Bearer {api.key}", **begun(api)}
    with (
        httpx2.Client(timeout=WAIT_S) as http,
        http.stream("GET", f"{api.url}/mcp?store=default", headers=headers) as answer,
    ):
        assert answer.status_code == 200
        api.server.stop()
        assert answer.read() == b""


def test_requests_count_for_the_rate_of_the_key(tmp_path: Path) -> None:
    (tmp_path / "rates").touch()
    limits = RateLimits("1/h")
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened, limits=limits) as api:
        opened.store()
        found = [api.post("/mcp?store=default", {}, content_type="application/json").status for _ in range(2)]
    assert found == [406, 429]


def test_bodies_have_the_limit_of_the_server(api: Api) -> None:
    found = api.post("/mcp?store=default", {"x": "x" * (8 << 20)}, **begun(api))
    assert (found.status, found.error["message"]) == (413, f"the body of the request must have at most {8 << 20} bytes")


def test_long_memories_fit_into_a_body(api: Api) -> None:
    """A JSON escape makes a character six times longer."""
    text = "\x01" * 710_000
    api.place.opened.store().change_settings({"max_memory_bytes": 1_000_000})

    create = ("memory_create", {"path": A, "file_text": text})
    assert replies(client_of(api), create) == [(f"File created successfully at: {A}", False)]
    assert api.place.opened.store().read(A) == text


@pytest.mark.parametrize("store", ["%00", "x" * 999], ids=["control character", "long"])
def test_an_invalid_name_of_a_store_is_refused(api: Api, store: str) -> None:
    assert api.post(f"/mcp?store={store}", {}).status == 400


def test_results_refer_to_the_pages_of_the_console(tmp_path: Path) -> None:
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened, has_console=True) as api:
        store = opened.store()
        memory = store.create(A, "tea")

        page = f"{api.url}/console/s/{store.id}/id/{memory.memory_id}"
        calls = ("search", {"query": "tea"}), ("fetch", {"id": memory.memory_id})
        found, fetched = (json.loads(text) for text, _ in replies(client_of(api), *calls))
        assert [found["results"][0]["url"], fetched["url"]] == [page, page]
