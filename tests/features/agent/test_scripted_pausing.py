"""Paused turns: the client sends the response back unchanged, and the turn continues."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import BadRequestError

from retentive.agent import Agent, Finished
from retentive.testing.scripted_claude import Call, Check, Prompt, Script, ScriptedClaude, Turn, scripted_claude

from .requests import HELLO, WAYS, ask, post
from .runs import client_of

PAUSED = Turn(("Searching.",), "pause_turn")
LOOK = Call({"command": "view", "path": "/memories"}, Check(contains=("/memories",)))
STORY = Script((PAUSED, Turn(("Still searching.",), "pause_turn"), Turn(("Found.",)), Turn(("You are welcome.",))))


def answer(prompt: Prompt) -> Turn | str:
    return "Found." if "Searching." in prompt.text else PAUSED


@pytest.mark.parametrize("way", WAYS)
def test_a_paused_turn_continues(way: str) -> None:
    """The response is sent back in one message or in several messages, which the API merges."""
    with scripted_claude(STORY) as server:
        messages: list[Any] = [*HELLO]
        for reason in ("pause_turn", "pause_turn", "end_turn"):
            reply = ask(server, way, messages=messages)
            assert reply.stop_reason == reason
            messages = [*messages, {"role": "assistant", "content": reply.content}]
        assert reply.content[0].text == "Found."
        thanks = {"role": "user", "content": "Thanks."}
        assert ask(server, way, messages=[*messages, thanks]).content[0].text == "You are welcome."
        joined = [block for message in messages[1:] for block in message["content"]]
        joint = [*HELLO, {"role": "assistant", "content": joined}, thanks]
        assert ask(server, way, messages=joint).content[0].text == "You are welcome."
        assert server.failures == []


def test_a_function_can_pause() -> None:
    with scripted_claude(answer) as server:
        paused = ask(server, "plain")
        reply = {"role": "assistant", "content": [block.model_dump() for block in paused.content]}
        assert ask(server, "plain", messages=[*HELLO, reply]).content[0].text == "Found."
        assert server.failures == []


def test_a_server_tool_block_can_end_a_conversation() -> None:
    """The conversation may end with a server tool block of any server that paused the turn."""
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tea"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    for content in ([use], [use, found]):
        claude = ScriptedClaude(answer)
        assert post(claude, messages=[*HELLO, {"role": "assistant", "content": content}])[0] == 200


def test_other_assistant_messages_cannot_end_a_conversation() -> None:
    """A paused response that was changed cannot end a conversation either."""
    with scripted_claude(Script((PAUSED, Turn(("Found.",))))) as server:
        ask(server, "plain")
        for text in ("Searching", "Found."):
            reply = {"role": "assistant", "content": [{"type": "text", "text": text}]}
            with pytest.raises(BadRequestError, match="prefill"):
                ask(server, "plain", messages=[*HELLO, reply])


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_returns_the_whole_text_of_a_paused_turn(stream: bool) -> None:
    """The tool calls in a paused response run as in any other response."""
    searching = Turn(("Let me see.", LOOK), "pause_turn")
    with scripted_claude(Script((searching, *STORY.turns))) as server, client_of(server.url) as client:
        with Agent(client, memory="sqlite://", stream=stream) as agent:
            finished = list(agent.run("Search."))[-1]
            assert isinstance(finished, Finished)
            assert (finished.reason, finished.text) == ("end_turn", "Searching.\n\nStill searching.\n\nFound.")
            assert agent.ask("Thanks.") == "You are welcome."
        assert server.failures == []
