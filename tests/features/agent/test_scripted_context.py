"""Context editing through the SDK in all its modes. The tests check the prompt of the model and the response."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import BadRequestError

from retentive.testing.scripted_claude import (
    Prompt,
    ScriptedClaude,
    scripted_claude,
)
from retentive.testing.scripted_claude.context import WARNING
from retentive.testing.scripted_claude.tool_clearing import PLACEHOLDER

from .requests import (
    CONTEXT,
    HELLO,
    READ,
    TOOL,
    WAYS,
    ask,
    clearing,
    management,
    open_url,
    post,
    thinking,
    uses,
)


def fine(_seen: Prompt) -> str:
    return "Fine."


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedClaude]:
    """Shared server that gives the same reply in every test."""
    with scripted_claude(fine) as started:
        yield started


def seen_by(server: ScriptedClaude) -> Prompt:
    prompt = server.requests[-1].prompt
    assert prompt is not None
    return prompt


def applied(reply: Any) -> list[dict[str, Any]]:
    return [edit.to_dict() for edit in reply.context_management.applied_edits]


# --- clearing tool uses ---


@pytest.mark.parametrize("way", WAYS)
def test_old_results_become_placeholders_and_are_reported(server: ScriptedClaude, way: str) -> None:
    plain = ask(server, way, messages=uses(10))
    reply = ask(server, way, messages=uses(10), context_management=management(clearing(keep=2)))
    prompt = seen_by(server)
    assert [call.cleared for call in prompt.calls] == [True] * 8 + [False] * 2
    assert [call.result.text[:3] for call in prompt.calls if call.result] == [PLACEHOLDER[:3]] * 8 + ["<8>", "<9>"]
    assert [call.input for call in prompt.calls] == [{"path": f"file-{n}"} for n in range(10)]
    cleared = plain.usage.input_tokens - reply.usage.input_tokens
    assert applied(reply) == [
        {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": cleared}
    ]
    assert cleared > 7_000


def test_each_request_is_edited_from_its_own_history(server: ScriptedClaude) -> None:
    """The client sends the complete history, so the order of requests has no effect."""
    edits = management(clearing(keep=2))
    counts = []
    for length in (10, 6, 12, 10):
        ask(server, "plain", messages=uses(length), context_management=edits)
        counts.append([call.cleared for call in seen_by(server).calls].count(True))
    assert counts == [8, 4, 10, 8]


def test_excluded_tools_keep_their_results(server: ScriptedClaude) -> None:
    messages = [*uses(5, name="memory"), *uses(5, start=5)[1:]]
    edits = management(clearing(keep=1, exclude_tools=["memory"]))
    reply = ask(server, "plain", messages=messages, context_management=edits)
    cleared = [call.name for call in seen_by(server).calls if call.cleared]
    assert (cleared, applied(reply)[0]["cleared_tool_uses"]) == (["read"] * 4, 4)


def thoughts(count: int) -> list[Any]:
    """Return a conversation of this many turns with thinking, each followed by a user message."""
    messages: list[Any] = [*HELLO]
    for n in range(count):
        thought = {"type": "thinking", "thinking": f"({n})" + "x" * 400, "signature": "s"}
        messages += [{"role": "assistant", "content": [thought, {"type": "text", "text": "Well."}]}, *HELLO]
    return messages


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("keep", "cleared"), [(None, 3), ({"type": "thinking_turns", "value": 3}, 1), ("all", 0), ({"type": "all"}, 0)]
)
def test_old_thinking_is_cleared(server: ScriptedClaude, way: str, keep: object, cleared: int) -> None:
    reply = ask(server, way, messages=thoughts(4), context_management=management(thinking(keep)))
    entry = {
        "type": "clear_thinking_20251015",
        "cleared_thinking_turns": cleared,
        "cleared_input_tokens": 101 * cleared,
    }
    assert applied(reply) == ([entry] if cleared else [])
    assert [f"({n})" in seen_by(server).text for n in range(4)] == [n >= cleared for n in range(4)]


@pytest.mark.parametrize(("share", "warned"), [(1.3, False), (1.2, True), (1.0, True), (0.99, False)])
def test_claude_is_warned_before_tool_uses_are_cleared(share: float, warned: bool) -> None:
    """The warning appears from 80 % of the trigger until the trigger is exceeded and the results are cleared."""
    claude = ScriptedClaude(fine)
    post(claude, messages=uses(10), tools=[TOOL, READ])
    tokens = seen_by(claude).input_tokens
    edits = management(clearing(over=int(tokens * share)))
    post(claude, messages=uses(10), tools=[TOOL, READ], headers=CONTEXT, context_management=edits)
    assert (seen_by(claude).warning == WARNING) == warned
    assert any(call.cleared for call in seen_by(claude).calls) == (share < 1)


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
