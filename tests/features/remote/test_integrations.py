"""The integrations take the URL of a server, or a store on one."""

from __future__ import annotations

import asyncio

import pytest
from agents import TResponseInputItem
from anthropic import Anthropic, AsyncAnthropic
from langgraph.store.base import PutOp

import retentive
from retentive import AsyncMemoryTool, MemorySearchTool, MemoryStore, MemoryTool, errors
from retentive.integrations.langgraph import LangGraphStore
from retentive.integrations.openai_agents import MemorySession
from retentive.testing.scripted_claude import scripted_claude
from support.http_api import Api
from support.scripts import SCRIPTS

A = "/memories/a.md"
VIEW = {"command": "view", "path": "/memories"}


def test_a_url_opens_a_store_for_the_sync_and_the_async_tool(api: Api, store: MemoryStore) -> None:
    tool = MemoryTool(api.url, store=store.id, api_key=api.key)
    tool.call({"command": "create", "path": A, "file_text": "one"})
    assert (tool.store.id, store.read(A)) == (store.id, "one")
    with pytest.raises(AttributeError, match="plain files"):
        _ = tool.base_path
    tool.clear_all_memory()
    tool.close()
    other = AsyncMemoryTool(api.url, store=store.id, api_key=api.key)
    assert asyncio.run(other.call(VIEW)) == store.execute(VIEW).text
    other.close()


def test_options_of_a_local_place_are_refused(api: Api) -> None:
    with pytest.raises(errors.InvalidInput, match="`view_chars` has no effect on a server"):
        MemoryTool(api.url, api_key=api.key, view_chars=100)
    with pytest.raises(errors.InvalidInput, match="`api_key` can only be used with the URL of a server"):
        MemoryTool("sqlite://", api_key="k")


def test_other_tools_and_malformed_calls(store: MemoryStore) -> None:
    block = {"type": "tool_use", "id": "t", "name": "bash", "input": {}}
    assert retentive.tool_result(store, block)["is_error"] is True
    with pytest.raises(errors.InvalidInput, match="with an id"):
        retentive.tool_result(store, {"type": "tool_use"})
    with pytest.raises(Exception, match="query"):
        MemorySearchTool(store).call({})


@pytest.mark.parametrize("kind", [Anthropic, AsyncAnthropic], ids=["sync", "async"])
def test_the_tool_runner_of_the_sdk(api: Api, store: MemoryStore, kind: type[Anthropic] | type[AsyncAnthropic]) -> None:
    messages = [{"role": "user", "content": "Please remember: Ada prefers e-mail and pays in euros."}]
    given = {"model": "claude-sonnet-5-5", "max_tokens": 2048, "messages": messages}
    with scripted_claude(*SCRIPTS) as claude:
        if kind is Anthropic:
            client = Anthropic(base_url=claude.url, api_key="none")
            client.beta.messages.tool_runner(**given, tools=[MemoryTool(store)]).until_done()  # type: ignore[call-overload]
            client.close()
        else:

            async def run() -> None:
                async with AsyncAnthropic(base_url=claude.url, api_key="none") as client:
                    await client.beta.messages.tool_runner(**given, tools=[AsyncMemoryTool(store)]).until_done()  # type: ignore[call-overload]

            asyncio.run(run())
    assert "Ada" in "".join(store.read(each.path) for each in store.memories())


def test_the_store_of_langgraph(store: MemoryStore, local: MemoryStore) -> None:
    """Writes of a batch are one change; searches, listings and deletions read the server."""
    ours = LangGraphStore(store)
    ours.batch([PutOp(("docs",), str(n), {"text": f"refund\n{n}", "n": n}) for n in range(100)])
    ours.batch([PutOp(("docs",), "7", None), PutOp(("docs",), "none", None), PutOp(("other", "x"), "k", {})])
    assert len({version.revision for version in local.versions()}) == 2
    assert len(ours.search(("docs",), query="refunds", limit=200)) == 99
    assert [item.key for item in ours.search((), filter={"n": {"$lt": 9}}, offset=7)] == ["8"]
    assert ours.get(("docs",), "7") is None
    assert ours.list_namespaces() == [("docs",), ("other", "x")]


def test_the_session_of_openai_agents(store: MemoryStore, local: MemoryStore) -> None:
    """Objects on the server and beside it share a session, also after a conflict."""

    async def main() -> tuple[list[TResponseInputItem | None], list[TResponseInputItem]]:
        there, here = MemorySession("s", store), MemorySession("s", local)
        for n in range(3):
            await asyncio.gather(*(each.add_items([{"role": "user", "content": str(n)}]) for each in (there, here)))
        popped = [await there.pop_item(), await here.pop_item()]
        return popped, await there.get_items()

    popped, left = asyncio.run(main())
    assert popped == [{"role": "user", "content": "2"}] * 2
    assert left == [{"role": "user", "content": str(n)} for n in (0, 0, 1, 1)]
