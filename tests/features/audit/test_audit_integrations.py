"""Each call of an integration has one entry, in the log of its memory store. The entry names the integration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from langchain_core.tools import BaseTool
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.function import AgentInfo, FunctionModel

import retentive
from retentive import AsyncMemoryTool, MemoryStore, MemoryTool, Mounts, Reply, tool_result
from retentive.agent import function_tool
from retentive.agent.tools import Tools
from retentive.integrations import langchain, pydantic_ai
from retentive.integrations.anthropic import AsyncMemorySearchTool, MemorySearchTool
from retentive.integrations.search_tool import search_tool
from retentive.storage.contract import Actor

Memory = MemoryStore | Mounts
Call = Callable[[Memory, dict[str, Any]], object]
SESSION = Actor("session", "s")
VIEW = {"command": "view", "path": "/memories/team/a"}
QUERY = {"query": "words", "path": "/memories/team"}


def langchain_tool(memory: Memory) -> BaseTool:
    return langchain.memory_tool(memory, actor=SESSION)


def call_of(given: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t", "name": "memory", "input": given}


CALLS: dict[str, tuple[str, Call]] = {
    "tool_result": (
        "messages",
        lambda memory, given: tool_result(memory, call_of(given), actor=SESSION),
    ),
    "MemoryTool": ("anthropic", lambda memory, given: MemoryTool(memory, actor=SESSION).call(given)),
    "function_tool": ("function_tool", lambda memory, given: function_tool(memory, actor=SESSION).reply(given)),
    "LangChain": ("langchain", lambda memory, given: langchain_tool(memory).invoke(given)),
    "Agent": ("agent", lambda memory, given: Tools(memory, SESSION).run(call_of(given))),
}
ASYNC_CALLS: dict[str, tuple[str, Callable[[Memory, dict[str, Any]], Awaitable[object]]]] = {
    "AsyncMemoryTool": ("anthropic", lambda memory, given: AsyncMemoryTool(memory, actor=SESSION).call(given)),
    "LangChain": ("langchain", lambda memory, given: langchain_tool(memory).ainvoke(given)),
    "AsyncAgent": ("agent", lambda memory, given: Tools(memory, SESSION).run_async(call_of(given))),
}


@pytest.fixture
def stores() -> Iterator[tuple[MemoryStore, MemoryStore]]:
    with retentive.open("sqlite://", audit=True) as place:
        root, team = place.store("root"), place.store("team")
        yield root, team


COMMANDS: tuple[tuple[dict[str, Any], str], ...] = (
    (VIEW, "not_found"),
    ({"command": "create", "path": "/memories/team/a", "file_text": "words"}, "ok"),
    (VIEW, "ok"),
)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_one_entry(name: str, stores: tuple[MemoryStore, MemoryStore]) -> None:
    integration, call = CALLS[name]
    root, team = stores
    tree = Mounts({"/memories": root, "/memories/team": team})
    for given, _ in COMMANDS:
        try:
            call(tree, given)
        except ToolError:
            assert given is VIEW
    found = [(entry.operation, entry.outcome, entry.integration, entry.actor) for entry in team.audit.entries()]
    assert found == [(given["command"], outcome, integration, "session:s") for given, outcome in COMMANDS]
    assert list(root.audit.entries()) == []


MALFORMED: tuple[tuple[Any, str | None, str], ...] = (
    ({"command": "nothing"}, None, "invalid_input"),
    ({}, None, "invalid_input"),
    ({"command": "view"}, "view", "invalid_input"),
    ({"command": "view", "path": "/elsewhere"}, "view", "invalid_path"),
    ({"command": "create", "path": 1, "file_text": "x"}, "create", "invalid_input"),
)


def test_a_memory_of_another_class_gets_the_same_replies() -> None:
    """Such a memory has only `execute`, and no audit log."""

    class Bare:
        def execute(self, command: object, *, actor: object = None, tool_use_id: str | None = None) -> Reply:
            raise AssertionError(command)

    block = {"type": "tool_use", "id": "t", "name": "search", "input": {}}
    with retentive.open("sqlite://") as place:
        assert tool_result(Bare(), block) == tool_result(place.store(), block)  # type: ignore[arg-type] # less than it needs


@pytest.mark.anyio
@pytest.mark.parametrize("name", ASYNC_CALLS)
async def test_an_async_call_has_one_entry(name: str, stores: tuple[MemoryStore, MemoryStore]) -> None:
    integration, call = ASYNC_CALLS[name]
    store, _ = stores
    await call(store, {"command": "create", "path": "/memories/a", "file_text": ""})
    (entry,) = store.audit.entries()
    assert (entry.operation, entry.integration, entry.actor) == ("create", integration, "session:s")


@pytest.mark.anyio
async def test_a_search_has_one_entry(stores: tuple[MemoryStore, MemoryStore]) -> None:
    root, team = stores
    tree = Mounts({"/memories": root, "/memories/team": team})
    search_tool(tree).reply(QUERY)
    MemorySearchTool(tree).call(QUERY)
    await AsyncMemorySearchTool(tree).call(QUERY)
    found = [(entry.operation, entry.integration, entry.paths) for entry in team.audit.entries()]
    assert found == [("search", name, ("/memories",)) for name in ("search_tool", "anthropic", "anthropic")]
    assert list(root.audit.entries()) == []


@pytest.mark.anyio
async def test_pydantic_ai_has_one_entry_a_call(stores: tuple[MemoryStore, MemoryStore]) -> None:
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart

    store, _ = stores

    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("memory", {"command": "create", "path": "/memories/a", "file_text": ""})])

    agent = PydanticAgent(FunctionModel(model), tools=[pydantic_ai.memory_tool(store, actor=SESSION)])
    await agent.run("go")
    (entry,) = store.audit.entries()
    assert (entry.operation, entry.integration, entry.actor) == ("create", "pydantic_ai", "session:s")
