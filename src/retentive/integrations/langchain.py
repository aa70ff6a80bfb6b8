"""The door for LangChain and LangGraph: one tool for `create_agent`, `ToolNode` and `bind_tools`.

With `ChatAnthropic` it goes out as Claude's own memory tool; with any other chat model as a function tool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from retentive.extras import pip_install

try:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, ToolException
except ImportError as error:
    raise ImportError(f"the LangChain door needs LangChain: {pip_install('langchain')}") from error
from pydantic import PrivateAttr

from retentive import aio
from retentive.integrations.function_tool import DESCRIPTION, INPUT_SCHEMA, NAME, Executes
from retentive.integrations.messages import TOOL
from retentive.storage.contract import Actor, as_actor
from retentive.values.replies import Reply

if TYPE_CHECKING:
    from retentive.mounts import MemoryTree

Who: TypeAlias = Actor | str | None


def memory_tool(
    memory: Executes | Callable[[RunnableConfig], Executes],
    *,
    actor: Who | Callable[[RunnableConfig], Who] = None,
    native: bool = True,
) -> BaseTool:
    """The memory tool as a LangChain tool, to be used sync or async.

    `memory` and `actor` may be functions of the run's config, for an agent that serves several users. An error reply
    becomes a `ToolMessage` with the status "error" and the exact text; nothing is raised for what a model sent.
    With `native=False` Claude too gets it as a function tool. Threads may share it; async callers get a worker thread.
    """
    if not callable(actor):
        actor = as_actor(actor)  # what names nobody is refused here and not by the first call
    definition = {"provider_tool_definition": dict(TOOL)} if native else None
    return _MemoryTool(memory, actor, extras=definition)


class _MemoryTool(BaseTool):
    _memory: Executes | Callable[[RunnableConfig], Executes] = PrivateAttr()
    _actor: Who | Callable[[RunnableConfig], Who] = PrivateAttr()

    def __init__(
        self,
        memory: Executes | Callable[[RunnableConfig], Executes],
        actor: Who | Callable[[RunnableConfig], Who],
        *,
        extras: dict[str, Any] | None,
    ) -> None:
        super().__init__(
            name=NAME, description=DESCRIPTION, args_schema=INPUT_SCHEMA, handle_tool_error=True, extras=extras
        )
        self._memory, self._actor = memory, actor

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The input as one argument: as keywords, fields of a model's own invention would meet those of `_run`."""
        return (tool_input,), {}

    def _run(self, command: object, config: RunnableConfig) -> str:
        memory, actor = self._chosen(config)
        return _text(memory.execute(command, actor=actor))

    async def _arun(self, command: object, config: RunnableConfig) -> str:
        memory, actor = self._chosen(config)
        return _text(await aio.execute(cast("MemoryTree", memory), command, actor=actor))  # calls `execute` alone

    def _chosen(self, config: RunnableConfig) -> tuple[Executes, Who]:
        memory = self._memory(config) if callable(self._memory) else self._memory
        return memory, self._actor(config) if callable(self._actor) else self._actor


def _text(reply: Reply) -> str:
    if reply.is_error:
        raise ToolException(reply.text)
    return reply.text
