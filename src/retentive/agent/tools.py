"""Tool calls of an agent: commands of the memory tool, and calls of the application's own tools.

A memory command runs under the id of its tool call. If it runs again, for example after a crash, it changes the memory
only once. The application's tools do not get the id of the call, so they must tolerate a repeated call themselves.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from retentive import aio
from retentive.agent.conversation import (
    MessageDict,
    add_result,
    newest_response,
    replace_surrogates,
    tool_result,
    unanswered_calls,
)
from retentive.agent.request import tool_list
from retentive.integrations.memory import MemoryLocation, open_memory
from retentive.integrations.messages import TOOL, render
from retentive.mounts import MemoryTree
from retentive.storage.contract import Actor, as_actor
from retentive.values.provenance import Origin, origin_of
from retentive.values.text import MAX_NAME_CHARS, plain_name

_LOG = logging.getLogger("retentive.agent")


class Tools:
    """Runs the tool calls of one agent: commands of its memory, and calls of the application's tools.

    `tools` must be the result of `tool_list`. `definitions` are the entries for the `tools` list of a request.
    Thread-safe if the application's tools are thread-safe.
    """

    def __init__(
        self,
        memory: MemoryTree,
        actor: Actor | None,
        tools: Sequence[Any] = (),
        *,
        run: str | None = None,
        **origin: Unpack[Origin],
    ) -> None:
        self._memory = memory.through("agent")
        self._actor = actor
        self._origin = origin
        self._run = run
        self._by_name = {tool.name: tool for tool in tools if not isinstance(tool, Mapping)}
        self.definitions = [{**TOOL}, *(tool if isinstance(tool, Mapping) else tool.to_dict() for tool in tools)]

    def run(self, call: MessageDict, turn: int = 0) -> MessageDict:
        """Run a tool call and return its tool_result block. An exception that a tool raises becomes an error result.

        `turn` is the position of the response in the conversation. Models may use the same ids in each turn.
        """
        tool = self._by_name.get(call["name"])
        if tool is None:
            return self._of_memory(call, turn)
        try:
            return tool_result(call["id"], tool.call(call["input"]))
        except Exception as error:
            return _failure(call, error)

    async def run_async(self, call: MessageDict, turn: int = 0) -> MessageDict:
        """Async version of `run`. Memory commands and sync tools run in a worker thread."""
        tool = self._by_name.get(call["name"])
        if tool is None or not inspect.iscoroutinefunction(tool.call):
            return await aio.in_thread(self.run, call, turn)
        try:
            return tool_result(call["id"], await tool.call(call["input"]))
        except Exception as error:
            return _failure(call, error)

    def _of_memory(self, call: MessageDict, turn: int) -> MessageDict:
        if call["name"] != TOOL["name"]:
            return tool_result(call["id"], f"Error: Tool '{call['name']}' not found", is_error=True)
        run = None if self._run is None else f"{self._run} {turn}"[-MAX_NAME_CHARS:]
        given = {"actor": self._actor, "tool_use_id": call["id"], "run": run, **self._origin}
        return render(call["id"], self._memory.execute(call["input"], **given))


def run_tools(
    messages: list[MessageDict],
    memory: MemoryLocation | MemoryTree,
    *,
    store: str | None = None,
    tools: Iterable[Any] = (),
    actor: Actor | str | None = None,
    run: str | None = None,
    **origin: Unpack[Origin],
) -> list[MessageDict]:
    """Run the unanswered tool calls at the end of `messages`, and append their results to `messages`.

    Use this function in a loop that keeps its own messages. Save `messages` after each response and after each call of
    this function. After a crash, call it again with the saved messages, the same `actor` and the same `run`: each
    change to the memory is made only once. `run` names the conversation. Models other than Claude need it, because they
    may use the id of a call again.

    `memory` is an open memory, or a location as for `retentive.open`. This function opens and closes such a location.
    `store` is the key or id of a memory store in a location. `tools` are functions decorated with the SDK's
    `beta_tool`. `source` and `session` are recorded with each change.

    Returns the new tool_result blocks. The list is empty if every call already has a result. Raises `InvalidInput`.
    """
    who, given, run = as_actor(actor), origin_of(**origin), None if run is None else plain_name("a run", run)
    checked = tool_list(tools, is_async=False)
    opened, close = open_memory(memory, store)
    try:
        runner, results = Tools(opened, who, checked, run=run, **given), []
        turn = newest_response(messages) or 0
        for call in unanswered_calls(messages):
            results.append(runner.run(call, turn))
            add_result(messages, results[-1])
        return results
    finally:
        close()


def _failure(call: MessageDict, error: Exception) -> MessageDict:
    sdk_tools = sys.modules.get("anthropic.lib.tools")  # a tool that raises the SDK's error has imported the SDK
    if sdk_tools is not None and isinstance(error, sdk_tools.ToolError):
        return tool_result(call["id"], error.content, is_error=True)
    _LOG.error("the tool %s raised an exception", call["name"], exc_info=error)
    return tool_result(call["id"], replace_surrogates(repr(error)), is_error=True)
