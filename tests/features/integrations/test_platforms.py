"""The memory tools with the SDK's clients for other cloud platforms."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import pytest

from retentive import MemoryStore, MemoryTool
from retentive.testing.scripted_claude import ScriptedClaude
from support.places import OpenPlace

from .conversations import KEY, MODEL, STORY, story

ASK: dict[str, Any] = {"model": MODEL, "max_tokens": 1_000, "messages": [{"role": "user", "content": "Hello"}]}
HELD = {"Anthropic", "AnthropicFoundry"}  # these clients first try a message thread
_PATH = re.compile(r"/model/(?P<bedrock>[^/]+)/invoke|.*/publishers/anthropic/models/(?P<vertex>[^/]+):rawPredict")
CLIENTS: dict[str, dict[str, Any]] = {
    "Anthropic": {"api_key": KEY},
    "AnthropicBedrock": {"api_key": KEY, "aws_region": "eu-central-1"},
    "AnthropicBedrockMantle": {"api_key": KEY, "aws_region": "eu-central-1"},
    "AnthropicVertex": {"access_token": KEY, "region": "europe-west1", "project_id": "project"},
    "AnthropicFoundry": {"api_key": KEY, "resource": "resource"},
}


@pytest.fixture
def store(open_place: OpenPlace) -> MemoryStore:
    return open_place("sqlite://").store()


@pytest.fixture
def claude(open_place: OpenPlace) -> ScriptedClaude:
    """Scripted Claude without message threads, because some platforms do not support threads."""
    return ScriptedClaude(story(open_place("sqlite://").store()), threads=False)


def platform(claude: ScriptedClaude) -> Callable[[httpx2.Request], httpx2.Response]:
    """Transport that reverts the changes of a platform client to a request: model, version and betas."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        headers = {name.lower(): value for name, value in request.headers.items()}
        if found := _PATH.fullmatch(request.url.path):
            body["model"] = found["bedrock"] or found["vertex"]
            headers["anthropic-version"] = body.pop("anthropic_version")
            headers["anthropic-beta"] = ",".join(body.pop("anthropic_beta", [])) or headers.get("anthropic-beta", "")
        claude.answer(headers, json.dumps(body).encode())
        exchange = claude.requests[-1]
        return httpx2.Response(exchange.status, json=dict(exchange.reply))

    return handle


@pytest.mark.parametrize("name", CLIENTS)
def test_the_tool_runs_with_each_client(name: str, claude: ScriptedClaude, store: MemoryStore) -> None:
    with httpx2.Client(transport=httpx2.MockTransport(platform(claude))) as http:
        client = getattr(anthropic, name)(http_client=http, max_retries=0, **CLIENTS[name])
        runner = client.beta.messages.tool_runner(tools=[MemoryTool(store)], **ASK)
        assert runner.until_done().content[0].text == "That is all."
    assert claude.failures == []
    assert sum(exchange.status == 200 for exchange in claude.requests) == len(STORY) + 1
    first = claude.requests[0].body
    assert isinstance(first, dict)
    assert ("thread" in first) == (name in HELD)
