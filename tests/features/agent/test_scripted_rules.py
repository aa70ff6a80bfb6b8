"""The scripted Claude refuses what the Messages API refuses, in its words: one request of each kind."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import Anthropic, APIStatusError

from retentive.testing.scripted_claude import ScriptedClaude, scripted_claude

from .requests import (
    ASK,
    CONTEXT,
    HELLO,
    TOOL,
    assistant_call,
    clearing,
    compacting,
    management,
    post,
    result,
    thinking,
)

THOUGHT = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "scripted_0"}]}
MARKED = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
CALLED = [*HELLO, assistant_call("view")]
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no key": ({"headers": {"anthropic-version": "2023-06-01"}}, "x-api-key header is required"),
    "no tokens": ({"drop": ("max_tokens",)}, "max_tokens: Field required"),
    "no messages": ({"messages": []}, "messages: at least one message is required"),
    "an unknown field": ({"temprature": 1}, "temprature: Extra inputs are not permitted"),
    "an unanswered call": ({"messages": [*CALLED, *HELLO]}, "`tool_use` ids were found without `tool_result`"),
    "an answer to no call": ({"messages": [*CALLED, result("x", "t2")]}, "unexpected `tool_use_id` found"),
    "an empty text": ({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}, "must be non-empty"),
    "a changed thought": ({"messages": [*HELLO, THOUGHT, *HELLO]}, "Invalid `signature` in `thinking` block"),
    "a result by the assistant": (
        {"messages": [*HELLO, {**result("x"), "role": "assistant"}]},
        "`tool_result` blocks can only be in `user` messages",
    ),
    "content of no type": ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "type: Field required"),
    "a call without its id": (
        {"messages": [*HELLO, {"role": "assistant", "content": [{"type": "tool_use", "name": "memory", "input": {}}]}]},
        "messages.1.content.0.tool_use.id: Field required",
    ),
    "a tool without a schema": ({"tools": [{"name": "read"}]}, "input_schema.type: Input should be 'object'"),
    "a choice of a missing tool": ({"tool_choice": {"type": "tool", "name": "x"}}, "Tool 'x' not found"),
    "thinking that is too long": (
        {"thinking": {"type": "enabled", "budget_tokens": 4_096}},
        "`max_tokens` must be greater than `thinking.budget_tokens`",
    ),
    "five marks of the cache": ({"system": [MARKED] * 5}, "A maximum of 4 blocks with cache_control"),
    "a tool twice": ({"tools": [TOOL, TOOL]}, "tools: Tool names must be unique."),
    "no version": ({"headers": {"x-api-key": "key"}}, "anthropic-version: header is required"),
    "an edit without its beta": ({"context_management": management(clearing())}, "context_management: Extra inputs"),
    "an edit of thinking that is second": (
        {"headers": CONTEXT, "context_management": management(clearing(), thinking())},
        "must be the first edit in the list",
    ),
    "a low trigger": (
        {"headers": CONTEXT, "context_management": management(compacting(over=10_000))},
        "greater than or equal to 50000",
    ),
    "an unknown edit": ({"headers": CONTEXT, "context_management": management({"type": "x"})}, "context_management"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_api_refuses(name: str) -> None:
    fields, words = REFUSED[name]
    claude = ScriptedClaude(lambda _seen: "Fine.")
    status, reply = post(claude, **fields)
    assert (status, reply["type"]) == (401 if name == "no key" else 400, "error")
    assert words in reply["error"]["message"]


def test_the_sdk_raises_the_refusal() -> None:
    with (
        scripted_claude(lambda _seen: "Fine.") as server,
        Anthropic(base_url=server.url, api_key="none needed", max_retries=0) as client,
        pytest.raises(APIStatusError) as raised,
    ):
        client.messages.create(**ASK, messages=[*CALLED, *HELLO])
    assert raised.value.status_code == 400
