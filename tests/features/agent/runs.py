"""Runs of an agent, sync or async, against a scripted Claude."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx2
from anthropic import Anthropic, AsyncAnthropic

from retentive import MemoryStore
from retentive.agent import Agent, AgentError, AsyncAgent, Event, Text
from retentive.testing.scripted_claude import Call, Check, Script, Turn
from support.fixed_api import Api

E = TypeVar("E")
KINDS = ["sync", "async"]
TEA = "/memories/tea.md"
LOOK = Call({"command": "view", "path": "/memories"}, Check(contains=("0B\t/memories",)))
NOTE = Call({"command": "create", "path": TEA, "file_text": "likes tea\n"}, Check(contains=("created",)))
MISS = Call({"command": "view", "path": "/memories/none"}, Check(is_error=True))
STORY = Script(
    (
        Turn(("I look at what I know first.", LOOK)),
        Turn((NOTE, "And, in the same breath, I look for more:", MISS)),
        Turn(("You like tea, and I will remember it.",)),
    ),
    when="tea",
)


@dataclass
class Played:
    """The events of all runs, the conversation afterwards, and the error that ended the last run."""

    events: list[Event] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    saved: Any = None
    error: AgentError | None = None

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.of(Text))


def play(
    kind: str,
    url: str,
    *prompts: str | None,
    stop_at: type[Event] | None = None,
    max_retries: int = 0,
    **options: Any,
) -> Played:
    """Run an agent once for each prompt. A run is abandoned at the first event of type `stop_at`."""
    if kind == "async":
        return asyncio.run(_play_async(url, *prompts, stop_at=stop_at, max_retries=max_retries, **options))
    played = Played()
    with client_of(url, max_retries=max_retries) as client, Agent(client, **options) as agent:
        try:
            for text in prompts:
                with closing(agent.run(text)) as events:  # type: ignore[type-var] # a generator
                    for event in events:
                        played.events.append(event)
                        if stop_at is not None and isinstance(event, stop_at):
                            break
        except AgentError as error:
            played.error = error
        played.messages, played.saved = agent.messages, json.loads(json.dumps(agent.saved()))
    return played


def client_of(url: str, *, max_retries: int = 0) -> Anthropic:
    """Return an SDK client without TLS verification: loading the certificates would take most of a test's time."""
    return Anthropic(base_url=url, api_key="none", max_retries=max_retries, http_client=httpx2.Client(verify=False))


async def _play_async(
    url: str, *prompts: str | None, stop_at: type[Event] | None, max_retries: int, **options: Any
) -> Played:
    played = Played()
    http = httpx2.AsyncClient(verify=False)
    client = AsyncAnthropic(base_url=url, api_key="none", max_retries=max_retries, http_client=http)
    async with client, AsyncAgent(client, **options) as agent:
        try:
            for text in prompts:
                async with aclosing(agent.run(text)) as events:
                    async for event in events:
                        played.events.append(event)
                        if stop_at is not None and isinstance(event, stop_at):
                            break
        except AgentError as error:
            played.error = error
        played.messages, played.saved = agent.messages, json.loads(json.dumps(agent.saved()))
    return played


class FixedApiAgent:
    """Agent, sync or async, that talks to an API with fixed responses."""

    def __init__(self, kind: str, api: Api, store: MemoryStore, **options: Any) -> None:
        self._kind, self._api, self._options = kind, api, {"memory": store, **options}
        self.messages: list[dict[str, Any]] = []
        self.saved: Any = ()

    def run(self, message: Any = None) -> list[Event]:
        """Run a new agent that continues the last conversation, and return its events."""
        return self._play(lambda agent: agent.run(message))

    def _play(self, start: Callable[[Any], Any]) -> list[Event]:
        if self._kind == "async":
            return asyncio.run(self._play_async(start))
        with self._api.client() as client:
            agent = Agent(client, messages=self.saved, **self._options)
            self.messages = agent.messages
            try:
                return list(start(agent))
            finally:
                self.saved = json.loads(json.dumps(agent.saved()))

    async def _play_async(self, start: Callable[[Any], Any]) -> list[Event]:
        async with self._api.async_client() as client:
            agent = AsyncAgent(client, messages=self.saved, **self._options)
            self.messages = agent.messages
            try:
                return [event async for event in start(agent)]
            finally:
                self.saved = json.loads(json.dumps(agent.saved()))
