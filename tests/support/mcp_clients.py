"""Clients of the official MCP package, connected to a memory store in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import pytest
from mcp import Client, MCPError, types
from mcp.client.session import ElicitationFnT

from retentive import MemoryStore, Mounts
from retentive.mcp.stdio import service_of

T = TypeVar("T")
MODES = ("2026-07-28", "legacy")
COMMAND_TOOLS = {f"memory_{name}" for name in ("view", "create", "str_replace", "insert", "delete", "rename")}


async def agree(context: Any, params: Any) -> types.ElicitResult:
    """Answer of a person who confirms."""
    return types.ElicitResult(action="accept", content={"confirm": True})


@asynccontextmanager
async def connected(
    store: MemoryStore | Mounts,
    *,
    mode: str = MODES[0],
    one_tool: bool = False,
    asked: ElicitationFnT | None = agree,
    **options: Any,
) -> AsyncIterator[Client]:
    """A client of a server for one memory store or mounts, over streams in memory."""
    server = service_of(store, one_tool=one_tool).server()
    async with Client(server, mode=mode, elicitation_callback=asked, **options) as client:
        yield client


async def reply_of(client: Client, name: str, arguments: Mapping[str, Any], **options: Any) -> tuple[str, bool]:
    """The text of a result, and if it is an error."""
    result = await client.call_tool(name, dict(arguments), **options)
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text, bool(result.is_error)


def result_of(connection: AbstractAsyncContextManager[Client], work: Callable[[Client], Awaitable[T]]) -> T:
    """What `work` returns for a client."""

    async def run() -> T:
        async with connection as client:
            return await work(client)

    return asyncio.run(run())


def replies(
    connection: AbstractAsyncContextManager[Client], *calls: tuple[str, Mapping[str, Any]], **options: Any
) -> list[tuple[str, bool]]:
    """The texts of the results of calls, and if they are errors. The calls run one after the other."""

    async def run(client: Client) -> list[tuple[str, bool]]:
        return [await reply_of(client, *call, **options) for call in calls]

    return result_of(connection, run)


def error_of(connection: AbstractAsyncContextManager[Client], work: Callable[[Client], Awaitable[object]]) -> MCPError:
    """The error of the protocol that `work` raises for a client."""

    async def run(client: Client) -> MCPError:
        with pytest.raises(MCPError) as error:
            await work(client)
        return error.value

    return result_of(connection, run)


async def all_resources(client: Client) -> list[types.Resource]:
    found, page = list[types.Resource](), await client.list_resources()
    while page.next_cursor is not None:
        found, page = [*found, *page.resources], await client.list_resources(cursor=page.next_cursor)
    return [*found, *page.resources]
