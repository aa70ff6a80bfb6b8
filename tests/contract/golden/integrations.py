"""Integrations under test. Each runs a transcript in a new location and returns the replies as `(text, is_error)`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

from anthropic.lib.tools import ToolError
from anthropic.types.beta import BetaToolUseBlock
from mcp import Client

import retentive
from retentive import AsyncMemoryTool, MemoryStore, MemoryTool, tool_result
from support.command_line import here
from support.http_api import Api, serving
from support.mcp_clients import COMMAND_TOOLS, connected, reply_of

from .transcript import Transcript

Replies: TypeAlias = list[tuple[str, bool]]
Place: TypeAlias = tuple[str, Mapping[str, Any]]
"""A location and the options to open it with."""
Door: TypeAlias = Callable[[Place, Transcript], Replies]


def engine(place: Place, transcript: Transcript) -> Replies:
    with retentive.open(place[0], **place[1], **transcript.limits) as opened:
        store = opened.store()
        replies = [store.execute(one.command, actor="session:golden") for one in transcript.exchanges]
        return [(reply.text, reply.is_error) for reply in replies]


def sync_tool(place: Place, transcript: Transcript) -> Replies:
    with closing(MemoryTool(place[0], **place[1], **transcript.limits)) as tool:
        return _called(tool.call, transcript)


def async_tool(place: Place, transcript: Transcript) -> Replies:
    with closing(AsyncMemoryTool(place[0], **place[1], **transcript.limits)) as tool, asyncio.Runner() as runner:
        return _called(lambda command: runner.run(tool.call(command)), transcript)


def _called(call: Callable[[Any], Any], transcript: Transcript) -> Replies:
    replies: Replies = []
    for one in transcript.exchanges:
        try:
            replies.append((call(one.command), False))
        except ToolError as error:
            replies.append((str(error), True))
    return replies


def remote_tool(place: Place, transcript: Transcript) -> Replies:
    with _served(place, transcript) as api:
        return sync_tool((api.url, {"api_key": api.key}), replace(transcript, limits={}))


def async_remote_tool(place: Place, transcript: Transcript) -> Replies:
    with _served(place, transcript) as api:
        return async_tool((api.url, {"api_key": api.key}), replace(transcript, limits={}))


@contextmanager
def _served(place: Place, transcript: Transcript) -> Iterator[Api]:
    with retentive.open(place[0], **place[1], **transcript.limits) as opened, serving(opened) as api:
        yield api


def own_loop_with_dicts(place: Place, transcript: Transcript) -> Replies:
    return _own_loop(place, transcript, lambda block: block)


def own_loop_with_sdk_objects(place: Place, transcript: Transcript) -> Replies:
    return _own_loop(place, transcript, lambda block: BetaToolUseBlock.model_construct(None, **block))


def _own_loop(place: Place, transcript: Transcript, as_block: Callable[[dict[str, Any]], object]) -> Replies:
    replies: Replies = []
    with retentive.open(place[0], **place[1], **transcript.limits) as opened:
        store = opened.store()
        for number, one in enumerate(transcript.exchanges):
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": "memory", "input": one.command}
            result = tool_result(store, as_block(block))
            assert result.keys() - {"is_error"} == {"type", "tool_use_id", "content"}
            assert (result["type"], result["tool_use_id"]) == ("tool_result", f"toolu_{number}")
            assert result.get("is_error") in {None, True}
            replies.append((result["content"], "is_error" in result))
    return replies


def cli_exec(place: Place, transcript: Transcript) -> Replies:
    """Run `retentive exec`, with the lines of the transcript as its input."""
    assert transcript.limits == {}, "the command line has no options for these"
    lines = "".join(one.raw + "\n" for one in transcript.exchanges)
    keys = {"RETENTIVE_KEYS": place[1]["keys"].to_text()} if place[1] else {}
    done = here(place[0], "exec", text=lines.encode(), **keys)
    assert (done.stderr, done.exit_code) == ("", 0)
    replies = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
    return [(reply["text"], reply["is_error"]) for reply in replies]


def mcp_tools(place: Place, transcript: Transcript) -> Replies:
    """The tool of each command for a client of the newest revision, and the one tool for one of an older revision.

    They take turns. Arguments of tools are objects, so other commands go to the store.
    """

    async def run(store: MemoryStore) -> Replies:
        async with connected(store) as client, connected(store, mode="legacy", one_tool=True) as older:
            return [await _by_tool(store, (client, older)[n % 2], one.command) for n, one in enumerate(exchanges)]

    exchanges = transcript.exchanges
    with retentive.open(place[0], **place[1], **transcript.limits) as opened:
        return asyncio.run(run(opened.store()))


async def _by_tool(store: MemoryStore, client: Client, command: object) -> tuple[str, bool]:
    if not isinstance(command, dict):
        reply = store.execute(command)
        return reply.text, reply.is_error
    has_one = [tool.name for tool in (await client.list_tools()).tools] == ["memory"]
    name = f"memory_{command.get('command')}"
    if not has_one and name not in COMMAND_TOOLS:
        reply = store.execute(command)
        return reply.text, reply.is_error
    arguments = command if has_one else {field: value for field, value in command.items() if field != "command"}
    return await reply_of(client, "memory" if has_one else name, arguments)


INTEGRATIONS: dict[str, Door] = {
    "engine": engine,
    "sync tool": sync_tool,
    "async tool": async_tool,
    "tool_result of dicts": own_loop_with_dicts,
    "tool_result of SDK objects": own_loop_with_sdk_objects,
    "cli exec": cli_exec,
    "remote tool": remote_tool,
    "async remote tool": async_remote_tool,
    "mcp tools": mcp_tools,
}
"""To test a new integration, add it here."""
