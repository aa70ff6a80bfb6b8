"""The Strands tools in agents with a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from typing import Any

import pytest
from strands import Agent
from strands.agent import NullConversationManager
from strands.models import Model

import retentive
from features.integrations.conversations import ERRORS, STORY, A
from retentive import MemoryStore
from retentive.integrations.schemas import MEMORY_DESCRIPTION as DESCRIPTION
from retentive.integrations.schemas import MEMORY_SCHEMA as INPUT_SCHEMA
from retentive.integrations.search_tool import search_tool as plain_search_tool
from retentive.integrations.strands import memory_tool, search_tool


class Scripted(Model):
    """Model that makes one call in each turn, and then says how many messages it was sent."""

    def __init__(self, name: str = "memory", calls: tuple[object, ...] = ()) -> None:
        self._name, self._calls = name, list(calls)

    def update_config(self, **model_config: Any) -> None:
        raise NotImplementedError

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> AsyncGenerator[dict[str, Any], None]:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterable[Any]:
        yield {"messageStart": {"role": "assistant"}}
        if self._calls:
            use = {"name": self._name, "toolUseId": f"toolu_strands_{len(messages):024}"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(self._calls.pop(0))}}}}
            reason = "tool_use"
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": f"{len(messages)} messages"}}}
            reason = "end_turn"
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": reason}}


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with retentive.open("sqlite://") as opened:
        yield opened.store()


def results(tool: Any, calls: tuple[object, ...], **state: Any) -> list[tuple[str, str]]:
    """Run an agent whose model makes one call in each turn; return the status and the text of each result."""
    whole = NullConversationManager()  # the default one drops old messages
    agent = Agent(
        model=Scripted(tool.tool_name, calls), tools=[tool], conversation_manager=whole, callback_handler=None
    )
    asyncio.run(agent.invoke_async("Hello", invocation_state=state))
    blocks = [block["toolResult"] for each in agent.messages for block in each["content"] if "toolResult" in block]
    return [(each["status"], each["content"][0]["text"]) for each in blocks]


def test_replies_equal_those_of_the_store(store: MemoryStore) -> None:
    """All commands and all errors give the same text. An error is a result with its status."""
    with retentive.open("sqlite://") as other:
        replies = [other.store().execute(command) for command in STORY]
    expected = [("error" if reply.is_error else "success", reply.text) for reply in replies]
    assert results(memory_tool(store, actor="session:s1", source="user", session="s1"), STORY) == expected
    assert [n for n, (status, _) in enumerate(expected) if status == "error"] == list(ERRORS)
    assert {str(version.actor) for version in store.versions()} == {"session:s1"}


def test_the_definition_is_that_of_the_function_tool(store: MemoryStore) -> None:
    spec = memory_tool(store).tool_spec
    assert (spec["name"], spec["description"], spec["inputSchema"]) == ("memory", DESCRIPTION, {"json": INPUT_SCHEMA})


def test_memory_and_actor_can_depend_on_the_invocation() -> None:
    with retentive.open("sqlite://") as opened:
        tool = memory_tool(lambda state: opened.store(state["user"]), actor=lambda state: f"user:{state['user']}")
        for user in ("ann", "ben"):
            results(tool, ({"command": "create", "path": A, "file_text": f"notes of {user}"},), user=user)
        assert [str(version.actor) for version in opened.store("ben").versions()] == ["user:ben"]
        find = search_tool(lambda state: opened.store(state["user"]))
        assert "notes of ann" in results(find, ({"query": "notes"},), user="ann")[0][1]


def test_the_search_tool_replies_as_its_function_tool(store: MemoryStore) -> None:
    store.write(A, "Refunds are paid weekly")
    requests: tuple[Any, ...] = ({"query": "refund"}, {"query": "none"}, {}, {"query": "x", "path": "/etc"})
    replies = [plain_search_tool(store).reply(each) for each in requests]
    expected = [("error" if reply.is_error else "success", reply.text) for reply in replies]
    assert results(search_tool(store), requests) == expected
