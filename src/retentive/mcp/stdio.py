"""MCP server on standard input and output, for a client on the same machine."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio import to_thread
from mcp import types as t
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from retentive.mcp.changes import StoreChanges, TreeChanges
from retentive.mcp.service import INSTRUCTIONS, INTEGRATION, PAST, McpService, McpTarget
from retentive.mcp.tools import ONE_TOOL_ONLY, TOOLS
from retentive.mounts import StoreOrMounts, stores_of, tree_of
from retentive.remote import is_remote
from retentive.store import MemoryStore, with_options
from retentive.values.paths import ROOT

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.shared._stream_protocols import WriteStream

T = TypeVar("T")


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


def serve(store: StoreOrMounts, *, one_tool: bool = False) -> None:
    """Answer MCP requests on standard input until the input ends."""
    handler, log = logging.StreamHandler(sys.stderr), logging.getLogger("mcp")
    handler.setFormatter(BugLog())
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.ERROR)
    anyio.run(_serve, store, one_tool)


async def _serve(store: StoreOrMounts, one_tool: bool) -> None:
    server = service_of(store, one_tool=one_tool).server()
    arrived, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    nothing = anyio.wrap_file(io.StringIO())  # `_receive` reads the input
    async with stdio_server(stdin=nothing) as (_, writer), anyio.create_task_group() as tasks:
        tasks.start_soon(_receive, arrived, writer)
        await server.run(incoming, writer, server.create_initialization_options())


async def _receive(
    arrived: MemoryObjectSendStream[SessionMessage | Exception], writer: WriteStream[SessionMessage]
) -> None:
    """Pass the messages on standard input to the server. A line that is no message is answered with an error.

    A daemon thread reads the lines: at its end, Python would wait for a thread of anyio that is still reading.
    """
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # Not sys.stdin: Python waits for its lock at the end, which a blocked read holds.
    stdin = open(os.dup(sys.stdin.fileno()), "rb")  # noqa: SIM115 - read in a thread, until the end

    def read() -> None:
        line = b" "
        while line:
            try:
                line = stdin.readline()
            except OSError:
                line = b""
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(lines.put_nowait, line)

    Thread(target=read, name="retentive-mcp-input", daemon=True).start()
    async with arrived:
        while line := await lines.get():
            message = message_of(line.decode("utf-8", "replace")) if line.strip() else None
            if isinstance(message, t.JSONRPCError):
                await writer.send(SessionMessage(message))
            elif message is not None:
                await arrived.send(SessionMessage(message))


def message_of(line: str) -> t.JSONRPCMessage:
    """Parse a line. The result is a `JSONRPCError`, to be sent to the client, if the line is not a message.

    The SDK's own parser refuses a whole line with a lone surrogate (half an emoji, from a stream that was cut), and the
    client waits for ever. Here the arguments of a call may have one, and the tool says that it cannot be stored.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return _invalid(t.PARSE_ERROR, "the line is not JSON")
    if not isinstance(found, dict):
        return _invalid(t.INVALID_REQUEST, "a message must be an object; batches are not supported")
    known, params = found.get("id"), found.get("params")
    known = known if isinstance(known, str | int) and not isinstance(known, bool) and _is_text(known) else None
    rest = {**params, "arguments": None} if isinstance(params, dict) else params
    if not _is_text({**found, "params": rest}):
        return _invalid(t.INVALID_REQUEST, "only the arguments of a call may contain a lone surrogate", known)
    try:
        message = t.jsonrpc_message_adapter.validate_python(found, by_name=False)
    except ValidationError:
        return _invalid(t.INVALID_REQUEST, "the line is not a message of JSON-RPC 2.0", known)
    if "id" in found and isinstance(message, t.JSONRPCNotification):
        return _invalid(t.INVALID_REQUEST, "the id of a request must be a string or an integer")
    return message


def _invalid(code: int, reason: str, known: str | int | None = None) -> t.JSONRPCError:
    return t.JSONRPCError(jsonrpc="2.0", id=known, error=t.ErrorData(code=code, message=f"Invalid request: {reason}"))


def _is_text(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def service_of(store: StoreOrMounts, *, one_tool: bool = False) -> McpService:
    """Return a service that uses one memory store, or mounts, to answer all requests."""
    target = fixed_target(store, one_tool=one_tool)
    return McpService(lambda _: target, instructions=INSTRUCTIONS if one_tool else INSTRUCTIONS + PAST)


def fixed_target(store: StoreOrMounts, *, one_tool: bool = False) -> McpTarget:
    """Return the target of all requests of a service with one memory store or mounts.

    Quick reads of local storage run without a worker thread, because waking a thread takes longer than such a read.
    """
    stores = stores_of(store)
    is_local = not any(map(is_remote, stores.values()))
    name = stores[ROOT].key or stores[ROOT].id

    async def run(work: Callable[[], T], *, is_read: bool, is_quick: bool = False) -> T:
        if is_quick and is_local:
            return work()
        return await to_thread.run_sync(work, abandon_on_cancel=is_read)

    def opened(store: MemoryStore) -> MemoryStore:  # a server hides by the scopes of the API key
        return store if is_remote(store) else with_options(store.through(INTEGRATION), hides_history=True)

    tree = tree_of({point: opened(each) for point, each in stores.items()})
    changes = TreeChanges(tree, name, lambda each: StoreChanges(each, to_thread.run_sync))
    return McpTarget(tree, name, run, lambda: changes, ONE_TOOL_ONLY if one_tool else TOOLS)
