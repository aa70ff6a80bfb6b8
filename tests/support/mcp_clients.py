"""Clients of the official MCP package, connected to a memory store in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, types
from mcp.client.session import ElicitationFnT

from retentive import MemoryStore, Mounts
from retentive.mcp.stdio import service_of

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
