"""Events of a response arrive in the order of its blocks, whether it is streamed or not."""

from __future__ import annotations

from typing import Any

import pytest

from retentive import MemoryStore
from retentive.agent import (
    Compaction,
    EditsApplied,
    Event,
    OtherBlock,
    Text,
)
from support.fixed_api import Api, message, streamed, text

from .runs import KINDS, FixedApiAgent

CLEARED = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 2, "cleared_input_tokens": 900}
RESPONSE: dict[str, Any] = {
    **message(
        [
            {"type": "compaction", "content": "They like tea."},
            {"type": "thinking", "thinking": "Where?", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"},
            text("Let me see."),
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "tea"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
            {"type": "mcp_tool_use", "id": "m1", "name": "order", "server_name": "shop", "input": {"of": "tea"}},
            {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": True, "content": [text("sold out")]},
            text("Sold out."),
        ]
    ),
    "context_management": {"applied_edits": [CLEARED]},
    "usage": {
        "input_tokens": 3,
        "output_tokens": 5,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 11,
    },
}
EDITS = EditsApplied((CLEARED,))
BLOCKS: list[Event] = [
    Compaction("They like tea."),
    *(OtherBlock(block["type"], block) for block in RESPONSE["content"][1:3]),
    Text("Let me see."),
    *(OtherBlock(block["type"], block) for block in RESPONSE["content"][4:8]),
    Text("Sold out."),
]
both = pytest.mark.parametrize("kind", KINDS)


def with_whole_texts(events: list[Event]) -> list[Event]:
    """Join the pieces of each text."""
    joined: list[Event] = []
    for event in events:
        match joined, event:
            case [*_, Text(before)], Text(piece):
                joined[-1] = Text(before + piece)
            case _:
                joined.append(event)
    return [Text(event.text.strip()) if isinstance(event, Text) else event for event in joined]


@both
def test_the_events_of_a_response_are_in_its_order(kind: str, store: MemoryStore) -> None:
    events = FixedApiAgent(kind, Api(RESPONSE), store).run("Order tea.")
    assert events[:-2] == [EDITS, *BLOCKS]


@both
def test_the_events_of_a_stream_are_in_its_order(kind: str, store: MemoryStore) -> None:
    """The API reports the edits of a stream at its end."""
    events = FixedApiAgent(kind, Api(streamed(RESPONSE)), store, stream=True).run("Order tea.")
    assert with_whole_texts(events)[:-2] == [*BLOCKS, EDITS]
