"""The server on standard input and output, for a client on the same machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio import to_thread
from mcp.server.stdio import stdio_server

from retentive.mcp.changes import StoreChanges
from retentive.mcp.service import INTEGRATION, Service, Target, tools_of
from retentive.remote import is_remote
from retentive.store import MemoryStore

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext

T = TypeVar("T")


def serve(store: MemoryStore, *, one_tool: bool = False) -> None:
    """Answer requests until the input ends."""
    anyio.run(_serve, store, one_tool)


async def _serve(store: MemoryStore, one_tool: bool) -> None:
    service = Service(_target(store, one_tool=one_tool))
    server = service.server()
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


def _target(store: MemoryStore, *, one_tool: bool) -> Callable[[ServerRequestContext[Any, Any]], Target]:
    """The one memory store of all requests. A quick read of local storage takes less time than waking a thread."""
    is_local = not is_remote(store)
    name = store.key or store.id

    async def run(work: Callable[[], T], *, is_read: bool, is_quick: bool = False) -> T:
        if is_quick and is_local:
            return work()
        return await to_thread.run_sync(work, abandon_on_cancel=is_read)

    opened = store.through(INTEGRATION)
    changes = StoreChanges(opened, name, to_thread.run_sync)
    target = Target(opened, name, run, changes, tools_of(one_tool=one_tool))
    return lambda _: target
