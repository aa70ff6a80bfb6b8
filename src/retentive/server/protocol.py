"""Deadlines and size limits around uvicorn's HTTP/1.1, and the refusal of ambiguous requests.

uvicorn waits forever for headers and bodies, and its parser (llhttp) does not limit their sizes and accepts repeated
headers. uvicorn calls `ClientConnection` instead of its own protocol, to which it passes everything on; it knows when
bytes arrive. `Strict` is ASGI middleware; it knows when a request begins and ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from asyncio import TimerHandle
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from retentive.server.errors import HttpError
from retentive.wire.history import INVALID

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

LOG = logging.getLogger("retentive.server.requests")
MAX_URL_BYTES = 16 << 10
MAX_HEADER_BYTES = 64 << 10
MAX_HEADERS = 100
MAX_UNREAD_BYTES = 1 << 20
"""Maximum number of bytes of a request that the application did not get: headers, trailers and what is buffered."""
MAX_FRAMING = 6
"""Maximum number of bytes on the wire per byte of a body. A chunk that contains one byte takes six bytes."""
MAX_DISCARDED_BYTES = 8 << 20
HEADERS_S = 20.0
"""Time within which all headers must arrive. A new connection that sends nothing in this time is closed."""
BODY_S = 20.0
"""Time within which a body must bring `MIN_BYTES_PER_S` for each second, again and again."""
MIN_BYTES_PER_S = 1 << 10
LATE = "the request did not arrive in time"
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


class _WithoutTrailers(HttpToolsProtocol):
    """uvicorn's protocol, for which trailers are headers if they arrive before the application is called."""

    def on_headers_complete(self) -> None:
        """Start the request. Headers that arrive from now on are trailers, which nobody reads."""
        super().on_headers_complete()
        self.headers = []


class ClientConnection(asyncio.Protocol):
    """Connection of a client. `Strict` finds it in the state of a request, and tells it when a request runs."""

    headers_s, body_s, write_s = HEADERS_S, BODY_S, WRITE_S

    def __init__(self, *, app_state: dict[str, Any], **options: Any) -> None:
        self._inner = _WithoutTrailers(app_state={**app_state, "connection": self}, **options)
        self._inner.send_400_response = self._invalid  # type: ignore[method-assign]  # as JSON, like all errors
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._requests = 0
        self._bytes = 0
        self.body_bytes = 0
        self._timers: dict[str, TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start the deadline of the first request."""
        self._transport = transport
        self._arm("read", self.headers_s, self._expired)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass data from the client on. If no request runs, its headers must be complete before the deadline."""
        if self._transport.is_closing():
            return
        self._bytes += len(data)
        if self._bytes > MAX_UNREAD_BYTES + MAX_FRAMING * self.body_bytes:
            self._transport.close()
            return
        if "read" not in self._timers and not self._requests:
            self._arm("read", self.headers_s, self._expired)
        self._inner.data_received(data)

    def eof_received(self) -> None:
        """Pass the end of the data on."""
        self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of the closed connection."""
        self._disarm("read")
        self._disarm("write")
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the deadline within which the client must read more of the response."""
        self._arm("write", self.write_s, self._transport.abort)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Cancel the deadline, because the client has read more of the response."""
        self._disarm("write")
        self._inner.resume_writing()

    def begin(self) -> None:
        """Note that a request runs, whose headers have arrived."""
        self._disarm("read")
        self._requests += 1
        self._bytes = self.body_bytes = 0

    def end(self, *, is_whole: bool) -> None:
        """Note that a request has ended. If its body has not arrived, the connection cannot be used again."""
        self._requests -= 1
        self._bytes = self.body_bytes = 0
        if not is_whole:
            self._transport.close()

    def _arm(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        self._timers[name] = self._loop.call_later(seconds, action)

    def _disarm(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _expired(self) -> None:
        self._refuse(HttpError(408, "timeout_error", LATE, "timeout"))

    def _invalid(self, msg: str) -> None:
        last = cast("RequestResponseCycle | None", self._inner.cycle)
        if last is not None and not last.more_body and not last.response_complete:
            last.keep_alive = False  # the requests before the malformed one are answered, then the connection is closed
            return
        self._refuse(_malformed("the request is not valid HTTP/1.1"))

    def _refuse(self, error: HttpError) -> None:
        """Close the connection, after an answer unless nothing was received or a request runs."""
        if self._bytes and not self._requests:
            request_id = f"req_{os.urandom(12).hex()}"
            LOG.info(json.dumps({"request_id": request_id, "status": error.status, "code": error.code}))
            body = error.body(request_id)
            head = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\ncontent-type: application/json\r\n"
            head += f"content-length: {len(body)}\r\nrequest-id: {request_id}\r\nconnection: close\r\n\r\n"
            self._transport.write(head.encode("ascii") + body)
        self._transport.close()


class Strict:
    """ASGI middleware that refuses ambiguous requests and requests whose body is too slow.

    If the answer does not wait for the body, the body is read and discarded, so that the client gets the answer.
    """

    def __init__(self, app: ASGIApp, refuse: Callable[[Scope, HttpError], ASGIApp]) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or refuse it."""
        connection = scope["state"].get("connection") if scope["type"] == "http" else None
        if connection is None:  # of another server
            await self._app(scope, receive, send)
            return
        refusal = _refusal(scope)
        body = _Body(connection, receive, scope["headers"])
        has_begun, closes = False, refusal is not None or _is_upgrade(scope["headers"])

        async def answer(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                if closes:
                    message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            elif not body.is_whole and not message.get("more_body") and refusal is None:
                await send({**message, "more_body": True})
                await body.discard()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        connection.begin()
        try:
            app = self._app if refusal is None else self._refuse(scope, refusal)
            await app(scope, body.receive, answer)
        except HttpError as error:
            closes = True
            if not has_begun:
                await self._refuse(scope, error)(scope, receive, answer)
        finally:
            connection.end(is_whole=body.is_whole)


class _Body:
    """Body of a request, of which a minimum must arrive in the time that the application waits for it."""

    def __init__(self, connection: ClientConnection, receive: Receive, headers: list[tuple[bytes, bytes]]) -> None:
        self._connection = connection
        self._receive: Callable[[], Awaitable[Message]] = receive
        self._loop = asyncio.get_running_loop()
        self._left_s, self._bytes = connection.body_s, 0
        self.is_whole = not any(name in {b"content-length", b"transfer-encoding"} for name, _ in headers)

    async def receive(self) -> Message:
        """Return the next message. Raises `HttpError` 408 if the body is too slow."""
        if self.is_whole:
            return await self._receive()
        started = self._loop.time()
        try:
            async with asyncio.timeout(self._left_s):
                message = await self._receive()
        except TimeoutError:
            raise HttpError(408, "timeout_error", LATE, "timeout") from None
        size = len(message.get("body", b""))
        self._connection.body_bytes += size
        self._bytes += size
        self._left_s -= self._loop.time() - started
        if self._bytes >= self._connection.body_s * MIN_BYTES_PER_S:
            self._left_s, self._bytes = self._connection.body_s, 0
        self.is_whole = not message.get("more_body", False)
        return message

    async def discard(self) -> None:
        """Read the rest of the body, up to a limit."""
        size = 0
        while not self.is_whole and size < MAX_DISCARDED_BYTES:
            try:
                message = await self.receive()
            except HttpError:
                return
            size += len(message.get("body", b""))


def _refusal(scope: Scope) -> HttpError | None:
    """Check the headers of a request. Return an error if the request must be refused, else None."""
    headers, version = scope["headers"], scope["http_version"]
    if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_URL_BYTES:
        return _too_large(414, f"the URL must have at most {MAX_URL_BYTES} bytes")
    if len(headers) > MAX_HEADERS:
        return _too_large(431, f"the request must have at most {MAX_HEADERS} headers")
    if sum(len(name) + len(value) + 4 for name, value in headers) > MAX_HEADER_BYTES:
        return _too_large(431, f"the headers must have at most {MAX_HEADER_BYTES} bytes")
    single = [name for name, _ in headers if name in SINGLE]
    if len(set(single)) < len(single):
        return _malformed("a header that may occur only once occurs twice")
    if version not in {"1.0", "1.1"}:
        return _malformed("only HTTP/1.1 and HTTP/1.0 are supported")
    if version == "1.1" and b"host" not in single:
        return _malformed("the header Host is missing")
    if b"transfer-encoding" in single:
        encoding = next(value for name, value in headers if name == b"transfer-encoding")
        if version == "1.0" or encoding.lower() != b"chunked" or b"content-length" in single:
            return _malformed("Transfer-Encoding must be chunked, without Content-Length")
    return _malformed("CONNECT is not supported") if scope["method"] == "CONNECT" else None


def _is_upgrade(headers: list[tuple[bytes, bytes]]) -> bool:
    """Return whether a client asks for another protocol. Its parser then does not see where the next request begins."""
    return any(name == b"upgrade" for name, _ in headers)


def _malformed(message: str) -> HttpError:
    return HttpError(400, INVALID, message, "malformed_http")


def _too_large(status: int, message: str) -> HttpError:
    return HttpError(status, "request_too_large", message, "header_too_large")
