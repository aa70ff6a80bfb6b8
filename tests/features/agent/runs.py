"""Runs of an agent, sync or async, against a scripted Claude."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, TypeVar

import httpx2
from anthropic import Anthropic, AsyncAnthropic

from retentive import MemoryStore
from retentive.agent import Agent, AgentError, AsyncAgent, Event, Text
from retentive.testing.scripted_claude import Call, Check, Fault, Script, Turn
from support.fixed_api import Api

E = TypeVar("E")
KINDS = ["sync", "async"]
TEA = "/memories/tea — ☕.md"
LOOK = Call({"command": "view", "path": "/memories"}, Check(contains=("/memories",)))
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
FAULTS: dict[int, Fault] = {}
"""Faults of the fixture `server`, by the number of the request."""


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
    played = Played()
    with asyncio.Runner() as runner:
        client: Any = client_of(url, kind, max_retries=max_retries)
        agent = agent_of(kind, client, **options)
        try:
            for text in prompts:
                read(runner, agent.run(text), played.events, stop_at)
        except AgentError as error:
            played.error = error
        finally:
            for each in (agent, client):
                if isawaitable(ended := each.close()):
                    runner.get_loop().run_until_complete(ended)
        played.messages, played.saved = agent.messages, json.loads(json.dumps(agent.saved()))
    return played


def agent_of(kind: str, client: Any, **options: Any) -> Any:
    return (AsyncAgent if kind == "async" else Agent)(client, **options)


def read(runner: asyncio.Runner, run: Any, found: list[Event], stop_at: type[Event] | None = None) -> None:
    """Add the events of a run, sync or async, to a list."""

    async def read_async() -> None:
        async with aclosing(run):
            async for event in run:
                found.append(event)
                if stop_at is not None and isinstance(event, stop_at):
                    break

    if isinstance(run, AsyncGenerator):
        runner.run(read_async())
        return
    with closing(run):
        for event in run:
            found.append(event)
            if stop_at is not None and isinstance(event, stop_at):
                break


def client_of(url: str, kind: str = "sync", *, max_retries: int = 0) -> Any:
    """Return an SDK client without TLS verification: loading the certificates would take most of a test's time."""
    make, http = (AsyncAnthropic, httpx2.AsyncClient) if kind == "async" else (Anthropic, httpx2.Client)
    return make(base_url=url, api_key="none", max_retries=max_retries, http_client=http(verify=False))  # type: ignore[arg-type]


class FixedApiAgent:
    """Agent, sync or async, that talks to an API with fixed responses."""

    def __init__(self, kind: str, api: Api, store: MemoryStore, **options: Any) -> None:
        self._kind, self._api, self._options = kind, api, {"memory": store, **options}
        self.messages: list[dict[str, Any]] = []
        self.saved: Any = ()

    def run(self, message: Any = None) -> list[Event]:
        """Run a new agent that continues the last conversation, and return its events."""
        client = self._api.async_client() if self._kind == "async" else self._api.client()
        agent, events = agent_of(self._kind, client, messages=self.saved, **self._options), list[Event]()
        self.messages = agent.messages
        try:
            with asyncio.Runner() as runner:
                read(runner, agent.run(message), events)
        finally:
            self.saved = json.loads(json.dumps(agent.saved()))
        return events
