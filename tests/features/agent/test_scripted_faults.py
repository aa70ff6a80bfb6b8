"""Simulated faults: the SDK's retries recover from them. Without retries, the SDK raises the errors of the API."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.error import HTTPError

import pytest
from anthropic import APIConnectionError, APIStatusError, InternalServerError, OverloadedError, RateLimitError

from retentive.testing.scripted_claude import (
    Disconnect,
    ErrorResponse,
    Script,
    ScriptedClaude,
    StreamError,
    Turn,
    scripted_claude,
)

from .requests import ASK, HELLO, WAYS, ask, open_url, post

LONG = "A longer answer that comes in several pieces, so that it can be cut. " * 5
SCRIPT = Script((Turn((LONG,)),))
STREAMED = [way for way in WAYS if way.endswith("streamed")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (ErrorResponse(429, retry_after=7), RateLimitError),
        (ErrorResponse(529), OverloadedError),
        (ErrorResponse(500), InternalServerError),
        (Disconnect(), APIConnectionError),
    ],
)
def test_the_sdk_raises_the_planned_fault(way: str, fault: Any, error: type[Exception]) -> None:
    """The second request fails. The first and the third request succeed."""
    with scripted_claude(SCRIPT, faults={2: fault}) as server:
        assert ask(server, way).content[0].text == LONG
        with pytest.raises(error) as raised:
            ask(server, way)
        assert ask(server, way).content[0].text == LONG
    if isinstance(fault, ErrorResponse):
        assert isinstance(raised.value, APIStatusError)
        assert raised.value.status_code == fault.status
        assert raised.value.response.headers.get("retry-after") == (
            str(fault.retry_after) if fault.retry_after else None
        )
    assert [exchange.status for exchange in server.requests] == [200, getattr(fault, "status", 0), 200]
    assert server.failures == []


@pytest.mark.parametrize("way", WAYS)
def test_retries_recover_from_faults(way: str) -> None:
    """A retry counts as a request. A failed request uses no turn of a script."""
    with scripted_claude(SCRIPT, faults={1: ErrorResponse(529, retry_after=0), 2: Disconnect()}) as server:
        assert ask(server, way, retries=2).content[0].text == LONG
    assert [exchange.status for exchange in server.requests] == [529, 0, 200]


@pytest.mark.parametrize("way", WAYS)
def test_a_response_is_cut_in_the_middle(way: str) -> None:
    """The client never accepts an incomplete response."""
    with scripted_claude(SCRIPT, faults={1: Disconnect(after_events=5)}) as server:
        with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|connection|disconnect"):
            ask(server, way)
        assert server.requests[0].status == 200
        assert ask(server, way).content[0].text == LONG


@pytest.mark.parametrize("way", STREAMED)
def test_a_stream_ends_with_an_error_event(way: str) -> None:
    with scripted_claude(SCRIPT, faults={1: StreamError(after_events=5)}) as server:
        with pytest.raises(APIStatusError, match="Overloaded"):
            ask(server, way)
        assert ask(server, way).content[0].text == LONG


def test_the_planned_number_of_events_is_sent() -> None:
    faults: dict[int, StreamError | Disconnect] = {1: StreamError(after_events=5), 2: Disconnect(after_events=5)}
    with scripted_claude(SCRIPT, faults=faults) as server:
        body = {**ASK, "messages": HELLO, "stream": True}
        with open_url(f"{server.url}/v1/messages", body) as response:
            broken = response.read().decode()
        with open_url(f"{server.url}/v1/messages", body) as response, pytest.raises(http.client.IncompleteRead) as cut:
            response.read()
    assert (broken.count("event: "), broken.count("event: error")) == (6, 1)
    assert cut.value.partial.decode().count("event: ") == 5


def test_a_stream_error_without_streaming_is_an_error_response() -> None:
    with scripted_claude(SCRIPT, faults={1: StreamError(status=500)}) as server, pytest.raises(InternalServerError):
        ask(server, "plain")


def test_a_plan_can_be_a_function() -> None:
    claude = ScriptedClaude(SCRIPT, faults=lambda number: ErrorResponse(529) if number % 2 else None)
    assert [post(claude)[0] for _ in range(4)] == [529, 200, 529, 200]


def test_an_error_has_the_format_of_the_api() -> None:
    claude = ScriptedClaude(
        SCRIPT, faults={1: ErrorResponse(429, retry_after=2), 2: ErrorResponse(529), 3: ErrorResponse(500)}
    )
    bodies = [post(claude)[1] for _ in range(3)]
    kinds = ["rate_limit_error", "overloaded_error", "api_error"]
    assert [(body["type"], body["error"]["type"]) for body in bodies] == [("error", kind) for kind in kinds]


def test_an_error_names_its_request() -> None:
    with scripted_claude(SCRIPT, faults={1: ErrorResponse(429)}) as server:
        for _ in range(2):
            with pytest.raises(HTTPError) as refused:
                open_url(f"{server.url}/v1/messages", {})
            body = json.loads(refused.value.read())
            assert body["request_id"] == refused.value.headers["request-id"]
            assert body["request_id"].startswith("req_scripted_")
