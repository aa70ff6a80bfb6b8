"""Simulated faults: the SDK's retries recover from them. Without retries, the SDK raises the errors of the API."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import APIConnectionError, APIStatusError, InternalServerError, OverloadedError, RateLimitError

from retentive.testing.scripted_claude import (
    Disconnect,
    ErrorResponse,
    Script,
    Turn,
    scripted_claude,
)

from .requests import WAYS, ask

LONG = "A longer answer that comes in several pieces, so that it can be cut. " * 5
SCRIPT = Script((Turn((LONG,)),))


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
