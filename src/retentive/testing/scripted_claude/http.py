"""Serves the scripted Claude over HTTP: routes, server-sent events and simulated disconnects."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, cast

from retentive.testing.scripted_claude.prompt import Block, as_blocks
from retentive.testing.scripted_claude.script import (
    ApiError,
    Disconnect,
    ErrorResponse,
    Fault,
    StreamError,
    new_request_id,
)

if TYPE_CHECKING:
    from retentive.testing.scripted_claude.claude import Exchange

BANNER = "scripted Claude: replies come from a script, not from a model"
PIECE_CHARS = 24  # length of a delta: so short that even a text of a few words has several deltas


class Site(ThreadingHTTPServer):
    """HTTP server on 127.0.0.1, in threads. `answer` returns the answer to a `POST /v1/messages`."""

    daemon_threads = True
    block_on_close = False  # a client may keep its connection open
    request_queue_size = 128

    def __init__(self, answer: Callable[[Mapping[str, str], bytes], Exchange], port: int) -> None:
        super().__init__(("127.0.0.1", port), _Connection)
        self.answer = answer
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), name="scripted-claude", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the server."""
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the traceback of a bug. A client may close its connection at any time."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # with it, the second part of a response would wait 40 ms
    wbufsize = -1  # headers and body are sent together

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        data = self._body()
        if path != "/v1/messages":
            self._send(404, ApiError(404, "Not Found").body())
            return
        exchange = cast("Site", self.server).answer(headers, data)
        fault = exchange.fault
        cut = fault.after_events if isinstance(fault, Disconnect) else None
        if exchange.status == 0:
            self.close_connection = True
        elif exchange.status == 200 and exchange.is_streamed:
            self._send_stream(encoded_events(exchange.reply, fault)[:cut], is_cut=cut is not None)
        else:
            retry_after = fault.retry_after if isinstance(fault, ErrorResponse) else None
            self._send(exchange.status, exchange.reply, retry_after, is_cut=cut is not None)

    def do_GET(self) -> None:
        self._body()
        self._send(405, ApiError(405, "Method Not Allowed").body())

    do_HEAD = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names of the standard library

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the standard library
        """Do nothing: requests are recorded, not logged."""

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        data = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _start(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"x_scripted_claude": BANNER, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def _send(
        self, status: int, reply: Mapping[str, object], retry_after: int | None = None, *, is_cut: bool = False
    ) -> None:
        """Send a JSON body. If `is_cut` is True, close the connection in the middle of it."""
        # json.dumps escapes what is not ASCII. A script may have lone surrogates, which UTF-8 cannot encode.
        body = json.dumps(reply).encode("ascii")
        request_id = str(reply.get("request_id") or new_request_id())
        more = {} if retry_after is None else {"retry_after": str(retry_after)}
        length = str(len(body))
        self._start(status, request_id=request_id, content_type="application/json", content_length=length, **more)
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if is_cut else body)
        self.close_connection = self.close_connection or is_cut

    def _send_stream(self, pieces: list[bytes], *, is_cut: bool) -> None:
        self._start(200, request_id=new_request_id(), content_type="text/event-stream", transfer_encoding="chunked")
        for piece in pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.flush()
        if not is_cut:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = self.close_connection or is_cut


def encoded_events(message: Mapping[str, object], fault: Fault | None = None) -> list[bytes]:
    """Return the events of a streamed message, in the format of server-sent events. A `StreamError` ends them early."""
    found = [encode_event(event) for event in _events(message)]
    if isinstance(fault, StreamError):
        return [*found[: fault.after_events], encode_event(ErrorResponse(fault.status).error().body(has_id=False))]
    return found


def encode_event(event: Mapping[str, object]) -> bytes:
    """Return the bytes of an event, in the format of server-sent events."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode("ascii")


def _events(message: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """Yield the events of a message, in the order of the API.

    The summary of a compaction is sent as one delta. The last event but one has the stop reason and the applied context
    edits. Sources: "Streaming Messages", "Context editing" (response), "Compaction".
    """
    usage = message["usage"]
    assert isinstance(usage, dict)
    at_start = {name: value for name, value in usage.items() if name != "iterations"} | {"output_tokens": 1}
    start = {**message, "content": [], "stop_reason": None, "usage": at_start}
    context = start.pop("context_management", None)
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(as_blocks(message["content"])):
        empty, deltas = _in_pieces(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    written = {name: usage[name] for name in ("output_tokens", "iterations") if name in usage}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    end: dict[str, object] = {"type": "message_delta", "delta": delta, "usage": written}
    yield end if context is None else {**end, "context_management": context}
    yield {"type": "message_stop"}


def _in_pieces(block: Block) -> tuple[Block, list[Block]]:
    """Return the empty block of the event content_block_start, and the deltas that fill it."""
    match block["type"]:
        case "text":
            given = block.get("citations")
            listed = given if isinstance(given, list) else []
            citations = [{"type": "citations_delta", "citation": each} for each in listed]
            return {"type": "text", "text": ""}, [*citations, *_deltas("text", block["text"])]
        case "thinking":
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*_deltas("thinking", block["thinking"]), signed]
        case "compaction":
            return {"type": "compaction", "content": None}, [{**block, "type": "compaction_delta"}]
        case _ if "input" not in block:
            return block, []  # the API sends the result of a server tool without deltas
    # The API sends an empty first delta. For an empty input it sends no other delta.
    parts = ["", *_pieces(json.dumps(block["input"]))] if block["input"] else [""]
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]


def _deltas(kind: str, text: object) -> list[Block]:
    return [{"type": f"{kind}_delta", kind: piece} for piece in _pieces(str(text))]


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS)]
