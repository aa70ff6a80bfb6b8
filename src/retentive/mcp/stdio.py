"""MCP server on standard input and output, for a client on the same machine."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
from anyio import to_thread
from mcp.server.stdio import stdio_server

from retentive.mcp.changes import StoreChanges
from retentive.mcp.service import INSTRUCTIONS, INTEGRATION, PAST, McpService, McpTarget, tools_of
from retentive.remote import is_remote
from retentive.store import MemoryStore

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext

T = TypeVar("T")
CHUNK, MAX_CHUNKS = 1 << 16, 16


class BugLog(logging.Formatter):
    """Log formatter for errors of the package `mcp`. It shows the type of an error and where it was raised.

    The message of the error is left out, because it may quote a memory.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of the log for a log record."""
        kind, _, trace = record.exc_info or (None, None, None)
        frames = traceback.extract_tb(trace)
        place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
        return f"retentive mcp: {'an error' if kind is None else kind.__name__}{place}"


def serve(store: MemoryStore, *, one_tool: bool = False) -> None:
    """Answer MCP requests on standard input until the input ends."""
    handler, log = logging.StreamHandler(sys.stderr), logging.getLogger("mcp")
    handler.setFormatter(BugLog())
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.ERROR)
    anyio.run(_serve, store, one_tool)


async def _serve(store: MemoryStore, one_tool: bool) -> None:
    server = service_of(store, one_tool=one_tool).server()
    lines = cast("anyio.AsyncFile[str]", _lines(sys.stdin.fileno()))  # only iterated
    async with stdio_server(stdin=lines) as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


async def _lines(descriptor: int) -> AsyncIterator[str]:
    """Yield the lines that arrive at a file descriptor.

    A daemon thread reads them, so that a blocked read does not keep the process alive.
    """
    chunks: asyncio.Queue[bytes] = asyncio.Queue(MAX_CHUNKS)
    reader = partial(_read, descriptor, chunks, asyncio.get_running_loop())
    Thread(target=reader, name="retentive-mcp-input", daemon=True).start()
    pending = bytearray()
    while chunk := await chunks.get():
        pending += chunk
        if b"\n" in chunk:
            *whole, pending = pending.split(b"\n")
            for line in whole:
                yield line.decode("utf-8", "replace")
    if pending:
        yield pending.decode("utf-8", "replace")


def _read(descriptor: int, chunks: asyncio.Queue[bytes], loop: asyncio.AbstractEventLoop) -> None:
    """Read a file descriptor to its end and put the data into `chunks`. An empty chunk marks the end of the input."""
    chunk = b"first"
    while chunk:
        try:
            chunk = os.read(descriptor, CHUNK)
        except OSError:
            chunk = b""
        passed_on = chunks.put(chunk)
        try:
            asyncio.run_coroutine_threadsafe(passed_on, loop).result()
        except (RuntimeError, CancelledError):  # the loop has ended
            passed_on.close()
            return


def service_of(store: MemoryStore, *, one_tool: bool = False) -> McpService:
    """Return a service that uses one memory store to answer all requests."""
    return McpService(
        fixed_target(store, one_tool=one_tool), instructions=INSTRUCTIONS if one_tool else INSTRUCTIONS + PAST
    )


def fixed_target(
    store: MemoryStore, *, one_tool: bool = False
) -> Callable[[ServerRequestContext[Any, Any]], McpTarget]:
    """Return a `target_of` function for `McpService`. It returns the same memory store for every request.

    Quick reads of local storage run without a worker thread, because waking a thread takes longer than such a read.
    """
    is_local = not is_remote(store)
    name = store.key or store.id

    async def run(work: Callable[[], T], *, is_read: bool, is_quick: bool = False) -> T:
        if is_quick and is_local:
            return work()
        return await to_thread.run_sync(work, abandon_on_cancel=is_read)

    opened = store.through(INTEGRATION)
    changes = StoreChanges(opened, name, to_thread.run_sync)
    target = McpTarget(opened, name, run, lambda: changes, tools_of(one_tool=one_tool))
    return lambda _: target
