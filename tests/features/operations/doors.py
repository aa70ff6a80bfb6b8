"""Each door to a memory store: how a program, a model or another process sends it a command."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from anthropic import Anthropic
from anthropic.lib.tools import ToolError
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import retentive
from retentive import Actor, AsyncMemoryTool, MemoryTool, aio, tool_result
from retentive.agent import Agent, function_tool
from retentive.agent.tools import Tools
from retentive.integrations import langchain, pydantic_ai
from retentive.store import with_options
from retentive.testing.scripted_claude import Call, Script, Turn, scripted_claude
from support.command_line import here
from support.http_api import Api, serving
from support.mcp_clients import connected, reply_of

from .table import BOB, Scene

Command = dict[str, Any]


class Doors:
    """The doors to the memory store of a scene, for a caller who may be limited to some paths."""

    def __init__(self, scene: Scene, closing: ExitStack, *, scope: tuple[str, ...] = ()) -> None:
        self.scene, self.scope, self._closing = scene, scope, closing
        self.store = with_options(scene.store, scope=scope) if scope else scene.store
        self._api: Api | None = None

    @property
    def api(self) -> Api:
        """A server over the location of the scene, with a key of the caller."""
        if self._api is None:
            made = self._closing.enter_context(serving(self.scene.place))
            self._api = made.with_key("read", "write", paths=self.scope, act_as=(BOB,)).send_as(BOB)
        return self._api


def execute(doors: Doors, command: Command, call_id: str | None, **origin: Any) -> str:
    return doors.store.execute(command, actor=BOB, tool_use_id=call_id, **origin).text


def awaited(doors: Doors, command: Command, call_id: str | None, **origin: Any) -> str:
    return asyncio.run(
        aio.AsyncMemoryStore(doors.store).execute(command, actor=BOB, tool_use_id=call_id, **origin)
    ).text


def block(command: Command, call_id: str | None) -> Any:
    return {"type": "tool_use", "id": call_id or "toolu_1", "name": "memory", "input": command}


def own_loop(doors: Doors, command: Command, call_id: str | None, **origin: Any) -> str:
    return str(tool_result(doors.store, block(command, call_id), actor=BOB, **origin)["content"])


def sdk_tool(doors: Doors, command: Command, _: str | None, **origin: Any) -> str:
    try:
        return str(MemoryTool(doors.store, actor=BOB, **origin).call(command))
    except ToolError as error:
        return str(error.content)


def async_sdk_tool(doors: Doors, command: Command, _: str | None, **origin: Any) -> str:
    try:
        return str(asyncio.run(AsyncMemoryTool(doors.store, actor=BOB, **origin).call(command)))
    except ToolError as error:
        return str(error.content)


def function(doors: Doors, command: Command, _: str | None, **origin: Any) -> str:
    return function_tool(doors.store, actor=BOB, **origin).reply(command).text


def tools_of_agent(doors: Doors, command: Command, call_id: str | None, **origin: Any) -> str:
    return str(Tools(doors.store, Actor.parse(BOB), **origin).run(block(command, call_id))["content"])


def whole_agent(doors: Doors, command: Command, _: str | None, **origin: Any) -> str:
    script = Script((Turn((Call(command),)), Turn(("Done.",))), when="go")
    with scripted_claude(script) as server, Anthropic(base_url=server.url, api_key="none") as client:
        run = Agent(client, memory=doors.store, actor=BOB, **origin).ask("go")
    assert server.failures == []
    return str(run)


def by_langchain(doors: Doors, command: Command, _: str | None, **origin: Any) -> str:
    return str(langchain.memory_tool(doors.store, actor=BOB, **origin).invoke(command))


def by_pydantic_ai(doors: Doors, command: Command, _: str | None, **origin: Any) -> str:
    said: list[str] = []

    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            said.append(str(messages[-1].parts[0].content))  # type: ignore[union-attr] # the result of the call
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("memory", command)])

    tool = pydantic_ai.memory_tool(doors.store, actor=BOB, **origin)
    asyncio.run(PydanticAgent(FunctionModel(model), tools=[tool]).run("go"))
    return said[0]


def command_line(doors: Doors, command: Command, call_id: str | None) -> str:
    line = json.dumps(block(command, call_id) if call_id else command)
    ended = here(doors.scene.at, "--actor", BOB, "exec", text=line.encode())
    said = json.loads(ended.stdout)
    return str(said["content"] if call_id else said["text"])


def http(doors: Doors, command: Command, call_id: str | None, **origin: Any) -> str:
    given = {"command": command, **({"id": call_id} if call_id else {}), **origin}
    return str(doors.api.post(f"/v1/memory_stores/{doors.scene.store.id}/commands", given).body["content"])


def remote(doors: Doors, command: Command, call_id: str | None, **origin: Any) -> str:
    with retentive.open(doors.api.url, api_key=doors.api.key, actor=BOB) as opened:
        return opened.store(doors.scene.store.id).execute(command, tool_use_id=call_id, **origin).text


def mcp(doors: Doors, command: Command, call_id: str | None) -> str:
    async def run() -> str:
        async with connected(doors.store.acting_as(BOB), one_tool=True) as client:
            meta = {"meta": {"claudecode/toolUseId": call_id}} if call_id else {}
            return (await reply_of(client, "memory", command, **meta))[0]

    return asyncio.run(run())


@dataclass(frozen=True)
class Door:
    """`integration` is its name in versions and in the audit log."""

    send: Callable[..., str]
    integration: str
    takes_id: bool = False
    takes_origin: bool = True
    replies: bool = True
    limited: bool = True


DOORS = {
    "execute": Door(execute, "python", takes_id=True),
    "aio": Door(awaited, "python", takes_id=True),
    "tool_result": Door(own_loop, "messages", takes_id=True),
    "MemoryTool": Door(sdk_tool, "anthropic"),
    "AsyncMemoryTool": Door(async_sdk_tool, "anthropic"),
    "function_tool": Door(function, "function_tool"),
    "tools of an agent": Door(tools_of_agent, "agent", takes_id=True),
    "agent": Door(whole_agent, "agent", replies=False),
    "LangChain": Door(by_langchain, "langchain"),
    "Pydantic AI": Door(by_pydantic_ai, "pydantic_ai"),
    "command line": Door(command_line, "cli", takes_id=True, takes_origin=False, limited=False),
    "HTTP": Door(http, "http", takes_id=True),
    "client of a server": Door(remote, "http", takes_id=True),
    "MCP": Door(mcp, "mcp", takes_id=True, takes_origin=False),
}
