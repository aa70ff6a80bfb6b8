"""Tools for Strands Agents: `memory_tool` and `search_tool`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack, cast

from retentive.values.extras import pip_install

try:
    from strands.tools import PythonAgentTool
except ImportError as error:
    raise ImportError(f"this module needs Strands Agents: {pip_install('strands')}") from error

from retentive.integrations.calls import ActorOfCall, MemoryOfCall, ToolCalls, ToolOptions
from retentive.integrations.schemas import (
    MEMORY,
    MEMORY_DESCRIPTION,
    MEMORY_SCHEMA,
    SEARCH,
    SEARCH_DESCRIPTION,
    SEARCH_SCHEMA,
)
from retentive.values.replies import Reply

if TYPE_CHECKING:
    from strands.types.tools import ToolFunc, ToolResult, ToolUse


def memory_tool(memory: MemoryOfCall, **options: Unpack[ToolOptions]) -> PythonAgentTool:
    """Create the memory tool, for `Agent(tools=[...])`. Each call runs in a worker thread. Raises `InvalidInput`.

    `memory`, `store`, `actor`, `source` and `session` are as in `function_tool`. Each but `store` may be a function,
    for an agent that serves several users: it takes the invocation state (a dict) and returns the value for that run.

    An error reply is a result with the status "error".
    """
    calls = ToolCalls("strands", memory, **options)
    return _tool(
        MEMORY,
        MEMORY_DESCRIPTION,
        MEMORY_SCHEMA,
        lambda use, state: calls.reply_async(state, use["input"], use["toolUseId"]),
    )


def search_tool(memory: MemoryOfCall, *, store: str | None = None, actor: ActorOfCall = None) -> PythonAgentTool:
    """Create the tool `memory_search`. `memory`, `store` and `actor` are as in `memory_tool`. Raises `InvalidInput`."""
    calls = ToolCalls("strands", memory, store=store, actor=actor)
    return _tool(SEARCH, SEARCH_DESCRIPTION, SEARCH_SCHEMA, lambda use, state: calls.found(state, use["input"]))


def _tool(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    reply_to: Callable[[ToolUse, dict[str, Any]], Awaitable[Reply]],
) -> PythonAgentTool:
    async def run(tool_use: ToolUse, /, **invocation_state: Any) -> ToolResult:
        reply = await reply_to(tool_use, invocation_state)
        status = "error" if reply.is_error else "success"
        result = {"toolUseId": tool_use["toolUseId"], "status": status, "content": [{"text": reply.text}]}
        return cast("ToolResult", result)

    spec = {"name": name, "description": description, "inputSchema": {"json": dict(schema)}}
    return PythonAgentTool(name, cast("Any", spec), cast("ToolFunc", run))
