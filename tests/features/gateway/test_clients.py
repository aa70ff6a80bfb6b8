"""Unmodified clients through the gateway: each gets its answer, the model its memory, and no request is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import beta_tool

from retentive.testing.scripted_claude import Call, Check, Prompt, Script, Turn
from support import node

from .gateways import BYE, HELLO, MODEL, NOTES, TOOL, Place, gateway, said

CREATE = Call({"command": "create", "path": NOTES, "file_text": "tea\n"}, Check(contains=("created",)))
VIEW = Call({"command": "view", "path": NOTES}, Check(contains=("tea",)))
WEATHER = Call({"city": "Rome"}, Check(text="sunny"), "weather")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OWN: Any = {"name": "weather", "description": "Weather of a city", "input_schema": SCHEMA}
SCRIPT = Script((Turn(("I look. ", CREATE)), Turn((VIEW, WEATHER)), Turn(("And then ", VIEW)), "It is sunny.", "Bye."))
"""A memory call, a memory call beside one of the app, another memory call, an answer; then a second question."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with gateway(SCRIPT, f"sqlite:///{tmp_path}/memory.db") as found:
        yield found


@beta_tool
def weather(city: str) -> str:
    """Weather of a city."""
    return "sunny"


def given(messages: list[Any]) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 1_000, "tools": [OWN, TOOL], "messages": messages}


def loop(ask: Callable[[list[Any]], Any]) -> list[str]:
    """A loop as apps have it, for two questions. Returns the texts of the answers."""
    messages, texts = list[Any](), list[str]()
    for question in (HELLO, BYE):
        messages.append(question)
        message = ask(messages)
        while message.stop_reason == "tool_use":
            calls = [block for block in message.content if block.type == "tool_use"]
            assert [block.name for block in calls] == ["weather"]
            messages.append({"role": "assistant", "content": message.content})
            messages.append(
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": each.id, "content": "sunny"} for each in calls],
                }
            )
            message = ask(messages)
        messages.append({"role": "assistant", "content": message.content})
        texts.append(said(message))
    return texts


def create(client: Any, messages: list[Any]) -> Any:
    return client.messages.create(**given(messages))


def beta_create(client: Any, messages: list[Any]) -> Any:
    return client.beta.messages.create(**given(messages), betas=["context-management-2025-06-27"])


def stream(client: Any, messages: list[Any]) -> Any:
    with client.messages.stream(**given(messages)) as events:
        assert [event.type for event in events][-1] == "message_stop"
        return events.get_final_message()


def beta_stream(client: Any, messages: list[Any]) -> Any:
    with client.beta.messages.stream(**given(messages)) as events:
        return events.get_final_message()


def raw_events(client: Any, messages: list[Any]) -> Any:
    """The events of `create(stream=True)`: their indices count up."""
    content = list[Any]()
    for event in client.beta.messages.create(**given(messages), stream=True):
        if event.type == "content_block_start":
            assert event.index == len(content)
            content.append(event.content_block)
    assert content
    return beta_stream(client, messages)  # the same body: it goes on after the same turns


def raw_response(client: Any, messages: list[Any]) -> Any:
    response = client.messages.with_raw_response.create(**given(messages))
    assert response.headers["request-id"].startswith("req_scripted_")
    assert response.headers["x-scripted-claude"]
    return response.parse()


def streamed_response(client: Any, messages: list[Any]) -> Any:
    with client.messages.with_streaming_response.create(**given(messages)) as response:
        return response.parse()


ASKED = (create, beta_create, stream, beta_stream, raw_events, raw_response, streamed_response)


def check(place: Place, texts: list[str]) -> None:
    assert texts == ["And then It is sunny.", "Bye."]
    assert not [exchange.reply for exchange in place.claude.requests if exchange.status != 200]
    assert place.store.read(NOTES) == "tea\n"
    assert len(place.store.history.changes(NOTES)) == 1


@pytest.mark.parametrize("ask", ASKED, ids=lambda ask: ask.__name__)
def test_sdk(place: Place, ask: Callable[[Any, list[Any]], Any]) -> None:
    with place.client() as client:
        check(place, loop(lambda messages: ask(client, messages)))
    if ask is not raw_events:
        place.claude.verify()


@pytest.mark.parametrize("streams", [False, True])
def test_asynchronous_sdk(place: Place, *, streams: bool) -> None:
    async def ask(messages: list[Any]) -> Any:
        async with anthropic.AsyncAnthropic(**place.options()) as client:
            if not streams:
                return await client.beta.messages.create(**given(messages))
            async with client.messages.stream(**given(messages)) as events:
                return await events.get_final_message()

    check(place, loop(lambda messages: asyncio.run(ask(messages))))
    place.claude.verify()


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("threads", [False, True])
def test_tool_runner(place: Place, *, threads: bool, streams: bool) -> None:
    """The runner declares the memory tool, and goes on without a message thread."""
    more: dict[str, Any] = {} if threads else {"thread": False}
    with place.client() as client:
        runner: Any = client.beta.messages.tool_runner(
            model=MODEL, max_tokens=1_000, tools=[weather, TOOL], messages=[HELLO], stream=streams, **more
        )
        message = runner.until_done()
    assert said(message) == "And then It is sunny."
    assert all(exchange.status == 200 for exchange in place.claude.requests)
    assert len(place.claude.requests) == 4


def test_langchain(place: Place) -> None:
    anthropic_of = pytest.importorskip("langchain_anthropic")
    from langchain_core.messages import ToolMessage

    options = place.options()
    model = anthropic_of.ChatAnthropic(
        model=MODEL, base_url=options["base_url"], api_key="sk", default_headers=options["default_headers"]
    ).bind_tools([OWN, TOOL])
    messages: list[Any] = [("user", "hello")]
    answer = model.invoke(messages)
    assert [call["name"] for call in answer.tool_calls] == ["weather"]
    messages += [answer, ToolMessage("sunny", tool_call_id=answer.tool_calls[0]["id"])]
    answer = model.invoke(messages)
    assert answer.text.endswith("It is sunny.")
    answer = model.invoke([*messages, answer, ("user", "bye")])
    assert answer.text == "Bye."
    place.claude.verify()


def test_a_key_in_the_url_is_for_apps_that_set_no_header(place: Place) -> None:
    with anthropic.Anthropic(base_url=place.in_url, api_key="sk-of-the-app") as client:
        check(place, loop(lambda messages: create(client, messages)))
    (sent,) = {exchange.headers["authorization"] for exchange in place.claude.requests}
    assert sent == "Bearer sk-of-the-app"
    assert not [name for exchange in place.claude.requests for name in exchange.headers if "retentive" in name]
    assert place.key not in json.dumps([dict(exchange.headers) for exchange in place.claude.requests])


@pytest.mark.long
def test_typescript(tmp_path: Path) -> None:
    folder = node.modules(node.SDK)

    def model(prompt: Prompt) -> Any:
        number = len([message for message in prompt.messages if message.role == "assistant"])
        name = prompt.opening.removeprefix("hello ")
        create = Call({**CREATE.input, "path": f"/memories/{name}"})
        assert all(call.result is not None for call in prompt.calls)
        turns = (
            ("I look. ", create),
            (Call({**VIEW.input, "path": f"/memories/{name}"}), WEATHER),
            "It is sunny.",
            "Bye.",
        )
        return turns[number]

    with gateway(model, f"sqlite:///{tmp_path}/memory.db") as place:
        said_by_all = node.output(
            Path(__file__).with_name("every_way.mjs"), tmp_path, folder, GATEWAY=place.url, KEY=place.key
        )
        ways = ("create", "stream", "beta", "beta stream")
        assert said_by_all.splitlines() == [f"{way} {text}" for way in ways for text in ("It is sunny.", "Bye.")]
        assert not place.claude.failures
        assert len(place.store.history.log()) == 4
