"""The scripted Claude works with the official SDK like the Messages API, in every mode of the SDK."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from anthropic import Anthropic
from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool

from retentive.testing.scripted_claude import (
    MODEL,
    ScriptedClaude,
    scripted_claude,
)

from .requests import ASK, HELLO, TOOL
from .runs import STORY, client_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NO_THREAD: dict[bool, dict[str, Any]] = {True: {}, False: {"thread": False}}


@pytest.fixture
def client(server: ScriptedClaude) -> Iterator[Anthropic]:
    with client_of(server.url) as opened:
        yield opened


def runner_of(client: Anthropic, place: Path, **options: Any) -> Any:
    """Return the SDK's tool runner with the SDK's own memory tool.

    The overloads of the runner do not accept `options`.
    """
    request = {**ASK, "messages": HELLO, "tools": [BetaLocalFilesystemMemoryTool(str(place))], **options}
    make: Any = client.beta.messages.tool_runner
    return make(**request)


def call(tool: BetaLocalFilesystemMemoryTool, block: Any) -> dict[str, Any]:
    try:
        result, is_error = tool.call(block.input), False
    except ToolError as error:
        result, is_error = str(error), True
    return {"type": "tool_result", "tool_use_id": block.id, "content": result, "is_error": is_error}


def own_loop(send: Callable[[list[Any]], Any], tool: BetaLocalFilesystemMemoryTool) -> Any:
    """The agent loop of common tutorials. A function sends the messages."""
    messages = copy.copy(HELLO)
    while (reply := send(messages)).stop_reason == "tool_use":
        results = [call(tool, block) for block in reply.content if block.type == "tool_use"]
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
    return reply


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


# --- the SDK's tool runner ---


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("threaded", [True, False], ids=["threads", "no threads"])
def test_the_sync_runner_plays_the_story(
    server: ScriptedClaude, client: Anthropic, tmp_path: Path, threaded: bool, stream: bool
) -> None:
    runner = runner_of(client, tmp_path, stream=stream, **NO_THREAD[threaded])
    assert text_of(runner.until_done()) == "You like tea, and I will remember it."
    assert_played(server, threaded=threaded)


def assert_played(server: ScriptedClaude, *, threaded: bool) -> None:
    """Check three requests without failures. In a thread, later requests contain only new messages and no tools."""
    assert server.failures == []
    bodies: list[Any] = [exchange.body for exchange in server.requests]
    assert [exchange.status for exchange in server.requests] == [200] * 3
    if threaded:
        assert [body["thread"]["type"] for body in bodies] == ["create", "continue", "continue"]
        assert [len(body["messages"]) for body in bodies] == [1, 1, 1]
        assert ["tools" in body for body in bodies] == [True, False, False]
    else:
        assert [len(body["messages"]) for body in bodies] == [1, 3, 5]
        assert not any("thread" in body for body in bodies)


def test_a_runner_falls_back_to_full_conversations(tmp_path: Path) -> None:
    """After the error `thread_unsupported_request`, the SDK sends the complete conversation."""
    with scripted_claude(STORY, threads=False) as server, client_of(server.url) as client:
        assert text_of(runner_of(client, tmp_path).until_done()) == "You like tea, and I will remember it."
    assert [exchange.status for exchange in server.requests] == [400, 200, 200, 200]
    assert server.failures == []


def test_a_response_in_a_thread_is_continued_once(server: ScriptedClaude, client: Anthropic, tmp_path: Path) -> None:
    runner_of(client, tmp_path).until_done()
    second = server.requests[1]
    exchange = server.answer(second.headers, json.dumps(second.body).encode())
    assert (exchange.status, "has already been continued" in str(exchange.reply)) == (400, True)


# --- own loops ---


@pytest.mark.parametrize("way", ["create", "stream", "beta create", "beta stream"])
def test_an_own_loop_plays_the_story(server: ScriptedClaude, client: Anthropic, tmp_path: Path, way: str) -> None:
    api: Any = client.beta.messages if way.startswith("beta") else client.messages
    request = {**ASK, "tools": [TOOL]}

    def send(messages: list[Any]) -> Any:
        if way.endswith("create"):
            return api.create(**request, messages=messages)
        with api.stream(**request, messages=messages) as stream:
            return stream.get_final_message()

    reply = own_loop(send, BetaLocalFilesystemMemoryTool(str(tmp_path)))
    assert text_of(reply) == "You like tea, and I will remember it."
    assert (reply.model, reply.id[:13], reply.stop_reason) == (MODEL, "msg_scripted_", "end_turn")
    assert_played(server, threaded=False)
