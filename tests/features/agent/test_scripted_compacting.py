"""Compaction: the block at the start of the response, the ignored messages, the token usage, and pauses."""

from __future__ import annotations

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
