"""A stream that ends in the middle of an event counts as a lost connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from anthropic import Anthropic

import retentive
from retentive.agent import Agent
from retentive.agent.errors import ConnectionLost
from support.stream_server import serve_answer

HALF = b'event: message_start\ndata: {"type": "message_start", "message": {"id": "msg_1", "ty\n\n'


@pytest.fixture
def url() -> Iterator[str]:
    with serve_answer(HALF) as at:
        yield at


def test_an_incomplete_event_is_a_lost_connection(url: str) -> None:
    with retentive.open("sqlite://") as place, Anthropic(api_key="k", base_url=url, max_retries=0) as client:
        agent = Agent(client, memory=place.store(), stream=True)
        with pytest.raises(ConnectionLost):
            list(agent.run("hello"))
