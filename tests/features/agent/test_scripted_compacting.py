"""Compaction: the block at the start of the response, the ignored messages, the token usage, and pauses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic import Anthropic, BadRequestError, beta_tool
from hypothesis import given

from retentive.testing.scripted_claude import (
    Call,
    Check,
    Prompt,
    Script,
    ScriptedClaude,
    Turn,
    scripted_claude,
)
from retentive.testing.scripted_claude.context import after_compaction
from retentive.testing.scripted_claude.messages import Message
from retentive.testing.scripted_claude.tokens import text_tokens

from .histories import blocks_of, histories
from .requests import (
    ASK,
    COMPACT_BETA,
    CONTEXT,
    HELLO,
    READ,
    TOOL,
    WAYS,
    ask,
    clearing,
    compacting,
    management,
    open_url,
    post,
    uses,
)

LONG = uses(20, chars=12_000)  # about 60,000 tokens
COMPACTED = management(compacting())


def fine(_seen: Prompt) -> str:
    return "Fine."


def summary(prompt: Prompt) -> str:
    return f"{len(prompt.calls)} files were read. {prompt.instructions or ''}"


def seen_by(claude: ScriptedClaude) -> Prompt:
    prompt = claude.requests[-1].prompt
    assert prompt is not None
    return prompt


# --- as a law ---


@given(histories(compacted=True))
def test_the_last_summary_replaces_earlier_messages(messages: tuple[Message, ...]) -> None:
    """Messages after the summary are unchanged, a second application changes nothing, and failed blocks are removed."""
    after = after_compaction(messages)
    summaries = [block for block in blocks_of(messages, "compaction") if block["content"]]
    everything = [block for message in messages for block in message.blocks]
    start = max((n for n, block in enumerate(everything) if block in summaries), default=0)
    left = [block for block in everything[start:] if block["type"] != "compaction" or block["content"]]
    assert [block for message in after for block in message.blocks] == left
    assert blocks_of(after, "compaction") == summaries[-1:]
    assert after_compaction(after) == after


# --- through the SDK ---


@pytest.mark.parametrize("way", WAYS)
def test_a_response_starts_with_the_summary(way: str) -> None:
    """The summary replaces the complete prompt. Its token usage is listed separately from that of the message."""
    with scripted_claude(fine, summarize=summary) as server:
        reply = ask(server, way, messages=LONG, context_management=COMPACTED)
        compaction, text = reply.content
        assert (compaction.type, compaction.content.strip()) == ("compaction", "20 files were read.")
        assert (text.text, reply.stop_reason) == ("Fine.", "end_turn")
        assert reply.context_management.applied_edits == []
        first, second = reply.usage.iterations
        assert (first.type, second.type) == ("compaction", "message")
        assert (first.input_tokens > 60_000, first.output_tokens) == (True, text_tokens(compaction.content))
        assert second.input_tokens == reply.usage.input_tokens < 2_000
        assert second.output_tokens == reply.usage.output_tokens == text_tokens("Fine.")
        assert (seen_by(server).summary, seen_by(server).calls) == (compaction.content, ())
        assert server.largest_prompt == first.input_tokens


@pytest.mark.parametrize("way", WAYS)
def test_messages_before_a_summary_are_ignored(way: str) -> None:
    """Messages before a summary are ignored even if the client sends them.

    A summary that is sent back adds no usage.
    """
    with scripted_claude(fine, summarize=summary) as server:
        first = ask(server, way, messages=LONG, context_management=COMPACTED)
        further: list[Any] = [{"role": "assistant", "content": first.content}, {"role": "user", "content": "And?"}]
        kept = ask(server, way, messages=[*LONG, *further], context_management=COMPACTED)
        prompt = seen_by(server)
        dropped = ask(server, way, messages=further, context_management=COMPACTED)
        assert seen_by(server) == prompt
        assert (prompt.summary, "<19>" in prompt.text) == (first.content[0].content, False)
        assert [message.role for message in prompt.messages] == ["assistant", "user"]
        for reply in (kept, dropped):
            assert [block.type for block in reply.content] == ["text"]
            assert (reply.usage.input_tokens, reply.usage.iterations) == (prompt.input_tokens, None)


def test_only_the_last_summary_counts() -> None:
    claude = ScriptedClaude(fine)
    blocks = [{"type": "compaction", "content": "old"}, {"type": "text", "text": "Well."}]
    newer = [{"type": "compaction", "content": "new"}, {"type": "text", "text": "Then."}]
    messages = [
        *HELLO,
        {"role": "assistant", "content": blocks},
        *HELLO,
        {"role": "assistant", "content": newer},
        *HELLO,
    ]
    assert post(claude, messages=messages, headers=CONTEXT)[0] == 200
    assert (seen_by(claude).summary, "Well." in seen_by(claude).text) == ("new", False)


def test_the_trigger_must_be_reached() -> None:
    """By default, a prompt of exactly the trigger's size is compacted."""
    claude = ScriptedClaude(fine)
    post(claude, messages=LONG, tools=[TOOL, READ])
    size = claude.largest_prompt
    for over, compacts in ((size, True), (size + 1, False)):
        asked = ScriptedClaude(fine)
        edits = management(compacting(over=over))
        _, reply = post(asked, headers=CONTEXT, messages=LONG, tools=[TOOL, READ], context_management=edits)
        assert (reply["content"][0]["type"] == "compaction") == compacts


@pytest.mark.parametrize("way", WAYS)
def test_a_compaction_can_pause(way: str) -> None:
    """A paused response contains only the summary.

    The conversation continues when the client sends it back with new content.
    """
    pausing = management(compacting(pause_after_compaction=True))
    with scripted_claude(fine, summarize=summary) as server:
        reply = ask(server, way, messages=LONG, context_management=pausing)
        assert ([block.type for block in reply.content], reply.stop_reason) == (["compaction"], "compaction")
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (0, 0)
        assert [entry.type for entry in reply.usage.iterations] == ["compaction"]
        paused: Any = {"role": "assistant", "content": reply.content}
        for messages in ([*LONG, paused], [paused], [paused, *HELLO]):
            going_on = ask(server, way, messages=messages, context_management=pausing)
            assert [block.type for block in going_on.content] == ["text"]
            assert seen_by(server).summary == reply.content[0].content


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_the_tool_runner_continues_after_a_pause(stream: bool) -> None:
    """The pause uses no turn of a fixed script, and the checks of the script still run."""

    @beta_tool
    def read(path: str) -> str:
        """Read a file.

        Args:
            path: which one
        """
        return path * 10_000

    script = Script(
        (
            Turn(("I read.", Call({"path": "a-large-file-"}, name="read"))),
            Turn((Call({"path": "a-larger-file-"}, Check(contains=("larger",)), name="read"),)),
            Turn(("Read.",)),
        )
    )
    edits = management(compacting(pause_after_compaction=True))
    with scripted_claude(script) as server, Anthropic(base_url=server.url, api_key="none needed") as client:
        make: Any = client.beta.messages.tool_runner
        runner = make(
            **ASK,
            messages=HELLO,
            tools=[read],
            betas=[COMPACT_BETA],
            context_management=edits,
            stream=stream,
            thread=False,
        )
        last = runner.until_done()
        assert last.content[0].text == "Read."
        assert (server.failures, server.state()["compactions"]) == ([], 1)


def test_custom_instructions_reach_the_summary() -> None:
    claude = ScriptedClaude(fine, summarize=summary)
    edits = management(compacting(instructions="Keep the names."))
    post(claude, messages=LONG, headers=CONTEXT, tools=[READ], context_management=edits)
    assert seen_by(claude).summary == "20 files were read. Keep the names."


def test_the_default_summary_has_the_task_and_the_calls() -> None:
    claude = ScriptedClaude(fine)
    post(claude, messages=LONG, headers=CONTEXT, tools=[READ], context_management=COMPACTED)
    assert seen_by(claude).summary == "Task: Remember that I like tea.\n20 tool calls were made."


def test_a_failed_compaction_changes_nothing() -> None:
    """The block of a failed compaction contains null.

    It does not pause the response and is ignored when it is sent back.
    """
    claude = ScriptedClaude(fine, summarize=lambda _seen: None)
    edits = management(compacting(pause_after_compaction=True))
    asked: Any = {"headers": CONTEXT, "tools": [READ], "context_management": edits}
    reply = post(claude, messages=LONG, **asked)[1]
    assert reply["content"] == [{"type": "compaction", "content": None}, {"type": "text", "text": "Fine."}]
    assert (reply["usage"]["input_tokens"] > 60_000, len(seen_by(claude).calls)) == (True, 20)
    back = [*HELLO, {"role": "assistant", "content": reply["content"]}, *HELLO]
    post(claude, messages=back, **asked)
    assert seen_by(claude).summary is None


def test_an_invalid_summary_is_a_failure() -> None:
    wrong: list[tuple[Any, str]] = [(lambda prompt: prompt.calls[99].name, "IndexError"), (lambda _seen: 5, "got 5")]
    for function, message in wrong:
        claude = ScriptedClaude(fine, summarize=function)
        reply = post(claude, messages=LONG, tools=[READ], headers=CONTEXT, context_management=COMPACTED)[1]
        assert message in reply["error"]["message"]
        assert len(claude.failures) == 1


def test_clearing_first_can_avoid_a_compaction() -> None:
    """The edits are applied in order, each to the result of the previous one."""
    claude = ScriptedClaude(fine)
    for edits, kinds in (
        ([clearing(keep=1), compacting()], ["text"]),
        ([compacting(), clearing(keep=1)], ["compaction", "text"]),
    ):
        reply = post(claude, messages=LONG, tools=[READ], headers=CONTEXT, context_management=management(*edits))[1]
        assert [block["type"] for block in reply["content"]] == kinds


def test_a_summary_removes_the_warning() -> None:
    claude = ScriptedClaude(fine)
    for edits, warned in (([clearing(over=70_000)], True), ([clearing(over=70_000), compacting()], False)):
        post(claude, messages=LONG, tools=[TOOL, READ], headers=CONTEXT, context_management=management(*edits))
        assert (seen_by(claude).warning is not None) == warned


def test_a_prompt_over_the_window_cannot_be_summarized() -> None:
    claude = ScriptedClaude(fine, context_window=55_000)
    status, reply = post(claude, messages=LONG, tools=[READ], headers=CONTEXT, context_management=COMPACTED)
    assert (status, "> 55000 maximum" in reply["error"]["message"]) == (400, True)


def test_counting_applies_summaries_but_creates_none() -> None:
    with scripted_claude(fine, summarize=summary) as server, Anthropic(base_url=server.url, api_key="none") as client:
        count: Any = client.beta.messages.count_tokens
        asked: Any = {
            "model": "claude-sonnet-5-5",
            "tools": [READ],
            "betas": [COMPACT_BETA],
            "context_management": COMPACTED,
        }
        before = count(messages=LONG, **asked)
        assert before.input_tokens == before.context_management.original_input_tokens > 60_000
        reply = ask(server, "plain", messages=LONG, tools=[READ], context_management=COMPACTED)
        after = count(messages=[*LONG, {"role": "assistant", "content": reply.content}, *HELLO], **asked)
        assert after.context_management.original_input_tokens > 60_000
        assert after.input_tokens < 2_000


def test_a_summary_is_streamed_in_one_piece() -> None:
    with scripted_claude(fine, summarize=lambda _seen: "long " * 100) as server:
        body = {**ASK, "messages": LONG, "tools": [READ], "stream": True, "context_management": COMPACTED}
        with open_url(f"{server.url}/v1/messages", body, headers=CONTEXT) as response:
            datas = [json.loads(line[6:]) for line in response.read().decode().split("\n") if line.startswith("data: ")]
    assert [data["type"] for data in datas[2:5]] == ["content_block_start", "content_block_delta", "content_block_stop"]
    assert datas[2]["content_block"] == {"type": "compaction", "content": None}
    assert datas[3]["delta"] == {"type": "compaction_delta", "content": "long " * 100}
    assert "iterations" not in datas[0]["message"]["usage"]
    assert [entry["type"] for entry in datas[-2]["usage"]["iterations"]] == ["compaction", "message"]


def test_compaction_on_request_is_rejected() -> None:
    """The SDK has a parameter for compaction on request, so the server must not ignore it silently."""
    with (
        scripted_claude(fine) as server,
        pytest.raises(BadRequestError, match="compaction on request is not played"),
    ):
        ask(server, "plain", messages=LONG, tools=[TOOL, READ], compaction={"type": "summarize"})
