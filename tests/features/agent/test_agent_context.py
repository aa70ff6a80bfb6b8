"""Agents with context management. Edits and compactions are reported, and the conversation stays complete."""

from __future__ import annotations

from typing import Any

import pytest

from retentive import MemoryStore
from retentive.agent import (
    Compaction,
    EditsApplied,
    Finished,
    ToolCall,
    ToolReply,
    UsageReport,
    memory_context,
)
from retentive.testing.scripted_claude import Call, Prompt, Script, Thinking, Turn, scripted_claude

from .runs import KINDS, play

both = pytest.mark.parametrize("kind", KINDS)
streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
VIEW = Call({"command": "view", "path": "/memories"})
LONG = "word " * 60_000  # about 75,000 tokens, more than the minimum trigger of a compaction


@both
@streamed
def test_cleared_results_are_reported_and_kept(kind: str, stream: bool, store: MemoryStore) -> None:
    """The API clears results from the context of the model, but `agent.messages` keeps them."""
    one = {"type": "tool_uses", "value": 1}
    clear = {"type": "clear_tool_uses_20250919", "trigger": one, "keep": one}
    keep_thinking = {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}}
    context = {"edits": [keep_thinking, clear]}
    looks = tuple(Turn((Thinking("Again?"), VIEW)) for _ in range(3))
    with scripted_claude(Script((*looks, Turn(("Done.",)), *looks[:1], Turn(("Again.",))))) as server:
        request = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
        played = play(
            kind, server.url, "Entry.", "More.", memory=store, context=context, stream=stream, request=request
        )
        assert server.failures == []
        bodies: list[Any] = [exchange.body for exchange in server.requests]
    edits = [edit for event in played.of(EditsApplied) for edit in event.edits]
    assert any(edit.get("cleared_tool_uses") == 2 for edit in edits)
    assert any(edit.get("cleared_thinking_turns", 0) >= 1 for edit in edits)
    assert all(body["context_management"] == context for body in bodies)
    sent = [block for turn in bodies[-1]["messages"] for block in turn["content"]]
    assert [block["type"] for block in sent].count("thinking") == 4
    assert all("/memories" in block["content"] for block in sent if block["type"] == "tool_result")


@both
@streamed
def test_a_compaction_is_reported_kept_and_sent_back(kind: str, stream: bool, store: MemoryStore) -> None:
    """The block of the compaction is sent back unchanged, without the messages before it. Its tokens are counted."""

    def answer(prompt: Prompt) -> Turn | Call | str:
        if prompt.summary is None:
            return VIEW
        return "Done, by the summary." if prompt.calls else VIEW

    context = memory_context(compact_over=50_000)
    with scripted_claude(answer, summarize=lambda _seen: "They like tea.") as server:
        played = play(kind, server.url, LONG, memory=store, context=context, stream=stream)
        assert server.failures == []
        assert server.requests[0].headers["anthropic-beta"].endswith(",compact-2026-01-12")
        last: Any = server.requests[-1].body
    assert played.of(Compaction) == [Compaction("They like tea.")]
    (finished,) = played.of(Finished)
    assert (finished.reason, finished.text) == ("end_turn", "Done, by the summary.")
    report = played.of(UsageReport)[0]
    assert report.total_tokens > report.usage.total_tokens + 50_000
    assert finished.total_tokens > report.total_tokens
    block = last["messages"][0]["content"][0]
    assert (block["type"], block["content"]) == ("compaction", "They like tea.")
    assert last["messages"] == played.messages[1 : len(last["messages"]) + 1]


@both
@streamed
def test_a_run_pauses_after_compaction(kind: str, stream: bool, store: MemoryStore) -> None:
    """The application can add content during the pause. `run()` continues after the summary."""

    def answer(prompt: Prompt) -> Turn | Call | str:
        return f"I know: {prompt.summary} {prompt.messages[-1].text}".strip()

    context = {"edits": [memory_context(compact_over=50_000)["edits"][1] | {"pause_after_compaction": True}]}
    with scripted_claude(answer, summarize=lambda _seen: "They like tea.") as server:
        paused = play(kind, server.url, LONG, memory=store, context=context, stream=stream)
        assert [message["role"] for message in paused.messages] == ["user", "assistant"]
        on = play(kind, server.url, None, memory=store, context=context, stream=stream, messages=paused.messages)
        more = play(kind, server.url, "More?", memory=store, context=context, stream=stream, messages=paused.messages)
        assert server.failures == []
    assert [finished.reason for finished in paused.of(Finished)] == ["pause"]
    assert paused.of(Compaction) == [Compaction("They like tea.")]
    assert on.of(Finished)[0].text == "I know: They like tea."
    assert more.of(Finished)[0].text == "I know: They like tea. More?"


@both
def test_a_long_task_fits_a_small_window_with_a_memory(kind: str, store: MemoryStore) -> None:
    """The agent reads twelve results of 4,000 tokens in a window of 30,000, and records each before it is cleared."""
    pages = [f"Page {n}: the number is {n * 7}. {'filler ' * 2_500}" for n in range(12)]
    for n, page in enumerate(pages):
        store.create(f"/memories/in/{n:02}.txt", page)

    def answer(prompt: Prompt) -> Turn | Call | str:
        notes = [str(call.input["insert_text"]) for call in prompt.calls if call.input.get("command") == "insert"]
        done = len(notes)
        if done == len(pages):
            return f"The numbers are {', '.join(notes)}."
        last = prompt.calls[-1] if prompt.calls else None
        if last is not None and last.input["command"] == "view" and last.input["path"] == f"/memories/in/{done:02}.txt":
            assert last.result is not None
            number = last.result.text.split("the number is ")[1].split(".")[0]
            return Call({"command": "insert", "path": "/memories/n.txt", "insert_line": done, "insert_text": number})
        return Call({"command": "view", "path": f"/memories/in/{done:02}.txt"})

    store.create("/memories/n.txt", "")
    context = memory_context(clear_over=12_000, keep=2, clear_at_least=0, exclude_memory=False, compact_over=None)
    with scripted_claude(answer, context_window=30_000) as server:
        played = play(kind, server.url, "Add up.", memory=store, context=context)
        assert server.failures == []
        assert server.largest_prompt < 30_000
    assert played.error is None
    assert store.read("/memories/n.txt").split() == [str(n * 7) for n in range(12)]
    assert played.of(Finished)[0].text == f"The numbers are {', '.join(str(n * 7) for n in range(12))}."
    assert len(played.of(ToolCall)) == len(played.of(ToolReply)) == 24
