"""Invalid content, from the user or from the model, never enters a conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

import retentive
from retentive import InvalidInput, MemoryStore
from retentive.agent import (
    Agent,
    ApiFailed,
    Event,
    Finished,
    RequestRefused,
    ServerToolCall,
    ServerToolResult,
    Text,
    ThinkingText,
    ToolCall,
    ToolReply,
    UsageReport,
)
from retentive.agent.turns import DECLINED
from support.fixed_api import VIEW, Api, message, streamed_call, text, use

from .runs import KINDS, FixedApiAgent

HALF = "/memories/\ud800"
both = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with retentive.open("sqlite://") as opened:
        yield opened.store()


def last(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


@both
def test_a_lone_surrogate_in_a_call_is_replaced(kind: str, store: MemoryStore) -> None:
    """The memory rejects the original input. The conversation contains U+FFFD instead, and it continues."""
    api = Api(message([use({"command": "view", "path": HALF})], "tool_use"), message([text("Ah.")]))
    asked = FixedApiAgent(kind, api, store)
    events = asked.run("Entry.")
    assert last(events).text == "Ah."
    (reply,) = [event for event in events if isinstance(event, ToolReply)]
    assert (reply.is_error, "U+D800" in reply.text) == (True, True)
    assert asked.messages[1]["content"][0]["input"] == {"command": "view", "path": "/memories/\ufffd"}
    assert last(asked.run("Again.")).text == "Ah."
    assert json.dumps(asked.messages, ensure_ascii=False).encode()


@both
def test_a_lone_surrogate_in_a_text_is_replaced(kind: str, store: MemoryStore) -> None:
    asked = FixedApiAgent(kind, Api(message([text("bad \ud83d")]), message([text("good \ud83d\ude00")])), store)
    events = asked.run("Hi.")
    assert ([event.text for event in events if isinstance(event, Text)], last(events).text) == (
        ["bad \ufffd"],
        "bad \ufffd",
    )
    assert last(asked.run("Again.")).text == "good \U0001f600"


@pytest.mark.parametrize(
    "invalid",
    ["\ud800", "", " \n", [], 5, {}, b"hi", ["hi"], [{}], [text("")], [text("a"), text(" ")], [text("\udfff")]],
    ids=repr,
)
def test_an_invalid_message_is_rejected(invalid: Any, store: MemoryStore) -> None:
    with Api(message([text("Yes?")])).client() as client:
        agent = Agent(client, memory=store)
        with pytest.raises(InvalidInput, match="message"):
            list(agent.run(invalid))
        assert agent.messages == []
        assert agent.ask("Hello?") == "Yes?"


@both
def test_a_rejected_message_is_removed(kind: str, store: MemoryStore) -> None:
    """The API would reject the message again, together with the next message."""
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": "could not process image"}}
    api = Api(message([text("Hello.")]), httpx2.Response(400, json=body), message([text("Better.")]))
    asked = FixedApiAgent(kind, api, store)
    asked.run("Hello?")
    with pytest.raises(RequestRefused, match="could not process image"):
        asked.run([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "none"}}])
    assert [turn["role"] for turn in asked.messages] == ["user", "assistant"]
    assert last(asked.run("And now?")).text == "Better."


def test_a_message_is_kept_if_it_is_not_the_cause(store: MemoryStore) -> None:
    """Examples are an unknown model and a message that was already answered."""
    error = {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}
    with Api(httpx2.Response(404, json=error)).client() as client:
        agent = Agent(client, memory=store)
        with pytest.raises(RequestRefused):
            agent.ask("Hello?")
        assert [turn["role"] for turn in agent.messages] == ["user"]
    with Api(message([use(VIEW)], "tool_use"), httpx2.Response(400, json=error)).client() as client:
        agent = Agent(client, memory=store)
        with pytest.raises(RequestRefused):
            agent.ask("Hello?")
        assert [turn["role"] for turn in agent.messages] == ["user", "assistant", "user"]


def test_blank_text_is_not_sent_back(store: MemoryStore) -> None:
    """Models sometimes write blank text before a call, but the API rejects blank text in requests."""
    api = Api(message([text("\n\n"), use(VIEW)], "tool_use"), message([text(" ")]), message([text("Yes?")]))
    with api.client() as client:
        agent = Agent(client, memory=store)
        agent.ask("Entry.")
        agent.ask("Well?")
    kinds = [[block["type"] for block in turn["content"]] for turn in api.sent[-1]["messages"]]
    assert kinds == [["text"], ["tool_use"], ["tool_result"], ["text"]]


UNREADABLE: list[Any] = [
    {},
    {"id": 1},
    [],
    "x",
    5,
    {"type": "error", "error": {"type": "overloaded_error", "message": "m"}},
    {**message([]), "content": [5]},
    {**message([]), "content": "x"},
    {**message([]), "stop_reason": None},
    message([{"type": "text"}]),
    message([{"type": "tool_use", "name": "memory", "input": {}}], "tool_use"),
]


@both
@pytest.mark.parametrize("answer", UNREADABLE, ids=repr)
def test_a_malformed_response_is_an_api_failure(kind: str, answer: Any, store: MemoryStore) -> None:
    whole = httpx2.Response(200, text=json.dumps(answer), headers={"content-type": "application/json"})
    asked = FixedApiAgent(kind, Api(whole, message([text("Here I am.")])), store)
    with pytest.raises(ApiFailed, match="sent a malformed response") as failed:
        asked.run("Hello?")
    assert failed.value.retryable
    assert last(asked.run()).text == "Here I am."


@both
@pytest.mark.parametrize(
    "partial_json",
    ['{"command": "create", "path": "/memories/a", "file_text": "x\\ud83d"}', '{"command": view}'],
)
def test_a_malformed_streamed_call_is_an_api_failure(kind: str, partial_json: str, store: MemoryStore) -> None:
    asked = FixedApiAgent(kind, Api(streamed_call(partial_json)), store, stream=True)
    with pytest.raises(ApiFailed, match="sent a malformed response") as failed:
        asked.run("Note it.")
    assert "command" not in str(failed.value)
    assert [turn["role"] for turn in asked.messages] == ["user"]
    assert list(store.memories()) == []


def test_a_stream_without_message_start_is_an_api_failure(store: MemoryStore) -> None:
    body = 'event: message_stop\ndata: {"type": "message_stop"}\n\n'
    with pytest.raises(ApiFailed, match="sent a malformed response"):
        FixedApiAgent("sync", Api(body), store, stream=True).run("Hello?")


@both
def test_a_turn_that_paused_at_a_text_continues_after_an_error(kind: str, store: MemoryStore) -> None:
    """The saved conversation contains the stop reason, so the text does not count as the whole answer."""
    failure = httpx2.Response(500, json={"type": "error", "error": {"type": "api_error", "message": "failed"}})
    api = Api(message([text("Searching.")], "pause_turn"), failure, message([text("Found.")]))
    asked = FixedApiAgent(kind, api, store)
    with pytest.raises(ApiFailed):
        asked.run("Search.")
    finished = last(asked.run())
    assert (finished.reason, finished.text) == ("end_turn", "Searching.\n\nFound.")
    assert len(api.sent) == 3
    assert last(asked.run()).text == "Searching.\n\nFound."
    assert len(api.sent) == 3


@both
def test_a_truncated_answer_is_still_truncated_when_it_is_resumed(kind: str, store: MemoryStore) -> None:
    api = Api(message([text("So far")], "max_tokens"))
    asked = FixedApiAgent(kind, api, store)
    assert [(last(asked.run(given)).reason, len(api.sent)) for given in ("Go.", None)] == [("max_tokens", 1)] * 2


@both
def test_calls_in_a_paused_turn_run(kind: str, store: MemoryStore) -> None:
    """The API requires a result for each call, so the calls run before the turn continues."""
    api = Api(message([text("Searching."), use(VIEW)], "pause_turn"), message([text("Found.")]))
    asked = FixedApiAgent(kind, api, store)
    events = asked.run("Search.")
    assert [type(event) for event in events if isinstance(event, ToolCall | ToolReply)] == [ToolCall, ToolReply]
    assert last(events).text == "Found."
    kinds = [[block["type"] for block in turn["content"]] for turn in api.sent[1]["messages"]]
    assert kinds == [["text"], ["text", "tool_use"], ["tool_result"]]
    assert len(api.sent) == 2


@both
def test_calls_in_a_declined_response_get_an_error_result(kind: str, store: MemoryStore) -> None:
    note = {"command": "create", "path": "/memories/a", "file_text": "x"}
    asked = FixedApiAgent(kind, Api(message([use(note)], "refusal")), store)
    events = asked.run("Do it.")
    (reply,) = [event for event in events if isinstance(event, ToolReply)]
    assert reply == ToolReply("t1", "memory", DECLINED, is_error=True)
    assert last(events).reason == "refusal"
    assert [turn["role"] for turn in asked.messages] == ["user"]
    assert list(store.memories()) == []


@both
def test_an_unknown_tool_is_reported_only_to_the_model(kind: str, store: MemoryStore) -> None:
    """The SDK's warning does not reach the application, which may turn warnings into errors in its tests."""
    api = Api(message([use({}, name="ghost\nof")], "tool_use"), message([text("No ghosts.")]))
    events = FixedApiAgent(kind, api, store).run("Call.")
    (reply,) = [event for event in events if isinstance(event, ToolReply)]
    assert (reply.is_error, reply.text) == (True, "Error: Tool 'ghost\nof' not found")
    assert last(events).text == "No ghosts."


@both
@pytest.mark.parametrize("stop_reason", ["end_turn", "max_tokens"])
def test_thinking_and_server_tools_are_reported_in_order(kind: str, stop_reason: str, store: MemoryStore) -> None:
    """A call of a server tool without its result is reported, and not sent back once the turn has ended."""
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "Where?", "signature": "s"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "tea"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s1",
            "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
        },
        text("Nothing."),
        {"type": "server_tool_use", "id": "s2", "name": "web_search", "input": {"query": "green tea"}},
    ]
    api = Api(message(blocks, stop_reason), message([text("Well.")]))
    asked = FixedApiAgent(kind, api, store)
    events = asked.run("Search.")
    assert [event for event in events if not isinstance(event, UsageReport | Finished)] == [
        ThinkingText("Where?"),
        ServerToolCall("s1", "web_search", {"query": "tea"}),
        ServerToolResult("s1", "web_search_tool_result", is_error=True),
        Text("Nothing."),
        ServerToolCall("s2", "web_search", {"query": "green tea"}),
    ]
    asked.run("And now?")
    assert api.sent[1]["messages"][1]["content"] == blocks[:4]
