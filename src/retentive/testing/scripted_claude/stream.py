"""Converts a reply to the events of a stream, as the Messages API sends them.

The first event is message_start. Then each block is sent as the event content_block_start, the deltas of the
block, and the event content_block_stop. After the blocks, the event message_delta is sent. It has the stop reason and
the applied context edits. The last event is message_stop. A ping may occur anywhere. The summary of a compaction is
sent as one delta.

Sources: "Streaming Messages", "Context editing" (response), "Compaction".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from retentive.testing.scripted_claude.messages import Block
from retentive.testing.scripted_claude.reply import ScriptedReply

PIECE_CHARS = 24  # length of a delta: so short that even a text of a few words has several deltas

StreamEvent = dict[str, object]


def events(reply: ScriptedReply) -> Iterator[StreamEvent]:
    """Yield the events of a reply."""
    message = reply.message()
    usage = {name: value for name, value in reply.usage(1).items() if name != "iterations"}
    start = {**message, "content": [], "stop_reason": None, "usage": usage}
    context = start.pop("context_management", None)
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(reply.blocks):
        yield from _block_events(index, block)
    written: StreamEvent = {"output_tokens": reply.output_tokens}
    end: StreamEvent = {
        "type": "message_delta",
        "delta": {"stop_reason": reply.stop_reason, "stop_sequence": None},
        "usage": {**written, "iterations": list(reply.iterations)} if reply.iterations else written,
    }
    yield end if context is None else {**end, "context_management": context}
    yield {"type": "message_stop"}


def encode_event(event: Mapping[str, object]) -> bytes:
    """Return the bytes of an event, in the format of server-sent events."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode("ascii")


def _block_events(index: int, block: Block) -> Iterator[StreamEvent]:
    empty, deltas = _in_pieces(block)
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _in_pieces(block: Block) -> tuple[StreamEvent, list[StreamEvent]]:
    """Return the empty block of the event content_block_start, and the deltas that fill it."""
    match block["type"]:
        case "text":
            citations = [{"type": "citations_delta", "citation": each} for each in _list(block.get("citations"))]
            return {"type": "text", "text": ""}, [*citations, *_deltas("text", block["text"])]
        case "thinking":
            signature: StreamEvent = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [
                *_deltas("thinking", block["thinking"]),
                signature,
            ]
        case "compaction":
            return {"type": "compaction", "content": None}, [{**block, "type": "compaction_delta"}]
        case _ if "input" not in block:
            return dict(block), []  # the API sends the result of a server tool without deltas
        case _:
            # The API sends an empty first delta. For an empty input it sends no other delta.
            parts = ["", *_pieces(json.dumps(block["input"]))] if block["input"] else [""]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _deltas(kind: str, text: object) -> list[StreamEvent]:
    return [{"type": f"{kind}_delta", kind: piece} for piece in _pieces(str(text))]


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS)]
