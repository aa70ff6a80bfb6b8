"""Valid requests to a scripted Claude, sent with and without the SDK."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from anthropic import Anthropic, AsyncAnthropic

if TYPE_CHECKING:
    from retentive.testing.scripted_claude import ScriptedClaude

ASK: dict[str, Any] = {"model": "claude-sonnet-5-5", "max_tokens": 1024}
HELLO: list[Any] = [{"role": "user", "content": "Remember that I like tea."}]
TOOL: Any = {"type": "memory_20250818", "name": "memory"}
READ: Any = {"name": "read", "description": "Read a file.", "input_schema": {"type": "object", "properties": {}}}
CONTEXT_BETA = "context-management-2025-06-27"
COMPACT_BETA = "compact-2026-01-12"
VERSION = {"anthropic-version": "2023-06-01"}
CONTEXT = {"x-api-key": "key", "anthropic-beta": f"{CONTEXT_BETA},{COMPACT_BETA}", **VERSION}


def assistant_call(command: str, tool_use_id: str = "t1") -> dict[str, Any]:
    call = {"type": "tool_use", "id": tool_use_id, "name": "memory", "input": {"command": command}}
    return {"role": "assistant", "content": [call]}


def result(content: object, tool_use_id: str = "t1", **more: object) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content, **more}
    return {"role": "user", "content": [block]}


def post(
    claude: ScriptedClaude,
    *,
    drop: tuple[str, ...] = (),
    headers: object = None,
    raw: bytes = b"",
    **fields: object,
) -> tuple[int, dict[str, Any]]:
    """Send a request without the SDK and return the status and the body. The default request is valid."""
    body: dict[str, Any] = {**ASK, "messages": HELLO, "tools": [TOOL], **fields}
    sent = {name: value for name, value in body.items() if name not in drop}
    given: Any = {"x-api-key": "key", "anthropic-version": "2023-06-01"} if headers is None else headers
    claude.answer(given, raw or json.dumps(sent).encode())
    exchange = claude.requests[-1]
    return exchange.status, dict(exchange.reply)


WAYS = ["plain", "async streamed"]  # the modes in which the SDK can send a request


def ask(server: ScriptedClaude, way: str, *, retries: int = 0, **fields: Any) -> Any:
    """Send a request with both betas in one of the SDK's modes, and return the message."""
    request = {**ASK, "messages": HELLO, "tools": [TOOL, READ], "betas": [CONTEXT_BETA, COMPACT_BETA], **fields}
    if way.startswith("async"):
        return asyncio.run(_ask_async(server, request, streamed=way.endswith("streamed"), retries=retries))
    with Anthropic(base_url=server.url, api_key="none needed", max_retries=retries) as client:
        if way == "plain":
            return client.beta.messages.create(**request)
        with client.beta.messages.stream(**request) as stream:
            return stream.get_final_message()


async def _ask_async(server: ScriptedClaude, request: dict[str, Any], *, streamed: bool, retries: int) -> Any:
    async with AsyncAnthropic(base_url=server.url, api_key="none needed", max_retries=retries) as client:
        if not streamed:
            return await client.beta.messages.create(**request)
        async with client.beta.messages.stream(**request) as stream:
            return await stream.get_final_message()


def uses(count: int, *, chars: int = 4_000, name: str = "read", start: int = 0) -> list[Any]:
    """Return a user message and this many tool calls. Each result has this length and contains its number."""
    messages: list[Any] = [*HELLO]
    for n in range(start, start + count):
        call = {"type": "tool_use", "id": f"t{n}", "name": name, "input": {"path": f"file-{n}"}}
        messages += [{"role": "assistant", "content": [call]}, result(f"<{n}>" + "x" * chars, f"t{n}")]
    return messages


def management(*edits: dict[str, Any]) -> dict[str, Any]:
    return {"edits": list(edits)}


def clearing(*, over: int = 5_000, keep: int = 2, **more: Any) -> dict[str, Any]:
    """Return the edit that clears tool uses, with `more` as additional fields."""
    trigger, kept = {"type": "input_tokens", "value": over}, {"type": "tool_uses", "value": keep}
    return {"type": "clear_tool_uses_20250919", "trigger": trigger, "keep": kept, **more}


def compacting(*, over: int = 50_000, **more: Any) -> dict[str, Any]:
    return {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": over}, **more}
