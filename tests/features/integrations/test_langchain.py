"""The LangChain integration in a real agent, with a scripted Claude behind `ChatAnthropic`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic, _client_utils
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import SecretStr

from retentive import TOOL, MemoryStore
from retentive.integrations.langchain import memory_tool
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

INSERT = {"command": "insert", "path": A, "insert_line": 0, "insert_text": "x"}
HELLO: Any = {"messages": [{"role": "user", "content": "Hello"}]}


@contextmanager
def chat(server: ScriptedClaude, *, streaming: bool = False) -> Iterator[ChatAnthropic]:
    """Chat model whose connections are closed after the test. LangChain would keep them until the process ends."""
    model = ChatAnthropic(  # type: ignore[call-arg]
        model_name=MODEL, base_url=server.url, api_key=SecretStr(KEY), max_retries=0, streaming=streaming
    )
    try:
        yield model
    finally:
        if "_client" in vars(model):
            model._client.close()
        _client_utils._get_default_httpx_client.cache_clear()
        _client_utils._get_default_async_httpx_client.cache_clear()


def invoke(
    server: ScriptedClaude, tool: BaseTool, config: RunnableConfig | None = None, *, streaming: bool = False
) -> list[Any]:
    """Run an agent and return its messages."""
    with chat(server, streaming=streaming) as model:
        messages: list[Any] = create_agent(model, [tool]).invoke(HELLO, config)["messages"]
        return messages


def ainvoke(server: ScriptedClaude, tool: BaseTool, config: RunnableConfig | None = None) -> list[Any]:
    """Async version of `invoke`."""

    async def talk(model: ChatAnthropic) -> list[Any]:
        try:
            result = await create_agent(model, [tool]).ainvoke(HELLO, config)
        finally:
            await model._async_client.close()
        return list(result["messages"])

    with chat(server) as model:
        return asyncio.run(talk(model))


def test_replies_equal_those_of_the_store(store: MemoryStore, twin: MemoryStore) -> None:
    """All six commands and all errors give the same bytes. The request contains Claude's built-in memory tool."""
    with scripted_claude(story(twin)) as server:
        messages = invoke(server, memory_tool(store, actor="session:s1"))
        assert server.failures == []
        assert messages[-1].content == "That is all."
        assert offered_tools(server) == [[TOOL]] * (len(STORY) + 1)
    answers = [message for message in messages if isinstance(message, ToolMessage)]
    assert [n for n, message in enumerate(answers) if message.status == "error"] == list(ERRORS)
    assert answers[19].content == "Error: Cannot delete the /memories directory itself"
    assert {str(version.actor) for version in store.versions()} == {"session:s1"}
    assert [version.path for version in store.versions()] == [version.path for version in twin.versions()]


@pytest.mark.parametrize("talk", [invoke, ainvoke])
def test_no_edit_of_one_turn_is_lost(store: MemoryStore, talk: Any) -> None:
    store.execute({"command": "create", "path": A, "file_text": ""})
    with scripted_claude(one_turn(*INSERTS)) as server:
        talk(server, memory_tool(store))
        assert server.failures == []
    assert sorted(store.read(A).splitlines()) == sorted(INSERTED)


def test_memory_and_actor_can_depend_on_the_run(open_place: OpenPlace) -> None:
    """One agent serves several users, each with a separate store."""
    place = open_place("sqlite://")
    tool = memory_tool(
        lambda config: place.store(config["configurable"]["user"]),
        actor=lambda config: f"user:{config['configurable']['user']}",
    )
    with scripted_claude(one_turn({"command": "create", "path": A, "file_text": "mine"})) as server:
        for user, talk in (("ann", invoke), ("ben", ainvoke)):
            talk(server, tool, {"configurable": {"user": user}})
        assert server.failures == []
    assert {info.key: info.memories for info in place.stores()} == {"ann": 1, "ben": 1}
    assert [str(version.actor) for version in place.store("ben").versions()] == ["user:ben"]


def test_other_models_get_a_function_tool(store: MemoryStore) -> None:
    function = convert_to_openai_tool(memory_tool(store))["function"]
    assert function == {"name": "memory", "description": DESCRIPTION, "parameters": INPUT_SCHEMA}


def test_in_a_thread_of_langgraph_a_task_that_runs_again_makes_its_change_once(store: MemoryStore) -> None:
    """The first run dies after the change. Two tasks may use the same id of a call, as many models do."""
    store.create(A, "")
    calls = [{"name": "memory", "args": INSERT, "id": "call_0"}]
    tools, is_dying = ToolNode([memory_tool(store, actor="session:s")]), [True]

    def run_tools(state: MessagesState, config: RunnableConfig) -> Any:
        done = tools.invoke(state, config)
        if is_dying.pop():
            raise KeyboardInterrupt
        return done

    graph = StateGraph(MessagesState)
    graph.add_node("tools", run_tools)
    graph.add_edge(START, "tools")
    app = graph.compile(checkpointer=InMemorySaver())
    thread: RunnableConfig = {"configurable": {"thread_id": "t1"}}
    with pytest.raises(KeyboardInterrupt):
        app.invoke({"messages": [AIMessage("", tool_calls=calls)]}, thread)
    is_dying[:] = [False, False]
    app.invoke(None, thread)
    assert store.read(A) == "x\n"
    app.invoke({"messages": [AIMessage("", tool_calls=calls)]}, thread)
    assert store.read(A) == "x\nx\n"
