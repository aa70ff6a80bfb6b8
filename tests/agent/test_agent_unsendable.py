"""What can never be sent never gets into a conversation: one bad message, of whomever, does not end an agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

import retentive
from retentive import InvalidInput, MemoryStore
from retentive.agent import Agent, ApiFailed, AsyncAgent, Event, Finished, RequestRefused, Text, ToolCall, ToolReply
from retentive.agent.turns import DECLINED

from .canned import VIEW, Api, message, streamed_call, text, use
from .playing import KINDS

HALF = "/memories/\ud800"
both = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with retentive.open("sqlite://") as opened:
        yield opened.store()


class Asked:
    """An agent, sync or async, over an API of fixed answers."""

    def __init__(self, kind: str, api: Api, store: MemoryStore, **options: Any) -> None:
        self._kind, self._api, self._options = kind, api, {"memory": store, **options}
        self.messages: list[dict[str, Any]] = []

    def run(self, said: Any = None) -> list[Event]:
        """The events of a run of a new agent, which goes on with the conversation of the last."""
        if self._kind == "async":
            return asyncio.run(self._run(said))
        with self._api.client() as client:
            agent = Agent(client, messages=self.messages, **self._options)
            self.messages = agent.messages
            return list(agent.run(said))

    async def _run(self, said: Any) -> list[Event]:
        async with self._api.async_client() as client:
            agent = AsyncAgent(client, messages=self.messages, **self._options)
            self.messages = agent.messages
            return [event async for event in agent.run(said)]


def last(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


@both
def test_half_a_character_in_a_call_is_told_and_not_kept(kind: str, store: MemoryStore) -> None:
    """The memory sees what was sent and refuses it; the conversation has U+FFFD, and goes on."""
    api = Api(message([use({"command": "view", "path": HALF})], "tool_use"), message([text("Ah.")]))
    asked = Asked(kind, api, store)
    events = asked.run("Entry.")
    assert last(events).text == "Ah."
    (reply,) = [event for event in events if isinstance(event, ToolReply)]
    assert (reply.is_error, "U+D800" in reply.text) == (True, True)
    assert asked.messages[1]["content"][0]["input"] == {"command": "view", "path": "/memories/\ufffd"}
    assert last(asked.run("Again.")).text == "Ah."
    assert json.dumps(asked.messages, ensure_ascii=False).encode()


@both
def test_half_a_character_in_a_text_is_shown_as_one_that_is_missing(kind: str, store: MemoryStore) -> None:
    asked = Asked(kind, Api(message([text("bad \ud83d")]), message([text("good \ud83d\ude00")])), store)
    events = asked.run("Hi.")
    assert ([event.text for event in events if isinstance(event, Text)], last(events).text) == (
        ["bad \ufffd"],
        "bad \ufffd",
    )
    assert last(asked.run("Again.")).text == "good \U0001f600"


@pytest.mark.parametrize(
    "said",
    ["\ud800", "", " \n", [], 5, {}, b"hi", ["hi"], [{}], [text("")], [text("a"), text(" ")], [text("\udfff")]],
    ids=repr,
)
def test_a_message_that_cannot_be_sent_is_not_said(said: Any, store: MemoryStore) -> None:
    with Api(message([text("Yes?")])).client() as client:
        agent = Agent(client, memory=store)
        with pytest.raises(InvalidInput, match="message"):
            list(agent.run(said))
        assert agent.messages == []
        assert agent.ask("Hello?") == "Yes?"


@both
def test_what_the_api_does_not_take_is_taken_back(kind: str, store: MemoryStore) -> None:
    """It would not take it with the next message either."""
    said = {"type": "error", "error": {"type": "invalid_request_error", "message": "could not process image"}}
    api = Api(message([text("Hello.")]), httpx2.Response(400, json=said), message([text("Better.")]))
    asked = Asked(kind, api, store)
    asked.run("Hello?")
    with pytest.raises(RequestRefused, match="could not process image"):
        asked.run([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "none"}}])
    assert [turn["role"] for turn in asked.messages] == ["user", "assistant"]
    assert last(asked.run("And now?")).text == "Better."


def test_what_another_request_was_refused_for_stays(store: MemoryStore) -> None:
    """A model that is not there, say: the message is not to blame. Nor is one that was answered before."""
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


def test_a_text_without_a_word_is_not_sent_back(store: MemoryStore) -> None:
    """Models write some before a call; the API refuses them in a request."""
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
def test_an_answer_that_is_no_message_is_a_failure_of_the_api(kind: str, answer: Any, store: MemoryStore) -> None:
    whole = httpx2.Response(200, text=json.dumps(answer), headers={"content-type": "application/json"})
    asked = Asked(kind, Api(whole, message([text("Here I am.")])), store)
    with pytest.raises(ApiFailed, match="sent a malformed response") as failed:
        asked.run("Hello?")
    assert failed.value.retryable
    assert last(asked.run()).text == "Here I am."


@both
@pytest.mark.parametrize(
    "partial_json",
    ['{"command": "create", "path": "/memories/a", "file_text": "x\\ud83d"}', '{"command": view}'],
)
def test_a_streamed_call_that_cannot_be_read_is_a_failure_of_the_api(
    kind: str, partial_json: str, store: MemoryStore
) -> None:
    asked = Asked(kind, Api(streamed_call(partial_json)), store, stream=True)
    with pytest.raises(ApiFailed, match="sent a malformed response") as failed:
        asked.run("Note it.")
    assert "command" not in str(failed.value)
    assert [turn["role"] for turn in asked.messages] == ["user"]
    assert list(store.memories()) == []


def test_a_stream_without_a_beginning_is_a_failure_of_the_api(store: MemoryStore) -> None:
    body = 'event: message_stop\ndata: {"type": "message_stop"}\n\n'
    with pytest.raises(ApiFailed, match="sent a malformed response"):
        Asked("sync", Api(body), store, stream=True).run("Hello?")


@both
def test_calls_in_a_paused_turn_are_run(kind: str, store: MemoryStore) -> None:
    """The API takes no call without its result; and the turn goes on with it."""
    api = Api(message([text("Searching."), use(VIEW)], "pause_turn"), message([text("Found.")]))
    asked = Asked(kind, api, store)
    events = asked.run("Search.")
    assert [type(event) for event in events if isinstance(event, ToolCall | ToolReply)] == [ToolCall, ToolReply]
    assert last(events).text == "Found."
    kinds = [[block["type"] for block in turn["content"]] for turn in api.sent[1]["messages"]]
    assert kinds == [["text"], ["text", "tool_use"], ["tool_result"]]
    assert len(api.sent) == 2


@both
def test_calls_in_a_reply_that_was_declined_are_told_not_to_have_run(kind: str, store: MemoryStore) -> None:
    note = {"command": "create", "path": "/memories/a", "file_text": "x"}
    asked = Asked(kind, Api(message([use(note)], "refusal")), store)
    events = asked.run("Do it.")
    (reply,) = [event for event in events if isinstance(event, ToolReply)]
    assert reply == ToolReply("t1", "memory", DECLINED, is_error=True)
    assert last(events).reason == "refusal"
    assert [turn["role"] for turn in asked.messages] == ["user"]
    assert list(store.memories()) == []


@both
def test_a_tool_that_is_not_there_is_the_models_affair(kind: str, store: MemoryStore) -> None:
    """It is told so; no warning of the SDK reaches the application, whose tests may make errors of warnings."""
    api = Api(message([use({}, name="ghost\nof")], "tool_use"), message([text("No ghosts.")]))
    events = Asked(kind, api, store).run("Call.")
    (reply,) = [event for event in events if isinstance(event, ToolReply)]
    assert (reply.is_error, reply.text) == (True, "Error: Tool 'ghost\nof' not found")
    assert last(events).text == "No ghosts."
