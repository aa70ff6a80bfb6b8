"""The tools for the OpenAI Agents SDK, in its runner with its scripted model."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from agents import Agent, FunctionTool, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message, function_call

from retentive import MemoryStore
from retentive.integrations.openai_agents import memory_tool, search_tool
from retentive.integrations.schemas import MEMORY_DESCRIPTION as DESCRIPTION
from retentive.integrations.schemas import MEMORY_SCHEMA as INPUT_SCHEMA
from retentive.integrations.search_tool import search_tool as plain_search_tool
from support.places import OpenPlace

from .conversations import ERRORS, STORY, A

QUIET = RunConfig(tracing_disabled=True)


def outputs(tool: FunctionTool, calls: list[Any], context: object = None) -> list[str]:
    """Run an agent whose model makes one call in each turn; return the results of the calls."""
    turns = [[function_call(tool.name, each, call_id=f"call_{n}")] for n, each in enumerate(calls)]
    model = ScriptedModel([*turns, [assistant_message("Done.")]])
    agent = Agent[Any](name="a", model=model, tools=[tool])
    result = asyncio.run(Runner.run(agent, "Hello", context=context, run_config=QUIET, max_turns=len(turns) + 1))
    model.assert_complete()
    given = [cast("dict[str, Any]", each) for each in result.to_input_list()]
    return [each["output"] for each in given if each.get("type") == "function_call_output"]


def test_replies_equal_those_of_the_store(store: MemoryStore, twin: MemoryStore) -> None:
    """All commands and all errors give the same text; the agent goes on after errors."""
    tool = memory_tool(store, actor="session:s1", source="user", session="s1")
    assert outputs(tool, list(STORY)) == [twin.execute(command).text for command in STORY]
    assert len(ERRORS) > 10
    assert {str(version.actor) for version in store.versions()} == {"session:s1"}
    assert [version.path for version in store.versions()] == [version.path for version in twin.versions()]


def test_the_definition_is_that_of_the_function_tool(store: MemoryStore) -> None:
    tool = memory_tool(store)
    assert (tool.name, tool.description, tool.params_json_schema) == ("memory", DESCRIPTION, INPUT_SCHEMA)
    assert not tool.strict_json_schema


def test_a_call_under_an_id_that_was_used_before_makes_its_change(store: MemoryStore) -> None:
    """Each run here uses the same call ids, as models do that number the calls of each run."""
    store.create(A, "")
    insert = {"command": "insert", "path": A, "insert_line": 0, "insert_text": "one"}
    assert outputs(memory_tool(store), [insert]) == outputs(memory_tool(store), [insert])
    assert store.read(A) == "one\none\n"


def test_memory_and_actor_can_depend_on_the_run(open_place: OpenPlace) -> None:
    place = open_place("sqlite://")
    tool = memory_tool(lambda run: place.store(run.context), actor=lambda run: f"user:{run.context}")
    find = search_tool(lambda run: place.store(run.context))
    for user in ("ann", "ben"):
        outputs(tool, [{"command": "create", "path": A, "file_text": f"notes of {user}"}], context=user)
    assert [str(version.actor) for version in place.store("ben").versions()] == ["user:ben"]
    assert "notes of ann" in outputs(find, [{"query": "notes"}], context="ann")[0]


def test_the_search_tool_replies_as_its_function_tool(store: MemoryStore) -> None:
    store.write(A, "Refunds are paid weekly")
    find = plain_search_tool(store)
    requests: list[Any] = [{"query": "refund"}, {"query": "none of it"}, {}, {"query": "x", "path": "/etc"}]
    assert outputs(search_tool(store), requests) == [find.reply(each).text for each in requests]


@pytest.mark.parametrize("arguments", ["", "[]", "5", '{"command": "view"'])
def test_malformed_arguments_get_an_error_reply(store: MemoryStore, arguments: str) -> None:
    (output,) = outputs(memory_tool(store), [arguments])
    assert "Error" in output
    assert store.versions() == []
