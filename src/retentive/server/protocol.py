"""HTTP/1.1 for uvicorn, with deadlines and size limits. Ambiguous requests are refused.

uvicorn waits forever for headers and bodies, and answers malformed requests with plain text. Its parser, llhttp, does
not limit the sizes of headers and bodies. Source: uvicorn 0.54, protocols/http/httptools_impl.py.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from asyncio import TimerHandle
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from retentive.server.errors import HttpError
from retentive.wire.errors import INVALID

LOG = logging.getLogger("retentive.server.requests")
MAX_URL_BYTES = 16 << 10
MAX_HEADER_BYTES = 64 << 10
_LONG_HEADERS = f"the headers must have at most {MAX_HEADER_BYTES} bytes"
MAX_HEADERS = 100
MAX_FRAMING = 6
"""Maximum number of bytes on the wire per byte of a body. A chunk that contains one byte takes six bytes."""
HEADERS_S = 20.0
"""Time within which all headers must arrive. A new connection that sends nothing in this time is closed."""
BODY_S = 30.0
"""Time between two checks that a body arrives fast enough (`MIN_BYTES_PER_S`)."""
MIN_BYTES_PER_S = 1 << 10
WRITE_S = 60.0
"""Time within which a client must read more of a response. Otherwise the connection is closed."""
SINGLE = frozenset(
    {
        b"anthropic-workspace-id",
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"host",
        b"idempotency-key",
        b"last-event-id",
        b"retentive-actor",
        b"retentive-run",
        b"transfer-encoding",
        b"x-api-key",
    }
)
"""Headers that must not occur twice, because a proxy and this server might each use a different one."""


class HttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 connection of a client, with deadlines and size limits."""

    headers_s, body_s, write_s = HEADERS_S, BODY_S, WRITE_S

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._is_in_headers = False
        self._is_in_body = False
        self._piece_bytes = 0
        self._bytes = 0
        self._body_bytes = 0
        self._rated_bytes = 0
        self._read_timer: TimerHandle | None = None
        self._write_timer: TimerHandle | None = None
        self._refusal: HttpError | None = None
        self._is_ended = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._arm(self.headers_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of the closed connection."""
        self._arm(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data from the client.

        A request to switch protocols is answered as a normal request (RFC 9110, 7.8). Then the connection is closed.
        """
        if self._is_ended or self.transport.is_closing():
            return
        self._piece_bytes = len(data)
        self._bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # after this, httptools does not report where the next request begins
            self._end()
        except httptools.HttpParserError:
            self._refuse(self._refusal or _malformed("the request is not valid HTTP/1.1"))
            return
        if self._is_in_headers or self._is_in_body:
            self._wait()

    def _wait(self) -> None:
        """Check the size of an incomplete request, and start its deadline."""
        framing = MAX_FRAMING * self._body_bytes if self._is_in_body else 0
        if self._bytes - self._body_bytes - framing > 2 * MAX_HEADER_BYTES:  # headers before or after the body
            self._refuse(_too_large(431, _LONG_HEADERS))
        elif self._read_timer is None:
            self._arm(self.body_s if self._is_in_body else self.headers_s)

    def on_message_begin(self) -> None:
        """Start to count the bytes of a request. The parser does not call this for empty lines before a request."""
        super().on_message_begin()
        self._unset_keepalive_if_required()
        self._is_in_headers, self._bytes, self._body_bytes, self._rated_bytes = True, 0, 0, 0

    def on_url(self, url: bytes) -> None:
        """Add a part of the URL. Refuse the request if the URL is too long."""
        super().on_url(url)
        if len(self.url) > MAX_URL_BYTES:
            raise self._because(_too_large(414, f"the URL must have at most {MAX_URL_BYTES} bytes"))

    def on_headers_complete(self) -> None:
        """Refuse the request if its headers are invalid, else pass it to the application."""
        self._is_in_headers = False
        self._arm(None)
        refusal = self._checked()
        if refusal is not None:
            raise self._because(refusal)
        super().on_headers_complete()
        self._is_in_body = True
        self.headers = []  # the headers after a body are ignored

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Cancel the deadline of the body, because the body has arrived."""
        self._is_in_body = False
        self._arm(None)
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Start the deadline within which the client must read more of the response."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.write_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Cancel the deadline, because the client has read more of the response."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _checked(self) -> HttpError | None:
        """Check the headers of a request. Return an error if the request must be refused, else None."""
        if len(self.headers) > MAX_HEADERS:
            return _too_large(431, f"the request must have at most {MAX_HEADERS} headers")
        if self._bytes + self._piece_bytes > MAX_HEADER_BYTES and _size(self.headers) > MAX_HEADER_BYTES:
            return _too_large(431, _LONG_HEADERS)
        single = [name for name, _ in self.headers if name in SINGLE]
        if len(set(single)) < len(single):
            return _malformed("a header that may occur only once occurs twice")
        version = self.parser.get_http_version()
        if version not in {"1.0", "1.1"}:
            return _malformed("only HTTP/1.1 and HTTP/1.0 are supported")
        is_old = version == "1.0"
        if not is_old and b"host" not in single:
            return _malformed("the header Host is missing")
        if b"transfer-encoding" in single:
            encoding = next(value for name, value in self.headers if name == b"transfer-encoding")
            if is_old or encoding.lower() != b"chunked" or b"content-length" in single:
                return _malformed("Transfer-Encoding must be chunked, without Content-Length")
        if self.parser.get_method() == b"CONNECT":
            return _malformed("CONNECT is not supported")
        return None

    def _because(self, error: HttpError) -> HttpError:
        """Store `error` for the response, and return `error`.

        This is necessary because the parser replaces each error that a callback raises with an error of its own.
        """
        self._refusal = error
        return error

    def _arm(self, seconds: float | None) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
        elif seconds is None:
            return
        self._read_timer = None if seconds is None else self.loop.call_later(seconds, self._expired)

    def _expired(self) -> None:
        self._read_timer = None
        rated = self._body_bytes - self._rated_bytes
        if self._is_in_body and (self.flow.read_paused or rated >= self.body_s * MIN_BYTES_PER_S):
            self._rated_bytes = self._body_bytes
            self._arm(self.body_s)
        elif self._is_in_body or self._is_in_headers:
            self._refuse(HttpError(408, "timeout_error", "the request did not arrive in time", "timeout"))
        else:
            self.transport.close()  # nothing was sent

    def _end(self) -> None:
        """Read no more requests. Close the connection after the last response has been sent."""
        self._is_ended = True
        latest: RequestResponseCycle | None = self.cycle
        if latest is None or latest.response_complete:
            self.transport.close()
        else:
            latest.keep_alive = False

    def _refuse(self, error: HttpError) -> None:
        """Refuse a request: send `error` as its response, then close the connection.

        `error` is not sent if the response has begun already, or if earlier requests still wait for their responses.
        """
        self._arm(None)
        latest: RequestResponseCycle | None = self.cycle
        is_open = latest is not None and not latest.response_complete
        if is_open and not self._is_in_body:
            self._end()  # earlier requests on this connection still get their answers
            return
        has_answer = latest is not None and self._is_in_body and (not is_open or latest.response_started)
        if not has_answer and not self.pipeline:
            self.transport.write(_answer(error))
        if latest is not None and is_open:
            latest.disconnected = True
            latest.message_event.set()
        self.transport.close()


def _answer(error: HttpError) -> bytes:
    request_id = f"req_{os.urandom(12).hex()}"
    LOG.info(json.dumps({"request_id": request_id, "status": error.status, "code": error.code}))
    body = error.body(request_id)
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "request-id": request_id,
        "connection": "close",
        **error.headers(),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return STATUS_LINE[error.status] + lines.encode("ascii") + b"\r\n" + body


def _size(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) + 4 for name, value in headers)


def _malformed(message: str) -> HttpError:
    return HttpError(400, INVALID, message, "malformed_http")


def _too_large(status: int, message: str) -> HttpError:
    return HttpError(status, "request_too_large", message, "header_too_large")
