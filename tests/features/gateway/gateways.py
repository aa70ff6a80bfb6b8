"""A gateway in front of the scripted Claude, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import anthropic

import retentive
from retentive import MemoryStore
from retentive.gateway.endpoint import Gateway
from retentive.testing.scripted_claude import Prompt, ScriptedClaude
from support.http_api import Api, serving

TOOL: Any = {"type": "memory_20250818", "name": "memory"}
NOTES = "/memories/notes.md"
MODEL = "claude-test"
HELLO: Any = {"role": "user", "content": "hello"}
BYE: Any = {"role": "user", "content": "bye"}


@dataclass
class Place:
    """A gateway, the scripted Claude behind it, and the memory store."""

    api: Api
    claude: ScriptedClaude
    store: MemoryStore
    key: str

    @property
    def url(self) -> str:
        return f"{self.api.url}/gateway/{self.store.key}"

    @property
    def in_url(self) -> str:
        """The URL for an app that can set no header."""
        return f"{self.api.url}/gateway/{self.store.key}/{self.key}"

    def options(self, **headers: str) -> dict[str, Any]:
        """Options of a client of the SDK."""
        sent = {"x-retentive-key": self.key, **headers}
        return {"base_url": self.url, "api_key": "sk-of-the-app", "default_headers": sent, "max_retries": 0}

    def client(self, **headers: str) -> anthropic.Anthropic:
        return anthropic.Anthropic(**self.options(**headers))

    def ask(self, messages: list[Any], *, stream: bool = False, **options: Any) -> Any:
        """Ask once, with a stream or without, and return the message."""
        with self.client() as client:
            given: dict[str, Any] = {"model": MODEL, "max_tokens": 1_000, "tools": [TOOL], **options}
            if not stream:
                return client.messages.create(messages=messages, **given)
            with client.messages.stream(messages=messages, **given) as events:
                return events.get_final_message()


@contextmanager
def gateway(
    script: Any,
    at: str,
    *,
    mode: str = "declared",
    through: Callable[[str], AbstractContextManager[str]] = nullcontext,
    **options: Any,
) -> Iterator[Place]:
    """Serve a gateway over a new location. Each key may use all of its stores. `through` is before the API."""
    claude = {name: options.pop(name) for name in ("faults", "threads", "context_window") if name in options}
    with (
        scripted(script, **claude) as server,
        through(server.url) as url,
        retentive.open(at) as opened,
        serving(opened, more=lambda made: Gateway(made, url, **options).routes) as api,
    ):
        key = api.place.keys.create("app", scopes=("gateway",), gateway_mode=mode).text
        yield Place(api, server, opened.store("team"), key)


def scripted(script: Any, **options: Any) -> ScriptedClaude:
    """The scripted Claude. A text is the answer to each request."""
    if isinstance(script, str):
        return ScriptedClaude(lambda _: script, **options)
    return ScriptedClaude(*(script if isinstance(script, tuple) else (script,)), **options)


def after(message: Any) -> list[Any]:
    """The conversation that goes on after the first answer."""
    return [HELLO, {"role": "assistant", "content": message.content}, BYE]


def said(message: Any) -> str:
    """Text of a message."""
    return "".join(block.text for block in message.content if block.type == "text")


def results(prompt: Prompt) -> list[str]:
    """Results of the memory calls that the model sees."""
    return [call.result.text for call in prompt.calls if call.result is not None and call.name == "memory"]
