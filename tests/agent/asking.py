"""How the tests ask a scripted Claude: good requests, and the ways to send them without the SDK."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from commonplace.testing.scripted_claude import ScriptedClaude

ASK: dict[str, Any] = {"model": "claude-sonnet-5-5", "max_tokens": 1024}
HELLO: list[Any] = [{"role": "user", "content": "Remember that I like tea."}]
TOOL: Any = {"type": "memory_20250818", "name": "memory"}
CONTEXT_BETA = "context-management-2025-06-27"
THREADS_BETA = "message-threads-2026-08-12"
VERSION = {"anthropic-version": "2023-06-01"}
THREADS = {"x-api-key": "key", "anthropic-beta": THREADS_BETA, **VERSION}


def said(command: str, tool_use_id: str = "t1") -> dict[str, Any]:
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
    """Status and body for one request, without HTTP; a good one unless told otherwise."""
    body: dict[str, Any] = {**ASK, "messages": HELLO, "tools": [TOOL], **fields}
    sent = {name: value for name, value in body.items() if name not in drop}
    given: Any = {"x-api-key": "key", "anthropic-version": "2023-06-01"} if headers is None else headers
    claude.answer(given, raw or json.dumps(sent).encode())
    exchange = claude.requests[-1]
    return exchange.status, dict(exchange.reply)


def open_url(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"x-api-key": "key", **VERSION})
    return urllib.request.urlopen(request, timeout=30)
