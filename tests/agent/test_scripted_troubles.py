"""What goes wrong on demand, as the SDK meets it: retries get over it, and without them it raises as for the API."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.error import HTTPError

import pytest
from anthropic import APIConnectionError, APIStatusError, InternalServerError, OverloadedError, RateLimitError

from retentive.testing.scripted_claude import Broken, Cut, Refused, Script, ScriptedClaude, Turn, scripted_claude
from retentive.testing.scripted_claude.faults import trouble_from

from .asking import ASK, HELLO, WAYS, ask, open_url, post

LONG = "A longer answer that comes in several pieces, so that it can be cut. " * 5
SCRIPT = Script((Turn((LONG,)),))
STREAMED = [way for way in WAYS if way.endswith("streamed")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (Refused(429, retry_after=7), RateLimitError),
        (Refused(529), OverloadedError),
        (Refused(500), InternalServerError),
        (Cut(), APIConnectionError),
    ],
)
def test_the_sdk_raises_what_was_planned_for_this_request(way: str, trouble: Any, error: type[Exception]) -> None:
    """The second fails; the first and the third do not."""
    with scripted_claude(SCRIPT, troubles={2: trouble}) as server:
        assert ask(server, way).content[0].text == LONG
        with pytest.raises(error) as raised:
            ask(server, way)
        assert ask(server, way).content[0].text == LONG
    if isinstance(trouble, Refused):
        assert isinstance(raised.value, APIStatusError)
        assert raised.value.status_code == trouble.status
        assert raised.value.response.headers.get("retry-after") == (
            str(trouble.retry_after) if trouble.retry_after else None
        )
    assert [exchange.status for exchange in server.requests] == [200, getattr(trouble, "status", 0), 200]
    assert server.failures == []


@pytest.mark.parametrize("way", WAYS)
def test_retries_get_over_it(way: str) -> None:
    """Repeats are counted like other requests; a script takes no turn for what failed."""
    with scripted_claude(SCRIPT, troubles={1: Refused(529, retry_after=0), 2: Cut()}) as server:
        assert ask(server, way, retries=2).content[0].text == LONG
    assert [exchange.status for exchange in server.requests] == [529, 0, 200]


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_is_cut_in_the_middle(way: str) -> None:
    """The client never takes the half for the whole."""
    with scripted_claude(SCRIPT, troubles={1: Cut(after_events=5)}) as server:
        with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|connection|disconnect"):
            ask(server, way)
        assert server.requests[0].status == 200
        assert ask(server, way).content[0].text == LONG


@pytest.mark.parametrize("way", STREAMED)
def test_a_stream_ends_with_an_error_event(way: str) -> None:
    with scripted_claude(SCRIPT, troubles={1: Broken(after_events=5)}) as server:
        with pytest.raises(APIStatusError, match="Overloaded"):
            ask(server, way)
        assert ask(server, way).content[0].text == LONG


def test_as_many_events_come_as_were_planned() -> None:
    troubles: dict[int, Broken | Cut] = {1: Broken(after_events=5), 2: Cut(after_events=5)}
    with scripted_claude(SCRIPT, troubles=troubles) as server:
        body = {**ASK, "messages": HELLO, "stream": True}
        with open_url(f"{server.url}/v1/messages", body) as response:
            broken = response.read().decode()
        with open_url(f"{server.url}/v1/messages", body) as response, pytest.raises(http.client.IncompleteRead) as cut:
            response.read()
    assert (broken.count("event: "), broken.count("event: error")) == (6, 1)
    assert cut.value.partial.decode().count("event: ") == 5


def test_a_plain_answer_cannot_break_and_is_refused() -> None:
    with scripted_claude(SCRIPT, troubles={1: Broken(status=500)}) as server, pytest.raises(InternalServerError):
        ask(server, "plain")


def test_a_plan_can_be_a_function() -> None:
    claude = ScriptedClaude(SCRIPT, troubles=lambda number: Refused(529) if number % 2 else None)
    assert [post(claude)[0] for _ in range(4)] == [529, 200, 529, 200]


def test_an_error_has_the_form_of_the_api() -> None:
    claude = ScriptedClaude(SCRIPT, troubles={1: Refused(429, retry_after=2), 2: Refused(529), 3: Refused(500)})
    bodies = [post(claude)[1] for _ in range(3)]
    kinds = ["rate_limit_error", "overloaded_error", "api_error"]
    assert [(body["type"], body["error"]["type"]) for body in bodies] == [("error", kind) for kind in kinds]


def test_an_error_names_its_request() -> None:
    with scripted_claude(SCRIPT, troubles={1: Refused(429)}) as server:
        for _ in range(2):
            with pytest.raises(HTTPError) as refused:
                open_url(f"{server.url}/v1/messages", {})
            body = json.loads(refused.value.read())
            assert body["request_id"] == refused.value.headers["request-id"]
            assert body["request_id"].startswith("req_scripted_")


def test_troubles_are_spelt_for_the_program() -> None:
    spelt = ["3=429:2", "4=529", "5=cut", "6=cut:4", "7=error:4", "8=error"]
    expected = {3: Refused(429, 2), 4: Refused(529), 5: Cut(), 6: Cut(4), 7: Broken(4), 8: Broken()}
    assert dict(map(trouble_from, spelt)) == expected
    for wrong in ("0=429", "3", "3=", "3=429:x", "3=999"):
        with pytest.raises(ValueError, match=r"error 999|is no trouble"):
            trouble_from(wrong)
