"""API errors: each raises a clear `AgentError`, no command runs twice, and the run can continue."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import anthropic
import httpx2
import pytest

from retentive import MemoryStore
from retentive.agent import (
    Agent,
    AgentError,
    Finished,
    Stopped,
    StreamRestarted,
)
from retentive.agent.sdk import to_agent_error
from retentive.testing.scripted_claude import (
    Disconnect,
    ErrorResponse,
    Fault,
    ScriptedClaude,
    StreamError,
    scripted_claude,
)
from support.fixed_api import Api, message, text
from support.fixed_api import streamed as streamed_text

from .runs import FAULTS, KINDS, STORY, TEA, FixedApiAgent, play

TOLD = "I like tea."
both = pytest.mark.parametrize("kind", KINDS)
streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def assert_continues(kind: str, server: ScriptedClaude, store: MemoryStore, saved: object, *, stream: bool) -> None:
    """Check that `run()` without a message completes the conversation, and that every command ran once."""
    messages: list[dict[str, object]] = list(saved)  # type: ignore[call-overload]
    played = play(kind, server.url, None, memory=store, messages=messages, stream=stream)
    assert played.error is None
    assert [finished.reason for finished in played.of(Finished)] == ["end_turn"]
    assert server.failures == []
    assert store.read(TEA) == "likes tea\n"
    assert [version.operation for version in store.versions(limit=2) if version.operation != "deleted"] == ["created"]


@both
@streamed
@pytest.mark.parametrize(
    "fault", [ErrorResponse(429, retry_after=1), ErrorResponse(529), ErrorResponse(500), Disconnect()], ids=str
)
def test_a_failed_request_can_be_retried(
    kind: str, stream: bool, fault: Fault, server: ScriptedClaude, store: MemoryStore
) -> None:
    """The test fails each request of the run in turn."""
    expected = {429: "rate_limited", 529: "overloaded", 500: "api_failed", None: "connection_lost"}
    status = fault.status if isinstance(fault, ErrorResponse) else None
    for at in (1, 2, 3):
        store.clear()
        FAULTS[len(server.requests) + at] = fault
        played = play(kind, server.url, TOLD, memory=store, stream=stream)
        assert played.error is not None
        assert (played.error.code, played.error.status, played.error.retryable) == (expected[status], status, True)
        assert_continues(kind, server, store, played.messages, stream=stream)


@both
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, "request_refused"),
        (401, "not_authorized"),
        (403, "not_authorized"),
        (404, "request_refused"),
        (413, "request_refused"),
        (504, "connection_lost"),
    ],
)
def test_a_rejected_request_reports_the_reason(
    kind: str, status: int, expected: str, server: ScriptedClaude, store: MemoryStore
) -> None:
    """A message that the API does not accept is not kept: it would fail all later requests."""
    FAULTS[1] = ErrorResponse(status)
    played = play(kind, server.url, TOLD, memory=store)
    error = played.error
    assert error is not None
    assert (error.code, error.status, error.retryable) == (expected, status, status == 504)
    assert bool(played.messages) == (status not in {400, 413})
    assert "[scripted Claude]" in str(error)
    assert error.request_id is not None


def test_the_retries_of_the_sdk_come_first(server: ScriptedClaude, store: MemoryStore) -> None:
    FAULTS.update({1: ErrorResponse(529), 3: ErrorResponse(429, retry_after=0)})
    played = play("sync", server.url, TOLD, memory=store, max_retries=1)
    assert [exchange.status for exchange in server.requests] == [529, 200, 429, 200, 200]
    assert [finished.reason for finished in played.of(Finished)] == ["end_turn"]


FINE = message([text("Fine.")])
EVENTS = streamed_text(FINE).split("\n\n")
MALFORMED: dict[str, object] = {
    "null content": {**FINE, "content": None},
    "no stop reason": {**FINE, "stop_reason": None},
    "call without id": message([{"type": "tool_use", "name": "memory", "input": {}}], "tool_use"),
    "html": httpx2.Response(200, headers={"content-type": "text/html"}, content=b"<html>Log in.</html>"),
    "not JSON": httpx2.Response(200, headers={"content-type": "application/json"}, content=b'{"id": "ms'),
    "stream out of order": "\n\n".join(EVENTS[1:]),
    "stream with half an event": "\n\n".join([EVENTS[0], 'event: content_block_start\ndata: {"type": "con', ""]),
    "stream without an end": "\n\n".join([*EVENTS[:3], ""]),
}


@both
@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_response_can_be_asked_for_again(kind: str, name: str, store: MemoryStore) -> None:
    """Proxies send such responses, with status 200."""
    is_stream = name.startswith("stream")
    api = Api(MALFORMED[name], streamed_text(FINE) if is_stream else FINE)
    asked = FixedApiAgent(kind, api, store, stream=is_stream)
    with pytest.raises(AgentError) as raised:
        asked.run("Hello.")
    assert raised.value.retryable
    assert isinstance(asked.run()[-1], Finished)
    assert [block["role"] for block in asked.messages] == ["user", "assistant"]


def test_a_connection_that_is_lost_after_the_response_does_not_matter(store: MemoryStore) -> None:
    def ends() -> Iterator[bytes]:
        yield streamed_text(FINE).encode()
        raise httpx2.ReadError("reset")

    with Api(httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=ends())).client() as client:
        assert Agent(client, memory=store, stream=True).ask("Hello.").strip() == "Fine."


@both
@pytest.mark.parametrize("fault", [Disconnect(after_events=5), StreamError(after_events=5)], ids=str)
def test_a_broken_stream_is_asked_for_again(
    kind: str, fault: Fault, server: ScriptedClaude, store: MemoryStore
) -> None:
    """Within the run, as often as the client retries. The event says that what was streamed does not count."""
    FAULTS[2] = fault
    played = play(kind, server.url, TOLD, memory=store, stream=True, max_retries=1)
    assert len(played.of(StreamRestarted)) == 1
    assert [finished.reason for finished in played.of(Finished)] == ["end_turn"]
    assert [len(message["content"]) for message in played.messages] == [1, 2, 1, 3, 2, 1]
    assert [version.operation for version in store.versions()] == ["created"]
    FAULTS.update({len(server.requests) + at: fault for at in (2, 3)})
    assert str(play(kind, server.url, TOLD, memory=store, stream=True, max_retries=1).error)


def test_an_unreachable_api_is_a_lost_connection(store: MemoryStore) -> None:
    with scripted_claude(STORY) as server:
        url = server.url
    error = play("sync", url, TOLD, memory=store).error
    assert error is not None
    assert error.code == "connection_lost"
    assert url.removeprefix("http://") not in str(error)


def test_a_missing_key_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing API key is the most common first mistake, so its error is clear."""
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with Agent(memory="sqlite://") as agent, pytest.raises(AgentError, match="set ANTHROPIC_API_KEY"):
        agent.ask(TOLD)


def test_other_sdk_errors_are_translated() -> None:
    request = httpx2.Request("POST", "http://localhost/v1/messages")
    broken = anthropic.APIResponseValidationError(httpx2.Response(200, request=request), None)
    assert to_agent_error(broken).code == "api_failed"
    assert to_agent_error(anthropic.CredentialsError("no file at /home/me/key")).code == "not_authorized"
    assert "/home/me" not in str(to_agent_error(anthropic.CredentialsError("no file at /home/me/key")))
    assert to_agent_error(anthropic.AnthropicError("a stream is used twice")).code == "request_refused"


@pytest.mark.parametrize(
    "error",
    [
        AgentError("slower", "rate_limited", retryable=True, status=429, request_id="req_1"),
        Stopped("no answer", reason="refusal"),
    ],
)
def test_errors_survive_pickling(error: AgentError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
