"""Valid requests to a scripted Claude."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retentive.testing.scripted_claude import ScriptedClaude

ASK: dict[str, Any] = {"model": "claude-sonnet-5-5", "max_tokens": 1024}
HELLO: list[Any] = [{"role": "user", "content": "Remember that I like tea."}]
TOOL: Any = {"type": "memory_20250818", "name": "memory"}


def assistant_call(command: str, tool_use_id: str = "t1") -> dict[str, Any]:
    call = {"type": "tool_use", "id": tool_use_id, "name": "memory", "input": {"command": command}}
    return {"role": "assistant", "content": [call]}


def result(content: object, tool_use_id: str = "t1") -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": tool_use_id, "content": content}]}


def post(claude: ScriptedClaude, messages: list[Any]) -> tuple[int, dict[str, Any]]:
    """Send a request without the SDK and return the status and the body."""
    body = {**ASK, "messages": messages, "tools": [TOOL]}
    claude.answer({"x-api-key": "key", "anthropic-version": "2023-06-01"}, json.dumps(body).encode())
    exchange = claude.requests[-1]
    return exchange.status, dict(exchange.reply)
