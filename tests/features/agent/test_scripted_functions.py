"""Script functions, called in the test process or in a separate server process without state."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, BadRequestError

from retentive import MemoryTool
from retentive.testing.scripted_claude import Call, Prompt, Result, ScriptedClaude, Thinking, Turn, scripted_claude

from .requests import (
    ASK,
    HELLO,
    READ,
    TOOL,
    WAYS,
    ask,
    assistant_call,
    clearing,
    management,
    open_url,
    post,
    result,
    uses,
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


def test_a_prompt_has_the_whole_request() -> None:
    claude = ScriptedClaude(lambda _seen: "Fine.")
    messages = [
        *HELLO,
        assistant_call("view"),
        result([{"type": "text", "text": "yes"}, {"type": "image"}], is_error=True),
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
        (Thinking("Hm."), [{"type": "thinking", "thinking": "Hm.", "signature": "scripted_0_0"}]),
        (Call({}, name="read"), [{"type": "tool_use", "id": "toolu_scripted_0_0", "name": "read", "input": {}}]),
    ],
)
def test_a_function_returns_blocks_or_a_turn(answer: Any, content: list[Any]) -> None:
    turn = Turn(tuple(answer) if isinstance(answer, list) else (answer,))
    for function in (lambda _seen: answer, lambda _seen: turn):
        claude = ScriptedClaude(function, new_suffix=lambda: "0")
        assert post(claude, tools=[READ])[1]["content"] == content


def failing(prompt: Prompt) -> str:
    raise LookupError(f"{len(prompt.calls)} calls")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (failing, "script 'failing', turn 1: the function raised LookupError('0 calls')"),
        (lambda _seen: 5, "a script function must return a Turn, or strings, Calls and Thinking, got 5"),
        (lambda _seen: [], "a turn must have at least one block"),
        (lambda _seen: Call({}, name="write"), "'write' is not in the request"),
    ],
)
def test_an_invalid_return_value_is_a_failure(function: Any, message: str) -> None:
    claude = ScriptedClaude(function)
    status, reply = post(claude)
    assert (status, message in reply["error"]["message"]) == (400, True)
    assert len(claude.failures) == 1


MODULE = """
from retentive.testing.scripted_claude import Call, Prompt


def answer(prompt: Prompt) -> str | Call:
    return f"{len(prompt.calls)} calls, {[call.cleared for call in prompt.calls].count(True)} cleared, {prompt.warning}"


def summarize(prompt: Prompt) -> str:
    return f"{len(prompt.calls)} calls"


number = 5
"""


@contextmanager
def serve_function(directory: Path, *arguments: str) -> Iterator[str]:
    """Start a server process and yield its URL. The process must exit without a failure."""
    (directory / "telling.py").write_text(MODULE)
    command = [sys.executable, "-m", "retentive.testing.scripted_claude", *arguments]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.send_signal(signal.SIGTERM)
            errors = server.communicate(timeout=30)[1]
    assert (server.returncode, "not from a model" in errors) == (0, True)


def test_a_function_is_served_without_state(tmp_path: Path) -> None:
    """All options are used: window, summary, choices and faults. Threads are not supported."""
    choices = json.dumps({"warning": "Soon.", "warn_without_memory": True})
    options = ["--context-window", "70000", "--summarize", "telling:summarize", "--choices", choices]
    with serve_function(tmp_path, "telling:answer", *options, "--fault", "2=529", "--fault", "3=cut") as url:
        other = ScriptedClaude()
        other.url = url
        edits = management(clearing(over=12_000))
        first = ask(other, "plain", messages=uses(10), context_management=edits)
        assert first.content[0].text == "10 calls, 0 cleared, Soon."
        edits = management(clearing(over=11_000), {"type": "compact_20260112"})
        assert ask(other, "streamed", retries=2, messages=uses(10), context_management=edits).content[0].text == (
            "10 calls, 8 cleared, None"
        )
        with pytest.raises(BadRequestError, match="> 70000 maximum"):
            ask(other, "plain", messages=uses(80))
        with Anthropic(base_url=url, api_key="none needed") as client, pytest.raises(BadRequestError) as threaded:
            client.beta.messages.create(
                **ASK, messages=HELLO, betas=["message-threads-2026-08-12"], thread={"type": "create"}
            )
        assert threaded.value.error_code == "thread_unsupported_request"
        with open_url(f"{url}/scripted") as response:
            state = json.load(response)
    assert (state["requests"], state["cleared_tool_uses"], state["warnings"], state["failures"]) == (6, 8, 1, [])
    assert state["largest_prompt"] > 70_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere:answer"], "No module named 'nowhere'"),
        (["json:nothing"], "has no attribute 'nothing'"),
        (["sys:path"], "sys:path is not a function; expected"),
        (["nothing.json"], "No such file"),
        (["json:dumps", "--fault", "x"], "invalid fault 'x'"),
        (["json:dumps", "--choices", '{"warn": 1}'], "unknown choice 'warn'"),
    ],
)
def test_an_invalid_argument_is_a_usage_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from retentive.testing.scripted_claude.__main__ import main

    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("way", WAYS)
def test_recording_of_requests_can_be_turned_off(way: str) -> None:
    with scripted_claude(lambda _seen: "Fine.", keep_requests=False) as server:
        assert ask(server, way).content[0].text == "Fine."
        assert (server.requests, server.state()["requests"]) == ([], 1)
