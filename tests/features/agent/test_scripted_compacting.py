"""Compaction: the block at the start of the response, the ignored messages, the token usage, and pauses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic import Anthropic, beta_tool

from retentive.testing.scripted_claude import (
    Call,
    Check,
    Prompt,
    Script,
    ScriptedClaude,
    Turn,
    scripted_claude,
)
from retentive.testing.scripted_claude.tokens import text_tokens

from .requests import (
    ASK,
    COMPACT_BETA,
    CONTEXT,
    HELLO,
    READ,
    WAYS,
    ask,
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
