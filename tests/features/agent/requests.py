"""Valid requests to a scripted Claude."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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
