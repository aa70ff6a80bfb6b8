"""Context editing through the SDK in all its modes. The tests check the prompt of the model and the response."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from anthropic import BadRequestError

from retentive.testing.scripted_claude import (
    Prompt,
    ScriptedClaude,
    scripted_claude,
)

from .requests import (
    CONTEXT,
    READ,
    WAYS,
    ask,
    clearing,
    management,
    open_url,
    uses,
)


def fine(_seen: Prompt) -> str:
    return "Fine."


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedClaude]:
    """Shared server that gives the same reply in every test."""
    with scripted_claude(fine) as started:
        yield started


# --- clearing tool uses ---


@pytest.mark.parametrize("way", WAYS)
def test_a_prompt_over_the_window_is_rejected_unless_edits_help(way: str) -> None:
    with scripted_claude(fine, context_window=6_000) as server:
        with pytest.raises(BadRequestError, match=r"prompt is too long: \d+ tokens > 6000 maximum"):
            ask(server, way, messages=uses(10))
        refused = server.largest_prompt
        assert refused > 6_000
        reply = ask(server, way, messages=uses(10), context_management=management(clearing()))
        assert reply.usage.input_tokens < 6_000
        assert server.largest_prompt == refused


def test_a_stream_reports_the_edits_at_its_end(server: ScriptedClaude) -> None:
    """The event message_delta contains the edits. Earlier events do not contain them."""
    body = {"model": "claude-sonnet-5-5", "max_tokens": 10, "messages": uses(10), "tools": [READ]}
    body["context_management"] = management(clearing())
    with open_url(f"{server.url}/v1/messages", body, headers=CONTEXT) as response:
        plain = json.load(response)
    with open_url(f"{server.url}/v1/messages", {**body, "stream": True}, headers=CONTEXT) as response:
        datas = [json.loads(line[6:]) for line in response.read().decode().split("\n") if line.startswith("data: ")]
    with_edits = [data["type"] for data in datas if "context_management" in json.dumps(data)]
    assert with_edits == ["message_delta"]
    assert datas[-2]["context_management"] == plain["context_management"]
    assert datas[-1] == {"type": "message_stop"}
