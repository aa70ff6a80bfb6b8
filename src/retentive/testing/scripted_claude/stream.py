"""A reply as the events of a streamed response, in the order of the Messages API.

Source: Messages API documentation, "Streaming Messages": message_start; each block started, given in pieces
and stopped; message_delta with the stop reason; message_stop. Pings may stand anywhere in between. Edits of the
context are in message_delta ("Context editing", response); a summary comes in a single piece ("Compaction").
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from retentive.testing.scripted_claude.messages import Block
    from retentive.testing.scripted_claude.reply import Reply

PIECE_CHARS = 24  # short enough that every text longer than a few words comes in several pieces

Event = dict[str, object]


def events(reply: Reply) -> Iterator[Event]:
    """The events of `reply`, in order."""
    message = reply.message()
    usage = {name: value for name, value in reply.usage(1).items() if name != "iterations"}
    start = {**message, "content": [], "stop_reason": None, "usage": usage}
    context = start.pop("context_management", None)
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(reply.blocks):
        yield from _block_events(index, block)
    written: Event = {"output_tokens": reply.output_tokens}
    end: Event = {
        "type": "message_delta",
        "delta": {"stop_reason": reply.stop_reason, "stop_sequence": None},
        "usage": {**written, "iterations": list(reply.iterations)} if reply.iterations else written,
    }
    yield end if context is None else {**end, "context_management": context}
    yield {"type": "message_stop"}


def encoded(event: Mapping[str, object]) -> bytes:
    """One server-sent event."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode("ascii")


def _block_events(index: int, block: Block) -> Iterator[Event]:
    empty, deltas = _in_pieces(block)
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _in_pieces(block: Block) -> tuple[Event, list[Event]]:
    """The block as it starts, and what is added to it."""
    match block["type"]:
        case "text":
            return {"type": "text", "text": ""}, _deltas("text", block["text"])
        case "thinking":
            signature: Event = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [
                *_deltas("thinking", block["thinking"]),
                signature,
            ]
        case "compaction":
            return {"type": "compaction", "content": None}, [{"type": "compaction_delta", "content": block["content"]}]
        case _:
            # The API opens with an empty piece, and leaves it at that for an empty input.
            parts = ["", *_pieces(json.dumps(block["input"]))] if block["input"] else [""]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]


def _deltas(kind: str, text: object) -> list[Event]:
    return [{"type": f"{kind}_delta", kind: piece} for piece in _pieces(str(text))]


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS)]
