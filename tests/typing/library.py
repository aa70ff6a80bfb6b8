"""Types that users of the public names see. mypy and pyright (basic) check this file; it is never run."""

from __future__ import annotations

from typing import Any, assert_type

from anthropic import Anthropic, AsyncAnthropic

import retentive
from retentive import (
    TOOL,
    AsyncMemorySearchTool,
    AsyncMemoryStore,
    AsyncMemoryTool,
    AsyncMounts,
    AsyncRetentive,
    Memory,
    MemorySearchTool,
    MemoryStore,
    MemoryTool,
    Mounts,
    Reply,
    Retentive,
    StoreInfo,
    Usage,
    Version,
    Written,
)
from retentive.agent import Agent, AsyncAgent, FunctionTool, function_tool, run_tools
from retentive.history.history import History
from retentive.history.plan import RestoreOutcome
from retentive.integrations import langchain, openai_agents, pydantic_ai, search_tool
from retentive.integrations.deepagents import MemoryBackend
from retentive.integrations.langgraph import LangGraphStore
from retentive.search.results import Hit, Results

PATH = "/memories/a.md"


def locations() -> None:
    with retentive.open("./memory", view_chars=4_000, actor="user:ann") as opened:
        assert_type(opened, Retentive)
        assert_type(opened.store(), MemoryStore)
        assert_type(opened.store("user-42", name="Ada"), MemoryStore)
        assert_type(opened.stores(), list[StoreInfo])


def writing(store: MemoryStore | Mounts) -> None:
    assert_type(store.create(PATH, "text", actor="user:ann", source="user", session="s1"), Written)
    assert_type(store.write(PATH, "text", if_version=None), Written)
    assert_type(store.append(PATH, "text"), Written)
    assert_type(store.edit(PATH, "old", "new"), Written)
    assert_type(store.insert(PATH, 0, "text"), Written)
    assert_type(store.delete(PATH), Written)
    assert_type(store.rename(PATH, "/memories/b.md"), Written)
    assert_type(store.write(PATH, "text").version_id, str)
    assert_type(store.execute({"command": "view", "path": PATH}).raise_for_error(), Reply)


def reading(store: MemoryStore | Mounts) -> None:
    assert_type(store.read(PATH), str)
    assert_type(store.view(PATH, view_range=(1, 2)), str)
    assert_type(store.load(PATH), tuple[Memory, str])
    assert_type(store.memories(), list[Memory])
    found = store.search("words")
    assert_type(found, Results)
    assert_type(found[0], Hit)
    assert_type([hit.path for hit in found[:2]], list[str])


def history(store: MemoryStore) -> None:
    assert_type(store.versions(PATH, limit=1), list[Version])
    assert_type(store.usage(), Usage)
    assert_type(store.undo("memver_1"), RestoreOutcome)
    assert_type(store.undo_by("session:*", mode="merge"), RestoreOutcome)
    assert_type(store.history, History)


async def awaiting() -> None:
    async with retentive.open_async("./memory", view_chars=4_000, actor="user:ann") as opened:
        assert_type(opened, AsyncRetentive)
        store = await opened.store("user-42", name="Ada")
        assert_type(store, AsyncMemoryStore)
        assert_type(await opened.stores(), list[StoreInfo])
    assert_type(await store.create(PATH, "text", actor="user:ann", source="user"), Written)
    assert_type(await store.write(PATH, "text", if_version="memver_1"), Written)
    assert_type(await store.read(PATH), str)
    assert_type(await store.load(PATH), tuple[Memory, str])
    assert_type(await store.versions(PATH, limit=1), list[Version])
    assert_type(await store.execute({"command": "view", "path": PATH}, actor="user:ann"), Reply)
    assert_type(await store.call(lambda sync: sync.history.log()), list[Version])
    await store.create(PATH)  # type: ignore[call-arg]
    await store.create(PATH, 1)  # type: ignore[arg-type]


BLOCK = {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": {"command": "view", "path": "/memories"}}


def tools(store: MemoryStore, mounts: Mounts, opened: Retentive) -> None:
    for memory in (store, mounts):
        assert_type(retentive.tool_result(memory, BLOCK, actor="session:s1", session="s1"), dict[str, Any])
        runner = Anthropic().beta.messages.tool_runner(
            model="m", max_tokens=1, messages=[], tools=[MemoryTool(memory), MemorySearchTool(memory)]
        )
        assert_type(runner.until_done().stop_reason is None, bool)
        assert_type(function_tool(memory, actor="session:s1"), FunctionTool)
        run_tools([], memory)
        Agent(memory=memory)
        openai_agents.memory_tool(memory)
        openai_agents.search_tool(memory)
        langchain.memory_tool(memory)
        pydantic_ai.memory_tool(memory)
        pydantic_ai.MemoryCapability(memory)
        search_tool.search_tool(memory)
    MemoryTool("./memory", actor="session:1")
    MemoryTool(base_path="./memory", view_chars=4_000)
    MemoryTool(store=store)
    retentive.tool_result(opened, BLOCK, store="user-42")
    LangGraphStore(store).put(("a",), "/k.md", {})
    MemoryBackend(store)
    Anthropic().beta.messages.create(model="m", max_tokens=1, messages=[], tools=[TOOL])


def async_tools(store: AsyncMemoryStore, mounts: AsyncMounts) -> None:
    for memory in (store, mounts):
        AsyncAnthropic().beta.messages.tool_runner(
            model="m", max_tokens=1, messages=[], tools=[AsyncMemoryTool(memory), AsyncMemorySearchTool(memory)]
        )
        retentive.tool_result(memory, BLOCK)
        AsyncAgent(memory=memory)
        function_tool(memory)


def own_names() -> None:
    """A name that the package does not have is an error."""
    retentive.MemroyTool  # type: ignore[attr-defined]  # noqa: B018
    from retentive import MemroyTool  # type: ignore[attr-defined]  # noqa: F401
    from retentive.agent import Agnet  # type: ignore[attr-defined]  # noqa: F401


def wrong(store: MemoryStore) -> None:
    store.create(PATH)  # type: ignore[call-arg]
    store.write(PATH, b"bytes")  # type: ignore[arg-type]
    store.versions(PATH, 1)  # type: ignore[arg-type, call-arg]
    retentive.open("./memory", view_charz=1)  # type: ignore[call-arg]
