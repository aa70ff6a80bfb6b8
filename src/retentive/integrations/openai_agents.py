"""Tools for the OpenAI Agents SDK: `memory_tool` and `search_tool`."""

from __future__ import annotations

from typing import Any, Unpack

from retentive.values.extras import pip_install

try:
    from agents import FunctionTool
    from agents.tool_context import ToolContext
except ImportError as error:
    raise ImportError(f"this module needs the OpenAI Agents SDK: {pip_install('openai-agents')}") from error

from retentive.integrations.calls import ActorOfCall, MemoryOfCall, ToolCalls, ToolOptions
from retentive.integrations.schemas import (
    MEMORY,
    MEMORY_DESCRIPTION,
    MEMORY_SCHEMA,
    SEARCH,
    SEARCH_DESCRIPTION,
    SEARCH_SCHEMA,
)


def memory_tool(memory: MemoryOfCall, **options: Unpack[ToolOptions]) -> FunctionTool:
    """Create the memory tool, for `Agent(tools=[...])`. Each call runs in a worker thread. Raises `InvalidInput`.

    `memory`, `store`, `actor`, `source` and `session` are as in `function_tool`. Each but `store` may be a function,
    for an agent that serves several users: it takes the `ToolContext` and returns the value for that run.

    The model gets error replies as text.
    """
    calls = ToolCalls("openai_agents", memory, **options)

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        return (await calls.reply_async(context, arguments, context.tool_call_id)).text

    return FunctionTool(MEMORY, MEMORY_DESCRIPTION, MEMORY_SCHEMA, invoke, strict_json_schema=False)


def search_tool(memory: MemoryOfCall, *, store: str | None = None, actor: ActorOfCall = None) -> FunctionTool:
    """Create the tool `memory_search`. `memory`, `store` and `actor` are as in `memory_tool`. Raises `InvalidInput`."""
    calls = ToolCalls("openai_agents", memory, store=store, actor=actor)

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        return (await calls.found(context, arguments)).text

    return FunctionTool(SEARCH, SEARCH_DESCRIPTION, SEARCH_SCHEMA, invoke, strict_json_schema=False)
