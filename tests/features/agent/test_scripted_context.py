"""Context editing and compaction through the SDK: the prompt of the model, the response, usage and pauses."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import Anthropic, BadRequestError, beta_tool

from retentive.testing.scripted_claude import Call, Check, Prompt, Script, Turn, scripted_claude

from .requests import (
    ASK,
    COMPACT_BETA,
    HELLO,
    WAYS,
    ask,
    clearing,
    compacting,
    management,
    uses,
)


def fine(_seen: Prompt) -> str:
    return "Fine."


def summary(prompt: Prompt) -> str:
    return f"{len(prompt.calls)} files were read. {prompt.instructions or ''}"


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


@pytest.mark.parametrize("way", WAYS)
def test_a_response_starts_with_the_summary(way: str) -> None:
    """The summary replaces the complete prompt. Its token usage is listed separately from that of the message."""
    edits = management(compacting(instructions="Keep the names."))
    with scripted_claude(fine, summarize=summary) as server:
        reply = ask(server, way, messages=uses(20, chars=12_000), context_management=edits)
        compaction, text = reply.content
        assert (compaction.type, compaction.content.strip()) == ("compaction", "20 files were read. Keep the names.")
        assert (text.text, reply.stop_reason) == ("Fine.", "end_turn")
        assert reply.context_management.applied_edits == []
        first, second = reply.usage.iterations
        assert (first.type, second.type) == ("compaction", "message")
        assert (first.input_tokens > 60_000, first.output_tokens) == (True, 9)
        assert second.input_tokens == reply.usage.input_tokens < 2_000
        assert second.output_tokens == reply.usage.output_tokens == 2
        prompt = server.requests[-1].prompt
        assert prompt is not None
        assert (prompt.summary, prompt.calls) == (compaction.content, ())
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
        assert (server.failures, sum("iterations" in repr(each.reply) for each in server.requests)) == ([], 1)
