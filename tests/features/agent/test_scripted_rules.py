"""The scripted Claude refuses what the Messages API refuses, in its words: one request of each kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic import Anthropic, APIStatusError

from retentive.testing.scripted_claude import ScriptedClaude, scripted_claude

from .requests import ASK, CONTEXT, HELLO, TOOL, VERSION, assistant_call, clearing, management, post, result

CALLED = [*HELLO, assistant_call("view")]
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no tokens": ({"drop": ("max_tokens",)}, "max_tokens: Field required"),
    "no messages": ({"messages": []}, "messages: at least one message is required"),
    "an unknown field": ({"temprature": 1}, "temprature: Extra inputs are not permitted"),
    "an unanswered call": ({"messages": [*CALLED, *HELLO]}, "`tool_use` ids were found without `tool_result`"),
    "an answer to no call": ({"messages": [*CALLED, result("x", "t2")]}, "unexpected `tool_use_id` found"),
    "a tool twice": ({"tools": [TOOL, TOOL]}, "tools: Tool names must be unique."),
    "no version": ({"headers": {"x-api-key": "key"}}, "anthropic-version: header is required"),
    "an edit without its beta": ({"context_management": management(clearing())}, "context_management: Extra inputs"),
    "an unknown edit": ({"headers": CONTEXT, "context_management": management({"type": "x"})}, "context_management"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_api_refuses(name: str) -> None:
    fields, words = REFUSED[name]
    claude = ScriptedClaude(lambda _seen: "Fine.", strict=True)
    status, reply = post(claude, **fields)
    assert (status, reply["type"]) == (400, "error")
    assert words in reply["error"]["message"]


def test_the_sdk_raises_the_refusal() -> None:
    with (
        scripted_claude(lambda _seen: "Fine.") as server,
        Anthropic(base_url=server.url, api_key="none needed", max_retries=0) as client,
        pytest.raises(APIStatusError) as raised,
    ):
        client.messages.create(**ASK, messages=[*CALLED, *HELLO])
    assert raised.value.status_code == 400


def test_unknown_names_are_warnings_unless_strict(caplog: pytest.LogCaptureFixture) -> None:
    claude = ScriptedClaude(lambda _seen: "Fine.", strict=False)
    fields = {**ASK, "model": "claude-nothing-9", "messages": HELLO, "max_token": 1}
    headers = {"x-api-key": "key", "anthropic-beta": "new-2099-01-01", **VERSION}
    for _ in range(2):
        claude.answer(headers, json.dumps(fields).encode())
    assert [exchange.status for exchange in claude.requests] == [200, 200]
    assert claude.warnings == [
        "anthropic-beta: new-2099-01-01",
        "max_token: Extra inputs are not permitted",
        "model: claude-nothing-9",
    ]
    assert len(caplog.messages) == 3
