"""Memory tool for LangChain and LangGraph. It works with `create_agent`, `ToolNode` and `bind_tools`.

`ChatAnthropic` sends the tool as Claude's built-in memory tool. Other chat models send it as a function tool.
"""

from __future__ import annotations

from typing import Any, Unpack

from retentive.values.extras import pip_install

try:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, ToolException
except ImportError as error:
    raise ImportError(f"memory_tool needs LangChain: {pip_install('langchain')}") from error
from pydantic import PrivateAttr

from retentive.integrations.calls import MemoryOfCall, ToolCalls, ToolOptions
from retentive.integrations.messages import TOOL
from retentive.integrations.schemas import MEMORY, MEMORY_DESCRIPTION, MEMORY_SCHEMA
from retentive.values.replies import Reply
from retentive.values.text import MAX_NAME_CHARS


def memory_tool(memory: MemoryOfCall, *, native: bool = True, **options: Unpack[ToolOptions]) -> BaseTool:
    """Create a LangChain memory tool for sync and async use. Async calls run in a worker thread. Thread-safe.

    `memory`, `store`, `actor`, `source` and `session` are as in `function_tool`. Each but `store` may be a function,
    for an agent that serves several users: it takes the run's config and returns the value for that run.

    With `native=False`, Claude gets the function tool instead of its built-in memory tool.

    An error reply becomes a `ToolMessage` with the status "error" and the exact text of the reply. Invalid input from
    a model never raises an exception. Invalid arguments of this function raise `InvalidInput`.
    """
    definition = {"provider_tool_definition": dict(TOOL)} if native else None
    calls = ToolCalls("langchain", memory, **options)
    return _MemoryTool(calls, extras=definition)


class _MemoryTool(BaseTool):
    _calls: ToolCalls = PrivateAttr()

    def __init__(self, calls: ToolCalls, *, extras: dict[str, Any] | None) -> None:
        super().__init__(
            name=MEMORY,
            description=MEMORY_DESCRIPTION,
            args_schema=MEMORY_SCHEMA,
            handle_tool_error=True,
            extras=extras,
        )
        self._calls = calls

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Pass the input as one argument, because its fields could clash with the arguments of `_run`."""
        return (tool_input,), {"tool_call_id": tool_call_id}

    def _run(self, command: object, config: RunnableConfig, tool_call_id: str | None = None) -> str:
        return _text(self._calls.reply(config, command, tool_call_id, _run_of(config)))

    async def _arun(self, command: object, config: RunnableConfig, tool_call_id: str | None = None) -> str:
        return _text(await self._calls.reply_async(config, command, tool_call_id, _run_of(config)))


def _run_of(config: RunnableConfig) -> str | None:
    """Return the thread and the task of a call in LangGraph. A task that runs again after a crash has the same ones."""
    found = config.get("metadata") or {}
    thread, task = found.get("thread_id"), found.get("langgraph_checkpoint_ns")
    return None if thread is None or task is None else f"{thread} {task}"[-MAX_NAME_CHARS:]


def _text(reply: Reply) -> str:
    if reply.is_error:
        raise ToolException(reply.text)
    return reply.text
