"""Token estimates are deterministic, additive, and close to the examples of the documentation."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from hypothesis import given
from hypothesis import strategies as st

from retentive.testing.scripted_claude import Script, ScriptedClaude, Turn, scripted_claude
from retentive.testing.scripted_claude.messages import Conversation, Message
from retentive.testing.scripted_claude.tokens import (
    DOCUMENT_TOKENS,
    IMAGE_TOKENS,
    TOOLS_TOKENS,
    TYPED_TOOL_TOKENS,
    block_tokens,
    json_tokens,
    messages_tokens,
    prompt_tokens,
    text_tokens,
    tools_tokens,
)

from .histories import TEXTS, histories
from .requests import CONTEXT, CONTEXT_BETA, HELLO, READ, TOOL, ask, clearing, management, post, thinking, uses

SCRIPT = Script((Turn(("Fine.",)),))


def test_text_has_four_bytes_per_token_and_json_three() -> None:
    assert [text_tokens(text) for text in ("", "a", "abcd", "abcde", "é" * 4, "\ud800")] == [0, 1, 1, 2, 2, 1]
    assert json_tokens({"a": 1}) == 3


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        ({"type": "text", "text": "x" * 40}, 10),
        ({"type": "thinking", "thinking": "x" * 40, "signature": "s" * 400}, 10),
        ({"type": "compaction", "content": "x" * 40}, 10),
        ({"type": "compaction", "content": None}, 0),
        ({"type": "tool_use", "id": "t", "name": "read", "input": {"a": 1}}, 8 + 1 + 3),
        ({"type": "tool_result", "tool_use_id": "t", "content": "x" * 40}, 8 + 10),
        ({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image"}]}, 8 + IMAGE_TOKENS),
        ({"type": "tool_result", "tool_use_id": "t"}, 8),
        ({"type": "image", "source": {"data": "x" * 10_000}}, IMAGE_TOKENS),
        ({"type": "document", "source": {"type": "base64", "data": "x"}}, DOCUMENT_TOKENS),
        ({"type": "document", "source": {"type": "text", "data": "x" * 40}}, 10),
        ({"type": "new", "is": 1}, 7),
    ],
)
def test_each_kind_of_block_has_its_size(block: dict[str, Any], tokens: int) -> None:
    assert block_tokens(block) == tokens


def test_system_prompt_and_tools_are_counted() -> None:
    message = (Message("user", ({"type": "text", "text": "x" * 40},)),)
    assert prompt_tokens(Conversation(message, None, ())) == 14
    assert prompt_tokens(Conversation(message, "x" * 40, ())) == 14 + 14
    assert prompt_tokens(Conversation(message, [{"type": "text", "text": "x" * 40}], ())) == 14 + 14
    assert tools_tokens(()) == 0
    assert tools_tokens((TOOL, READ)) == TOOLS_TOKENS + TYPED_TOOL_TOKENS + json_tokens(READ)


WEATHER: Any = {
    "name": "get_weather",
    "description": "Get the current weather in a given location",
    "input_schema": {
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
        },
        "required": ["location"],
    },
}


@pytest.mark.parametrize(
    ("text", "system", "tools", "documented"),
    [
        ("Hello, Claude", "You are a scientist", (), 14),
        ("What's the weather like in San Francisco?", None, (WEATHER,), 403),
    ],
)
def test_estimates_are_near_the_documentation(text: str, system: object, tools: Any, documented: int) -> None:
    """The examples are from the token counting docs, with and without tools.

    An estimate is at most a quarter too high.
    """
    counted = prompt_tokens(Conversation((Message("user", ({"type": "text", "text": text},)),), system, tools))
    assert documented <= counted <= documented * 1.25


@given(histories(), histories())
def test_parts_add_up(first: tuple[Message, ...], second: tuple[Message, ...]) -> None:
    assert messages_tokens(first + second) == messages_tokens(first) + messages_tokens(second)


@given(TEXTS, TEXTS)
def test_more_text_never_has_fewer_tokens(text: str, more: str) -> None:
    assert text_tokens(text) <= text_tokens(text + more) <= text_tokens(text) + text_tokens(more)


@given(st.integers(0, 20))
def test_estimates_are_deterministic(count: int) -> None:
    first, second = (post(ScriptedClaude(lambda _seen: "Fine."), messages=uses(count), tools=[READ]) for _ in range(2))
    assert first[1]["usage"] == second[1]["usage"]


def test_input_tokens_are_counted_after_the_edits() -> None:
    claude = ScriptedClaude(lambda _seen: "Fine.")
    asked: Any = {"messages": uses(10), "tools": [READ], "headers": CONTEXT}
    plain = post(claude, **asked)[1]
    edited = post(claude, **asked, context_management=management(clearing()))[1]
    cleared = edited["context_management"]["applied_edits"][0]["cleared_input_tokens"]
    assert edited["usage"]["input_tokens"] == plain["usage"]["input_tokens"] - cleared


def test_a_count_equals_the_usage_of_the_request() -> None:
    """The count agrees with the usage, with and without the beta and edits. Counting does not call the script."""
    with scripted_claude(SCRIPT) as server, Anthropic(base_url=server.url, api_key="none needed") as client:
        asked: Any = {"model": "claude-sonnet-5-5", "messages": HELLO, "tools": [TOOL], "system": "Be kind."}
        counted = client.messages.count_tokens(**asked)
        assert server.state()["requests"] == 0
        used = client.messages.create(**asked, max_tokens=10)
        assert counted.input_tokens == used.usage.input_tokens
        assert client.beta.messages.count_tokens(**asked).context_management is None


def test_a_count_with_edits_has_both_sizes() -> None:
    edits = management(thinking({"type": "thinking_turns", "value": 1}), clearing())
    thought: Any = {"thinking": {"type": "adaptive"}}
    asked: Any = {"model": "claude-sonnet-5-5", "messages": uses(10), "tools": [READ]}
    with scripted_claude(lambda _seen: "Fine.") as server:
        with Anthropic(base_url=server.url, api_key="none needed") as client:
            edited: Any = {**asked, **thought, "betas": [CONTEXT_BETA], "context_management": edits}
            original = client.messages.count_tokens(**asked).input_tokens
            counted = client.beta.messages.count_tokens(**edited)
        used = ask(server, "plain", **asked, **thought, context_management=edits).usage
    assert counted.context_management is not None
    assert (counted.context_management.original_input_tokens, counted.input_tokens) == (original, used.input_tokens)
    assert counted.input_tokens < original


async def _counted(url: str) -> int:
    async with AsyncAnthropic(base_url=url, api_key="none needed") as client:
        return (await client.messages.count_tokens(model="claude-sonnet-5-5", messages=HELLO)).input_tokens


def test_an_async_client_counts_too() -> None:
    import asyncio

    with scripted_claude(SCRIPT) as server:
        assert asyncio.run(_counted(server.url)) == prompt_tokens(
            Conversation((Message("user", ({"type": "text", "text": HELLO[0]["content"]},)),), None, ())
        )


def test_an_invalid_request_is_not_counted() -> None:
    claude = ScriptedClaude(SCRIPT)
    for body in (b"{", b'{"model": "claude-sonnet-5-5"}', b'{"model": "claude-sonnet-5-5", "messages": []}'):
        counted: Any = claude.count({"x-api-key": "key", "anthropic-version": "2023-06-01"}, body)
        assert counted.status == 400


def cached(server: ScriptedClaude, **fields: Any) -> tuple[int, int, int]:
    """Tokens of a request at full price, written to the cache and read from it."""
    _, reply = post(server, **fields)
    usage = reply["usage"]
    return usage["input_tokens"], usage["cache_creation_input_tokens"], usage["cache_read_input_tokens"]


LONG_PROMPT = [{"type": "text", "text": "x" * 8_000, "cache_control": {"type": "ephemeral"}}]


def test_a_cached_prefix_is_read_by_the_next_request() -> None:
    with scripted_claude(Script((Turn(("One.",)), Turn(("Two.",))))) as server:
        full, written, read = cached(server, system=LONG_PROMPT)
        assert (written > 2_000, read) == (True, 0)
        assert cached(server, system=LONG_PROMPT) == (full, 0, written)
        other = [{**LONG_PROMPT[0], "text": "y" * 8_000}]
        assert cached(server, system=other)[2] == 0
        assert cached(server, system="x" * 8_000) == (full + written, 0, 0)


def test_a_conversation_grows_from_the_cache() -> None:
    """`cache_control` of the request is a breakpoint at the last block, and the next request finds it."""
    with scripted_claude(Script((Turn(("One.",)), Turn(("Two.",))))) as server:
        marked: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
        asked = [{"role": "user", "content": "a" * 8_000}]
        _, written, _ = cached(server, messages=asked, **marked)
        longer = [*asked, {"role": "assistant", "content": "One."}, {"role": "user", "content": "b" * 4_000}]
        full, more, read = cached(server, messages=longer, **marked)
        assert (full, read) == (0, written)
        assert 1_000 < more < 1_100


def test_a_short_prompt_is_not_cached() -> None:
    with scripted_claude(Script((Turn(("One.",)),))) as server:
        assert cached(server, tools=[], cache_control={"type": "ephemeral"})[1:] == (0, 0)


def test_five_breakpoints_are_refused() -> None:
    with scripted_claude(Script((Turn(("One.",)),))) as server:
        blocks = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}} for _ in range(5)]
        status, reply = post(server, messages=[{"role": "user", "content": blocks}])
        assert (status, "Found 5" in str(reply)) == (400, True)
