"""Memories as resources, and notifications of their changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from mcp import Client, types

import retentive
from retentive import MemoryStore
from retentive.mcp.resources import PAGE
from support.mcp_clients import MODES, all_resources, connected, error_of, result_of

WAIT_S = 30


@pytest.mark.parametrize("mode", MODES)
def test_resources_are_listed_by_pages(store: MemoryStore, mode: str) -> None:
    """The page ends at a path that Python does not call printable."""
    names = [*(f"{n:03}.md" for n in range(PAGE - 1)), "می\u200cخ\u3000.md", "報告.md"]
    for name in names:
        store.create(f"/memories/{name}", "x")
    found = result_of(connected(store, mode=mode), all_resources)
    assert [each.uri for each in found] == [f"memory://default/{quote(name)}" for name in names]
    assert {(each.mime_type, each.size) for each in found} == {("text/markdown", 1)}


@pytest.mark.parametrize(
    "path",
    [
        "/memories/a b/ü%20?.md",
        "/memories/100%.md",
        "/memories/報告．json",
        "/memories/a#b&c",
        "/memories/می\u200cخ/👩\u200d💻.md",
    ],
)
def test_the_uri_of_any_path_is_read(store: MemoryStore, path: str) -> None:
    store.create(path, "tea\r\n")

    async def read(client: Client) -> Any:
        (resource,) = await all_resources(client)
        return (await client.read_resource(resource.uri)).contents

    (content,) = result_of(connected(store), read)
    assert content.text == "tea\r\n"
    assert content.uri.isascii()


@pytest.mark.parametrize(
    "uri",
    [
        "memory://default/none",
        "memory://default/",
        "memory://default/../a",
        "memory://default/%2e%2e/a",
        "memory://default/%ff",
        "memory://default",
        "memory://other/a",
        "file:///etc/passwd",
        "",
    ],
)
def test_other_uris_are_not_found(store: MemoryStore, uri: str) -> None:
    store.create("/memories/a", "tea")
    error = error_of(connected(store), lambda client: client.read_resource(uri))
    assert (error.code, error.message, error.data) == (types.INVALID_PARAMS, "Resource not found", {"uri": uri})


@pytest.mark.parametrize(
    "cursor", ["", "x", "bnVsbA==", "WyJhIl0=", "WyJhIiwgMV0=", "WyJcdTAwMDAiLCAiIl0=", "WyJcdWQ4MDAiLCAiIl0="]
)
def test_an_invalid_cursor_is_an_error(store: MemoryStore, cursor: str) -> None:
    error = error_of(connected(store), lambda client: client.list_resources(cursor=cursor))
    assert error.message.startswith("Invalid cursor: the cursor must be the `nextCursor` of an")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A location that others can open too."""
    return f"sqlite:///{tmp_path}/memory.db"


def others_change(url: str) -> None:
    """Change memories through another opened location."""
    with retentive.open(url) as opened:
        opened.store().append("/memories/a", "more")
        opened.store().rename("/memories/b", "/memories/c")


def test_a_client_of_2026_hears_of_changes_of_others(url: str) -> None:
    """Each memory is one event, also under its earlier path. Memories that were not asked for are not named."""

    async def hear(client: Client) -> set[str]:
        heard, asked = set[str](), ["memory://default/a", "memory://default/b"]
        async with client.listen(resource_subscriptions=asked, resources_list_changed=True) as events:
            await asyncio.to_thread(others_change, url)
            async with asyncio.timeout(WAIT_S):
                while len(heard) < 3:
                    event = await anext(aiter(events))
                    heard.add(getattr(event, "uri", type(event).__name__))
        return heard

    with retentive.open(url) as opened:
        store = opened.store()
        for name in ("a", "b", "other"):
            store.create(f"/memories/{name}", "x")
        heard = result_of(connected(store), hear)
    assert heard == {"memory://default/a", "memory://default/b", "ResourcesListChanged"}


@pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning")
def test_a_client_of_2025_hears_of_changes_of_others(url: str) -> None:
    async def run(store: MemoryStore) -> list[str]:
        heard: asyncio.Queue[str] = asyncio.Queue()

        async def note(message: Any) -> None:
            if isinstance(message, types.ResourceUpdatedNotification):
                await heard.put(message.params.uri)

        async with connected(store, mode="legacy", message_handler=note) as client:
            await client.subscribe_resource("memory://default/a")
            await client.subscribe_resource("memory://default/b")
            await client.unsubscribe_resource("memory://default/a")
            await asyncio.to_thread(others_change, url)
            return [await asyncio.wait_for(heard.get(), WAIT_S)]

    with retentive.open(url) as opened:
        store = opened.store()
        for name in ("a", "b"):
            store.create(f"/memories/{name}", "x")
        assert asyncio.run(run(store)) == ["memory://default/b"]


def test_a_client_cannot_listen_to_another_store(store: MemoryStore) -> None:
    async def listen(client: Client) -> None:
        async with client.listen(resource_subscriptions=["memory://other/a"]):
            pass

    assert error_of(connected(store), listen).message == "Resource not found"
