"""Script functions, called in the test process or in a separate server process without state."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import Anthropic

from retentive import MemoryTool
from retentive.testing.scripted_claude import Call, Prompt, Result, ScriptedClaude, Thinking, Turn, scripted_claude

from .requests import (
    ASK,
    HELLO,
    READ,
    TOOL,
    assistant_call,
    post,
    result,
)


def use_memory(prompt: Prompt) -> Turn | Call | str:
    """Script that views the memory, records a new fact, and repeats the known facts."""
    if not prompt.calls:
        return Call({"command": "view", "path": "/memories"})
    if prompt.calls[-1].input["command"] == "create":
        return "Noted."
    listing = prompt.calls[0].result
    if listing is not None and "tea.md" in listing.text:
        return Turn(("You like tea.",))
    return Call({"command": "create", "path": "/memories/tea.md", "file_text": "likes tea\n"})


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("threads", [False, True], ids=["no threads", "threads"])
def test_an_agent_continues_from_its_memory(threads: bool, stream: bool) -> None:
    """The two conversations share only the memory."""
    tool = MemoryTool("sqlite://")
    with scripted_claude(use_memory, threads=threads) as server:
        replies = []
        for _ in range(2):
            with Anthropic(base_url=server.url, api_key="none needed") as client:
                make: Any = client.beta.messages.tool_runner
                replies.append(make(**ASK, messages=HELLO, tools=[tool], stream=stream).until_done().content[0].text)
    tool.close()
    assert replies == ["Noted.", "You like tea."]


PICTURE = {"type": "image", "source": {"type": "url", "url": "https://example.com/cat.png"}}


def test_a_prompt_has_the_whole_request() -> None:
    claude = ScriptedClaude(lambda _seen: "Fine.")
    messages = [
        *HELLO,
        assistant_call("view"),
        result([{"type": "text", "text": "yes"}, PICTURE], is_error=True),
    ]
    post(claude, messages=messages, system="Be kind.", tools=[TOOL, READ])
    prompt = claude.requests[-1].prompt
    assert prompt is not None
    assert (prompt.opening, prompt.system, prompt.tool_names) == (
        "Remember that I like tea.",
        "Be kind.",
        ("memory", "read"),
    )
    call = prompt.calls[0]
    assert (call.name, call.input, call.cleared) == ("memory", {"command": "view"}, False)
    assert call.result == Result("yes[image]", is_error=True)
    assert (prompt.summary, prompt.warning, prompt.instructions) == (None, None, None)
    assert all(part in prompt.text for part in ("Be kind.", "I like tea", "yes", "Read a file"))


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        ("Hm.", [{"type": "text", "text": "Hm."}]),
        (["Hm.", "So."], [{"type": "text", "text": "Hm."}, {"type": "text", "text": "So."}]),
        (Thinking("Hm."), [{"type": "thinking", "thinking": "Hm.", "signature": "scripted_6e72d95cb4b4fe16"}]),
        (
            Call({}, name="read"),
            [{"type": "tool_use", "id": "toolu_scripted_87194e11340606118b69fc87", "name": "read", "input": {}}],
        ),
    ],
)
def test_a_function_returns_blocks_or_a_turn(answer: Any, content: list[Any]) -> None:
    turn = Turn(tuple(answer) if isinstance(answer, list) else (answer,))
    for function in (lambda _seen: answer, lambda _seen: turn):
        claude = ScriptedClaude(function, new_suffix=lambda: "0")
        assert post(claude, tools=[READ])[1]["content"] == content
