"""Memory tool for LangChain and LangGraph, for `create_agent`, `ToolNode` and `bind_tools`.

`ChatAnthropic` sends the tool as Claude's built-in memory tool; other chat models send it as a function tool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from retentive.values.extras import pip_install

try:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, ToolException
except ImportError as error:
    raise ImportError(f"memory_tool needs LangChain: {pip_install('langchain')}") from error
from pydantic import PrivateAttr

from retentive import aio
from retentive.integrations.function_tool import DESCRIPTION, INPUT_SCHEMA, NAME
from retentive.integrations.memory import Place, SupportsExecute, id_option, memory_of_run
from retentive.integrations.messages import TOOL
from retentive.integrations.named import named
from retentive.storage.contract import Actor, as_actor
from retentive.values.replies import Reply

if TYPE_CHECKING:
    from retentive.mounts import MemoryTree

ActorLike: TypeAlias = Actor | str | None
MemoryOfRun: TypeAlias = SupportsExecute | Callable[[RunnableConfig], SupportsExecute]
ActorOfRun: TypeAlias = ActorLike | Callable[[RunnableConfig], ActorLike]


def memory_tool(
    memory: Place | MemoryOfRun, *, store: str | None = None, actor: ActorOfRun = None, native: bool = True
) -> BaseTool:
    """Create a LangChain memory tool for sync and async use. Async calls run in a worker thread. Thread-safe.

    `memory` may be a location, opened or not, with `store` as the key or id of a memory store. For an agent that serves
    several users, pass functions of the run's config as `memory` and `actor`. Raises `InvalidInput`. An error reply
    becomes a `ToolMessage` with the status "error" and the exact text; invalid input from a model never raises.
    With `native=False` Claude also gets a function tool.
    """
    if not callable(actor):
        actor = as_actor(actor)  # an invalid actor raises here, not in the first call
    definition = {"provider_tool_definition": dict(TOOL)} if native else None
    return _MemoryTool(memory_of_run(memory, store), actor, extras=definition)


class _MemoryTool(BaseTool):
    _memory: MemoryOfRun = PrivateAttr()
    _actor: ActorOfRun = PrivateAttr()

    def __init__(self, memory: MemoryOfRun, actor: ActorOfRun, *, extras: dict[str, Any] | None) -> None:
        super().__init__(
            name=NAME, description=DESCRIPTION, args_schema=INPUT_SCHEMA, handle_tool_error=True, extras=extras
        )
        self._memory, self._actor = memory, actor

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Pass the input as one argument. As keyword arguments, unknown fields could clash with those of `_run`."""
        return (tool_input, tool_call_id), {}

    def _run(self, command: object, tool_call_id: str | None, config: RunnableConfig) -> str:
        memory, actor = self._resolve(config)
        return _text(memory.execute(command, actor=actor, **id_option(memory, tool_call_id)))

    async def _arun(self, command: object, tool_call_id: str | None, config: RunnableConfig) -> str:
        memory, actor = self._resolve(config)
        options = id_option(memory, tool_call_id)
        return _text(await aio.execute(cast("MemoryTree", memory), command, actor=actor, **options))  # only `execute`

    def _resolve(self, config: RunnableConfig) -> tuple[SupportsExecute, ActorLike]:
        memory = self._memory(config) if callable(self._memory) else self._memory
        return named(memory, "langchain"), self._actor(config) if callable(self._actor) else self._actor


def _text(reply: Reply) -> str:
    if reply.is_error:
        raise ToolException(reply.text)
    return reply.text
