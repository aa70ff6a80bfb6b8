"""Memory tool for Pydantic AI, as a capability of an agent.

`Agent(model, capabilities=[MemoryCapability(store)])` gives Claude its built-in memory tool, and other models a
function tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Unpack

from retentive.values.extras import pip_install

try:
    from pydantic_ai import RunContext, Tool, ToolFailed
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.native_tools import MemoryTool
    from pydantic_ai.tools import AgentDepsT, AgentNativeTool
    from pydantic_ai.toolsets import FunctionToolset
except ImportError as error:
    raise ImportError(f"MemoryCapability needs Pydantic AI: {pip_install('pydantic-ai')}") from error

from retentive.integrations.calls import ActorOfCall, MemoryOfCall, NameOfCall, ToolCalls, ToolOptions
from retentive.integrations.schemas import MEMORY, MEMORY_DESCRIPTION, MEMORY_SCHEMA
from retentive.values.text import MAX_NAME_CHARS


@dataclass
class MemoryCapability(AbstractCapability[AgentDepsT]):
    """Memory tool for `Agent(capabilities=[...])`. Raises `InvalidInput`.

    `memory`, `store`, `actor`, `source` and `session` are as in `function_tool`. Each but `store` may be a function,
    for an agent that serves several users: it takes the `RunContext` and returns the value for that run.

    With `native=False`, Claude gets the function tool instead of its built-in memory tool.
    """

    memory: MemoryOfCall
    _: KW_ONLY
    store: str | None = None
    actor: ActorOfCall = None
    source: NameOfCall = None
    session: NameOfCall = None
    native: bool = True

    def __post_init__(self) -> None:
        self._tool = memory_tool(
            self.memory, store=self.store, actor=self.actor, source=self.source, session=self.session
        )

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None, because a file that specifies an agent cannot refer to an open memory store."""
        return None

    def get_toolset(self) -> FunctionToolset[AgentDepsT]:
        """Return the toolset with the function tool that runs the commands."""
        return FunctionToolset([self._tool], id=self.id)

    def get_native_tools(self) -> Sequence[AgentNativeTool[AgentDepsT]]:
        """Return Claude's built-in memory tool.

        For models that support the built-in tool, it replaces the function tool.
        """
        return [MemoryTool(optional=True)] if self.native else []


def memory_tool(memory: MemoryOfCall, **options: Unpack[ToolOptions]) -> Tool[AgentDepsT]:
    """Create only the function tool, for `Agent(tools=[...])`.

    An error reply is returned to the model with its exact text and `is_error`. It does not count as a retry of the
    tool. The calls of one turn run in order, each in a worker thread.
    """
    calls = ToolCalls("pydantic_ai", memory, **options)

    async def execute(context: RunContext[AgentDepsT], /, **command: Any) -> str:
        reply = await calls.reply_async(context, command, context.tool_call_id, _run_of(context))
        if reply.is_error:
            raise ToolFailed(reply.text)
        return reply.text

    return Tool.from_schema(execute, MEMORY, MEMORY_DESCRIPTION, MEMORY_SCHEMA, takes_ctx=True, sequential=True)


def _run_of(context: RunContext[Any]) -> str | None:
    """Return the run and the step of a call. A durable workflow gives a repeated step the same ones."""
    run_id = getattr(context, "run_id", None)
    return None if run_id is None else f"{run_id} {context.run_step}"[-MAX_NAME_CHARS:]
