"""Deadlines and size limits around uvicorn's HTTP/1.1, and the refusal of ambiguous requests.

uvicorn waits forever for headers and bodies, and its parser (llhttp) does not limit their sizes and accepts repeated
headers. `ClientConnection` knows when bytes arrive; `Strict`, which is ASGI middleware, when a body is waited for.
"""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from retentive.server.errors import HttpError
from retentive.wire.errors import INVALID

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

MAX_URL_BYTES = 16 << 10
MAX_HEADER_BYTES = 64 << 10
MAX_HEADERS = 100
MAX_UNREAD_BYTES = 1 << 20
"""Maximum number of bytes of a request beside its body: headers, trailers and what surrounds chunks."""
MAX_FRAMING = 6
"""Maximum number of bytes on the wire per byte of a body. A chunk that contains one byte takes six bytes."""
MAX_DISCARDED_BYTES = 8 << 20
HEADERS_S = 20.0
"""Time within which all headers must arrive. Otherwise the connection is closed."""
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
        b"x-retentive-key",
    }
)
"""Headers that must not occur twice, because a proxy and this server might each use a different one."""


class ClientConnection(HttpToolsProtocol):
    """uvicorn's connection of a client, with deadlines and limits. `Strict` finds it in the state of a request."""

    headers_s, body_s, write_s = HEADERS_S, BODY_S, WRITE_S

    def __init__(self, *, app_state: dict[str, Any], **options: Any) -> None:
        super().__init__(app_state={**app_state, "connection": self}, **options)
        self._late: TimerHandle | None = None
        self._stalled: TimerHandle | None = None
        self._unread_bytes = 0

    @property
    def is_busy(self) -> bool:
        """True while a request runs, whose headers have arrived."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._late = self.loop.call_later(self.headers_s, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of the closed connection."""
        for timer in (self._late, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data from the client. If no request runs, its headers must be complete before the deadline."""
        if self.transport.is_closing():
            return
        self._unread_bytes += len(data)
        if self._unread_bytes > MAX_UNREAD_BYTES:
            self.transport.close()
            return
        if self._late is None and not self.is_busy:
            self._late = self.loop.call_later(self.headers_s, self.transport.close)
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """Start the request. Headers that arrive from now on are trailers, which nobody reads."""
        super().on_headers_complete()
        self.headers, self._unread_bytes = [], 0
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def on_body(self, body: bytes) -> None:
        """Take a part of the body. Its bytes pay for those around it."""
        self._unread_bytes -= MAX_FRAMING * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of a request."""
        self._unread_bytes = 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Start the deadline within which the client must read more of the response."""
        self._stalled = self.loop.call_later(self.write_s, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        """Cancel the deadline, because the client has read more of the response."""
        if self._stalled is not None:
            self._stalled.cancel()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request. The requests before it are answered, then the connection is closed."""
        if self.is_busy and not self.cycle.more_body:
            self.cycle.keep_alive = False
        elif self.is_busy and (self.cycle.response_started or self.pipeline):
            self.transport.close()
        else:
            if self.is_busy:
                self.cycle.disconnected = True  # its application has nothing to answer
            super().send_400_response(msg)


class Strict:
    """ASGI middleware that refuses ambiguous requests and requests whose body is too slow.

    If the answer does not wait for the body, the body is read and discarded, so that the client gets the answer.
    """

    def __init__(self, app: ASGIApp, refuse: Callable[[Scope, HttpError], ASGIApp]) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or refuse it."""
        connection: ClientConnection | None = scope.get("state", {}).get("connection")
        if connection is None:  # of another server, or no request
            await self._app(scope, receive, send)
            return
        refusal, body = _refusal(scope), _Body(connection, receive, scope["headers"])
        has_begun, closes = False, refusal is not None or any(name == b"upgrade" for name, _ in scope["headers"])

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

        try:
            app = self._app if refusal is None else self._refuse(scope, refusal)
            await app(scope, body.receive, answer)
        except HttpError as error:
            closes = True
            if not has_begun:
                await self._refuse(scope, error)(scope, receive, answer)
        finally:
            if not body.is_whole:
                connection.transport.close()


class _Body:
    """Body of a request. Each second that the application waits for it must bring `MIN_BYTES_PER_S`."""

    def __init__(self, connection: ClientConnection, receive: Receive, headers: list[tuple[bytes, bytes]]) -> None:
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._left_s = self._body_s = connection.body_s
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
        earned_s = len(message.get("body", b"")) / MIN_BYTES_PER_S
        self._left_s = min(self._body_s, self._left_s - (self._loop.time() - started) + earned_s)
        self.is_whole = not message.get("more_body", False)
        return message

    async def discard(self) -> None:
        """Read the rest of the body, up to a limit."""
        size = 0
        with suppress(HttpError):
            while not self.is_whole and size < MAX_DISCARDED_BYTES:
                size += len((await self.receive()).get("body", b""))


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


def _malformed(message: str) -> HttpError:
    return HttpError(400, INVALID, message, "malformed_http")


def _too_large(status: int, message: str) -> HttpError:
    return HttpError(status, "request_too_large", message, "header_too_large")
