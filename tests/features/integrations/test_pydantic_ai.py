"""The Pydantic AI integration in a real agent, with a scripted Claude behind `AnthropicModel`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.native_tools import AbstractNativeTool
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.run import AgentRunResult

from retentive import TOOL, MemoryStore
from retentive.integrations.pydantic_ai import MemoryCapability, memory_tool
from retentive.integrations.schemas import MEMORY_DESCRIPTION as DESCRIPTION
from retentive.integrations.schemas import MEMORY_SCHEMA as INPUT_SCHEMA
from retentive.testing.scripted_claude import ScriptedClaude, scripted_claude
from support.places import OpenPlace

from .conversations import (
    ERRORS,
    INSERTED,
    INSERTS,
    KEY,
    MODEL,
    STORY,
    A,
    offered_tools,
    one_turn,
    story,
)


def talk(server: ScriptedClaude, agent: Agent[Any, str], *, deps: object = None) -> AgentRunResult[str]:
    """Run an agent."""

    async def main() -> AgentRunResult[str]:
        async with AsyncAnthropic(base_url=server.url, api_key=KEY, max_retries=0) as client:
            model = AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client))
            return await agent.run("Hello", model=model, deps=deps)

    return asyncio.run(main())


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    return [part for request in requests for part in request.parts if isinstance(part, ToolReturnPart)]


def test_replies_equal_those_of_the_store(store: MemoryStore, twin: MemoryStore) -> None:
    """All commands and more errors than retries give the same bytes.

    The request contains Claude's built-in memory tool.
    """
    agent = Agent(capabilities=[MemoryCapability[None](store, actor="session:s1")])
    with scripted_claude(story(twin)) as server:
        result = talk(server, agent)
        assert server.failures == []
        assert result.output == "That is all."
        assert offered_tools(server) == [[TOOL]] * (len(STORY) + 1)
    assert [n for n, part in enumerate(returns(result.all_messages())) if part.outcome == "failed"] == list(ERRORS)
    assert {str(version.actor) for version in store.versions()} == {"session:s1"}
    assert [version.path for version in store.versions()] == [version.path for version in twin.versions()]


def test_the_calls_of_a_turn_run_in_order(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in a thread of its own, and the first ones take longest."""
    execute, pauses = MemoryStore.execute, iter((0.3, 0.1))

    def slowly(self: MemoryStore, command: object, **given: Any) -> Any:
        time.sleep(next(pauses, 0.0))
        return execute(self, command, **given)

    store.create(A, "")
    monkeypatch.setattr(MemoryStore, "execute", slowly)
    with scripted_claude(one_turn(*INSERTS)) as server:
        talk(server, Agent(capabilities=[MemoryCapability[None](store)]))
        assert server.failures == []
    assert store.read(A).splitlines() == INSERTED


def test_memory_and_actor_can_depend_on_the_run(open_place: OpenPlace) -> None:
    """One agent serves several users, each with a separate store."""
    place = open_place("sqlite://")
    capability = MemoryCapability[str](lambda context: place.store(context.deps), actor=lambda ctx: f"user:{ctx.deps}")
    agent = Agent(deps_type=str, capabilities=[capability])
    with scripted_claude(one_turn({"command": "create", "path": A, "file_text": "mine"})) as server:
        for user in ("ann", "ben"):
            talk(server, agent, deps=user)
        assert server.failures == []
    assert {info.key: info.memories for info in place.stores()} == {"ann": 1, "ben": 1}
    assert [str(version.actor) for version in place.store("ben").versions()] == ["user:ben"]


def test_claude_gets_a_function_tool_with_native_false(store: MemoryStore) -> None:
    """The tool is used with the capability and without it."""
    agents = (
        Agent(capabilities=[MemoryCapability[None](store, native=False)]),
        Agent(tools=[memory_tool(store)]),
    )
    with scripted_claude(one_turn({"command": "view", "path": "/memories"})) as server:
        for agent in agents:
            talk(server, agent)
        assert server.failures == []
        for (tool,) in offered_tools(server):
            assert (tool["name"], tool["description"]) == ("memory", DESCRIPTION)
            assert tool["input_schema"]["properties"].keys() == INPUT_SCHEMA["properties"].keys()


class OtherModel(FunctionModel):
    @classmethod
    def supported_native_tools(cls) -> frozenset[type[AbstractNativeTool]]:
        return frozenset()


def test_each_step_of_a_run_may_use_the_same_ids(store: MemoryStore) -> None:
    def play(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        number = sum(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse([ToolCallPart("memory", INSERTS[0], "call_0") if number < 2 else TextPart("Done.")])

    store.create(A, "")
    asyncio.run(Agent(OtherModel(play), capabilities=[MemoryCapability[None](store, actor="session:s")]).run("Hello"))
    assert store.read(A).splitlines() == ["line 0"] * 2


def test_other_models_get_a_function_tool(store: MemoryStore, twin: MemoryStore) -> None:
    """The model has no built-in memory tool. The function tool gives the same replies."""

    def play(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        (tool,) = info.function_tools
        assert (tool.name, tool.description, tool.parameters_json_schema) == ("memory", DESCRIPTION, INPUT_SCHEMA)
        assert info.model_request_parameters.native_tools == []
        number = sum(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse(
            [ToolCallPart("memory", STORY[number]) if number < len(STORY) else TextPart("That is all.")]
        )

    agent = Agent(OtherModel(play), capabilities=[MemoryCapability[None](store)])
    parts = returns(asyncio.run(agent.run("Hello")).all_messages())
    replies = [twin.execute(command) for command in STORY]
    assert [part.content for part in parts] == [reply.text for reply in replies]
    assert [part.outcome == "failed" for part in parts] == [reply.is_error for reply in replies]
