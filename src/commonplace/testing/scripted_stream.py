"""A reply as the events of a streamed response, in the order of the Messages API.

Source: Messages API documentation, "Streaming Messages": message_start; each block started, given in pieces
and stopped; message_delta with the stop reason; message_stop. Pings may stand anywhere in between.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from commonplace.testing.scripted_reply import Reply
    from commonplace.testing.scripted_requests import Block

PIECE_CHARS = 24  # short enough that every text longer than a few words comes in several pieces

Event = dict[str, object]


def events(reply: Reply) -> Iterator[Event]:
    """The events of `reply`, in order."""
    message = reply.message()
    start = {**message, "content": [], "stop_reason": None, "usage": reply.usage(1)}
    context = start.pop("context_management", None)
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(reply.blocks):
        yield from _block_events(index, block)
    end: Event = {
        "type": "message_delta",
        "delta": {"stop_reason": reply.stop_reason, "stop_sequence": None},
        "usage": {"output_tokens": reply.output_tokens},
    }
    yield end if context is None else {**end, "context_management": context}
    yield {"type": "message_stop"}


def encoded(event: Event) -> bytes:
    """One server-sent event."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode("ascii")


def _block_events(index: int, block: Block) -> Iterator[Event]:
    if block["type"] == "text":
        empty: Event = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(str(block["text"]))]
    else:
        empty = {**block, "input": {}}
        # The API opens with an empty piece, and leaves it at that for an empty input.
        parts = ["", *_pieces(json.dumps(block["input"]))] if block["input"] else [""]
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS)]
