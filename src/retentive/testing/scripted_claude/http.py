"""HTTP layer of the scripted Claude: routes, server-sent events and simulated disconnects."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from retentive.testing.scripted_claude.errors import ApiError
from retentive.testing.scripted_claude.faults import Disconnect, ErrorResponse, StreamError
from retentive.testing.scripted_claude.reply import Reply
from retentive.testing.scripted_claude.stream import encode_event, events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from starlette.requests import Request as HttpRequest
    from starlette.types import Receive, Scope, Send

    from retentive.testing.scripted_claude.server import Answer, ScriptedClaude

BANNER = "scripted Claude: replies come from a script, not from a model"
EVENTS = "text/event-stream"
STARTUP_TIMEOUT_S = 30  # a loaded CI machine needs several seconds to import and start uvicorn


class Connections:
    """Open connections of a server, used to close one without a response."""

    def __init__(self) -> None:
        self._open: dict[object, asyncio.Transport] = {}

    def protocol(self) -> type[asyncio.Protocol]:
        """Return uvicorn's protocol class, extended to register its connections here."""
        connections = self._open

        class Registered(AutoHTTPProtocol):  # type: ignore[misc, valid-type] # the class depends on installed packages
            def connection_made(self, transport: asyncio.Transport) -> None:
                self.client_address = transport.get_extra_info("peername")  # a closed transport no longer has it
                connections[self.client_address] = transport
                super().connection_made(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                connections.pop(self.client_address, None)
                super().connection_lost(exc)

        return Registered

    def close(self, client: object) -> None:
        """Close the connection from `client`, an address and port, after sending buffered data."""
        transport = self._open.get(client)
        if transport is None:
            raise RuntimeError("Disconnect works only on a server started by scripted_claude()")
        transport.close()


class DisconnectResponse(Response):
    """Response that closes the connection after `pieces`, or before the first byte if `pieces` is None."""

    def __init__(
        self, connections: Connections, pieces: Sequence[bytes] | None, headers: Mapping[str, str], media_type: str
    ) -> None:
        super().__init__(None, 200, headers, media_type)
        self._connections = connections
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces, close the connection and wait until it is closed."""
        if self._pieces is not None:
            headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        self._connections.close(tuple(scope["client"]))
        while (await receive())["type"] != "http.disconnect":
            pass


class Site:
    """HTTP routes of one `ScriptedClaude`."""

    def __init__(self, claude: ScriptedClaude, connections: Connections, new_suffix: Callable[[], str]) -> None:
        self._claude = claude
        self._connections = connections
        self._new_suffix = new_suffix

    def app(self, *, on_startup: Callable[[], None]) -> Starlette:
        """Build the ASGI application."""

        @asynccontextmanager
        async def lifespan(_app: Starlette) -> AsyncIterator[None]:
            on_startup()
            yield

        routes = [
            Route("/v1/messages", self._post_message, methods=["POST"]),
            Route("/v1/messages/count_tokens", self._post_count, methods=["POST"]),
            Route("/scripted", self._get_state, methods=["GET"]),
            Route("/{path:path}", self._not_found, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]
        return Starlette(routes=routes, lifespan=lifespan)

    async def _post_message(self, request: HttpRequest) -> Response:
        answered = self._claude.answer(dict(request.headers), await request.body())
        match answered.fault:
            case Disconnect(None):
                return DisconnectResponse(self._connections, None, {}, EVENTS)
            case Disconnect(count) if isinstance(answered.reply, Reply):
                return self._disconnect(answered, count or 0)
        if not answered.stream or isinstance(answered.reply, ApiError):
            return self._rendered(answered.reply)
        sent = _encoded_events(answered.reply, answered.fault)
        return StreamingResponse(sent, media_type=EVENTS, headers=self._headers())

    def _disconnect(self, answered: Answer, count: int) -> Response:
        assert isinstance(answered.reply, Reply)
        if answered.stream:
            pieces = list(_encoded_events(answered.reply, None))[:count]
            return DisconnectResponse(self._connections, pieces, self._headers(), EVENTS)
        body = json.dumps(answered.reply.message()).encode("ascii")
        return DisconnectResponse(self._connections, [body[: len(body) // 2]], self._headers(), "application/json")

    async def _post_count(self, request: HttpRequest) -> Response:
        counted = self._claude.count(dict(request.headers), await request.body())
        return self._rendered(counted) if isinstance(counted, ApiError) else self._json(200, counted)

    async def _get_state(self, _request: HttpRequest) -> Response:
        return self._json(200, self._claude.state())

    async def _not_found(self, request: HttpRequest) -> Response:
        message = f"[scripted Claude] unknown route {request.method} {request.url.path}"
        return self._rendered(ApiError(404, "not_found_error", message))

    def _rendered(self, reply: Reply | ApiError) -> Response:
        if isinstance(reply, ApiError):
            headers = {**self._headers(), **reply.headers}
            return self._json(reply.status, reply.body(headers["request-id"]), headers)
        return self._json(200, reply.message())

    def _json(self, status: int, body: Mapping[str, object], headers: Mapping[str, str] | None = None) -> Response:
        # ASCII with escapes: a script may contain lone surrogates, which UTF-8 cannot encode.
        data = json.dumps(body)
        return Response(data, status, {**self._headers(), **(headers or {})}, media_type="application/json")

    def _headers(self) -> dict[str, str]:
        return {"x-scripted-claude": BANNER, "request-id": f"req_scripted_{self._new_suffix()}"}


@contextmanager
def serve_in_thread(claude: ScriptedClaude, *, port: int) -> Iterator[None]:
    """Serve `claude` on the loopback interface in a thread while the block runs. Sets its `url`."""
    started = threading.Event()
    server, listener = _server(claude, port, started.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="scripted-claude", daemon=True)
    thread.start()
    try:
        if not started.wait(STARTUP_TIMEOUT_S):
            raise RuntimeError(f"the scripted Claude server did not start within {STARTUP_TIMEOUT_S} s")
        yield
    finally:
        server.should_exit = True
        thread.join()


def serve(claude: ScriptedClaude, *, port: int, on_startup: Callable[[], None]) -> None:
    """Serve `claude` in the calling thread until the process receives SIGINT or SIGTERM."""
    server, listener = _server(claude, port, on_startup)
    server.run(sockets=[listener])


def _server(claude: ScriptedClaude, port: int, on_startup: Callable[[], None]) -> tuple[uvicorn.Server, socket.socket]:
    listener = socket.create_server(("127.0.0.1", port))
    claude.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    connections = Connections()
    config = uvicorn.Config(
        Site(claude, connections, lambda: secrets.token_hex(8)).app(on_startup=on_startup),
        http=connections.protocol(),
        log_level="warning",
        access_log=False,
        lifespan="on",
        ws="none",
        proxy_headers=False,  # connections are identified by their real client address
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config), listener


def _encoded_events(reply: Reply, fault: ErrorResponse | Disconnect | StreamError | None) -> Iterator[bytes]:
    for n, event in enumerate(events(reply)):
        if isinstance(fault, StreamError) and n == fault.after_events:
            yield encode_event(ErrorResponse(fault.status).error().body())
            return
        yield encode_event(event)
