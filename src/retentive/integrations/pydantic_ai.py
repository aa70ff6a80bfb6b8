"""The door for Pydantic AI: a capability that gives an agent the memory tool.

`Agent(model, capabilities=[MemoryCapability(store)])` sends Claude its own memory tool, and any other model a function
tool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from retentive.extras import pip_install

try:
    from pydantic_ai import RunContext, Tool, ToolFailed
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.native_tools import MemoryTool
    from pydantic_ai.tools import AgentDepsT, AgentNativeTool
    from pydantic_ai.toolsets import FunctionToolset
except ImportError as error:
    raise ImportError(f"the Pydantic AI door needs Pydantic AI: {pip_install('pydantic-ai')}") from error

from retentive import aio
from retentive.integrations.function_tool import DESCRIPTION, INPUT_SCHEMA, NAME, Executes
from retentive.storage.contract import Actor, as_actor

if TYPE_CHECKING:
    from retentive.mounts import MemoryTree

Who: TypeAlias = Actor | str | None


@dataclass
class MemoryCapability(AbstractCapability[AgentDepsT]):
    """The memory tool for `Agent(capabilities=[...])`.

    `memory` and `actor` may be functions of the `RunContext`, for an agent that serves several users. With
    `native=False` Claude too gets a function tool, as all other models do.
    """

    memory: Executes | Callable[[RunContext[AgentDepsT]], Executes]
    _: KW_ONLY
    actor: Who | Callable[[RunContext[AgentDepsT]], Who] = None
    native: bool = True

    def __post_init__(self) -> None:
        self._tool = memory_tool(self.memory, actor=self.actor)

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: a memory cannot be named in a file."""
        return None

    def get_toolset(self) -> FunctionToolset[AgentDepsT]:
        """The function tool that runs the commands."""
        return FunctionToolset([self._tool], id=self.id)

    def get_native_tools(self) -> Sequence[AgentNativeTool[AgentDepsT]]:
        """Claude's own definition, which takes the place of the function tool's where the model has it."""
        return [MemoryTool(optional=True)] if self.native else []


def memory_tool(
    memory: Executes | Callable[[RunContext[AgentDepsT]], Executes],
    *,
    actor: Who | Callable[[RunContext[AgentDepsT]], Who] = None,
) -> Tool[AgentDepsT]:
    """The function tool alone, for `Agent(tools=[...])`.

    An error reply goes back with its exact text and `is_error`, and uses up none of the tool's retries. Calls of one
    turn run in the order the model made them, each in a worker thread.
    """
    if not callable(actor):
        actor = as_actor(actor)  # what names nobody is refused here and not by the first call

    async def execute(context: RunContext[AgentDepsT], /, **command: Any) -> str:
        chosen = memory(context) if callable(memory) else memory
        who = actor(context) if callable(actor) else actor
        reply = await aio.execute(cast("MemoryTree", chosen), command, actor=who)  # calls `execute` alone
        if reply.is_error:
            raise ToolFailed(reply.text)
        return reply.text

    return Tool.from_schema(execute, NAME, DESCRIPTION, INPUT_SCHEMA, takes_ctx=True, sequential=True)
