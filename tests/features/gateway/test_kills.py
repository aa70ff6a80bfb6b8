"""Kills of client, gateway and API at every event of a stream: each call is applied once, and none is unanswered."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import pytest

import retentive
from retentive import MemoryStore
from retentive.testing.scripted_claude import Call, Disconnect, ErrorResponse, Prompt, ScriptedClaude, StreamError
from support.http_api import api_of
from support.profiles import sized
from support.served_process import started

from .gateways import HELLO, MODEL, NOTES, TOOL, after, gateway, said

LINES = ("one", "two", "three")
EVENTS = 37
"""Number of events of the response."""


def model(prompt: Prompt) -> Any:
    """Three turns with two changes each, as many as there are results; each would be seen if it was applied twice."""
    done = [call for call in prompt.calls if call.name == "memory"]
    assert all(call.result is not None for call in prompt.calls), "a call has no answer"
    if not done:
        return "I note it. ", Call({"command": "create", "path": NOTES, "file_text": "start\n"}), append(LINES[0])
    if len(done) < 4:
        return append(LINES[1]), append(LINES[2])
    return f"Done with {len(done)} calls."


def append(line: str) -> Call:
    return Call({"command": "insert", "path": NOTES, "insert_line": 1, "insert_text": f"{line}\n"})


@dataclass
class Running:
    """A gateway process over a location, which can be killed and started again."""

    at: str
    upstream: str
    store: MemoryStore
    key: str
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/gateway/{self.store.key}"

    @contextmanager
    def process(self) -> Iterator[Any]:
        arguments = (
            "--at",
            self.at,
            "--no-request-log",
            "--no-console",
            "--gateway",
            "--gateway-upstream",
            self.upstream,
        )
        with started(*arguments, "--port", str(self.port)) as (found, _):
            yield found

    def ask(self, messages: list[Any]) -> Any:
        """Ask with a stream, and return the message. Raises the errors of the SDK and of HTTP."""
        options: dict[str, Any] = {"base_url": self.url, "api_key": "sk", "max_retries": 0}
        given: dict[str, Any] = {"model": MODEL, "max_tokens": 99, "tools": [TOOL], "messages": messages}
        with (
            anthropic.Anthropic(**options, default_headers={"x-retentive-key": self.key}) as client,
            client.messages.stream(**given) as events,
        ):
            return events.get_final_message()

    def events(self, count: int | None) -> Iterator[bytes]:
        """Ask with a stream, and yield its events; then close the connection."""
        given = {"model": MODEL, "max_tokens": 99, "tools": [TOOL], "messages": [HELLO], "stream": True}
        body = json.dumps(given, separators=(",", ":"))  # as the SDK
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"x-retentive-key": self.key, "x-api-key": "sk", "anthropic-version": "2023-06-01"}
        connection.request("POST", f"{urlsplit(self.url).path}/v1/messages", body, headers)
        response = connection.getresponse()
        try:
            seen = 0
            while (line := response.readline()) and seen != count:
                if line.startswith(b"data:"):
                    seen += 1
                    yield line[5:]
        finally:
            connection.close()


def check(running: Running, claude: ScriptedClaude) -> None:
    """Repeat the request, and go on with the conversation: every change is there once."""
    message = running.ask([HELLO])
    assert said(message).endswith("Done with 4 calls.")
    text = running.store.read(NOTES)
    assert sorted(text.split()) == sorted(["start", *LINES]), text
    check_ids(running.store)
    assert said(running.ask(after(message))) == "Done with 4 calls."
    assert claude.failures == []


def check_ids(store: MemoryStore) -> None:
    """Each id of a call was applied once."""
    ids = [version.provenance.tool_use_id for version in store.history.log()]
    assert len(ids) == len(set(ids))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextmanager
def placed(tmp_path: Path) -> Iterator[tuple[Running, ScriptedClaude, retentive.Retentive]]:
    """The scripted Claude and a location, without a gateway."""
    at = f"sqlite:///{tmp_path}/memory.db"
    with ScriptedClaude(model) as claude, retentive.open(at) as opened:
        key = api_of("", "", opened).place.keys.create("app", scopes=("gateway",)).text
        yield Running(at, claude.url, opened.store("team"), key, free_port()), claude, opened


@contextmanager
def here(tmp_path: Path, **faults: Any) -> Iterator[tuple[Running, ScriptedClaude]]:
    """The same with a gateway in this process."""
    with gateway(model, f"sqlite:///{tmp_path}/memory.db", **faults) as place:
        port = urlsplit(place.api.url).port or 0
        yield Running("", place.claude.url, place.store, place.key, port), place.claude


def faults() -> list[tuple[int, Any]]:
    """Failures of the first, the second and the last request to the API, at each event."""
    every = sized(quick=12, long=1, full=1)
    cut = [(n, kind(at)) for n in (1, 2, 3) for kind in (Disconnect, StreamError) for at in range(n, 40, every)]
    return [*cut, *((n, fault) for n in (1, 2, 3) for fault in (ErrorResponse(529), ErrorResponse(500), Disconnect()))]


@pytest.mark.parametrize(("number", "fault"), faults(), ids=str)
def test_the_api_breaks_off(tmp_path: Path, number: int, fault: Any) -> None:
    with here(tmp_path, faults={number: fault}) as (running, claude):
        try:
            running.ask([HELLO])
        except (anthropic.APIError, ConnectionError):
            check_ids(running.store)
        check(running, claude)


EVERY = [*range(1, EVENTS, sized(quick=20, long=1, full=1))] * sized(quick=1, long=1, full=3)


@pytest.mark.parametrize("count", EVERY)
def test_the_client_goes_away(tmp_path: Path, count: int) -> None:
    with here(tmp_path) as (running, claude):
        assert list(running.events(count))
        check(running, claude)


def test_the_gateway_is_killed(tmp_path: Path) -> None:
    """At every event; each time, another store of one location, and the gateway that was started for the last one."""
    with placed(tmp_path) as (running, claude, opened), ExitStack() as gateways:
        process = gateways.enter_context(running.process())
        for number, count in enumerate(EVERY[:: sized(quick=3, long=1, full=1)]):
            running.store = opened.store(f"team-{number}")
            events = running.events(None)
            for _ in zip(range(count), events, strict=False):
                pass
            os.kill(process.pid, signal.SIGKILL)
            check_ids(running.store)
            process = gateways.enter_context(running.process())
            check(running, claude)
