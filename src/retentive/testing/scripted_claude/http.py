"""The scripted Claude over HTTP: routes, server-sent events, and connections that end when a plan says so."""

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
from retentive.testing.scripted_claude.faults import Broken, Cut, Refused
from retentive.testing.scripted_claude.reply import Reply
from retentive.testing.scripted_claude.stream import encoded, events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from starlette.requests import Request as HttpRequest
    from starlette.types import Receive, Scope, Send

    from retentive.testing.scripted_claude.server import Answered, ScriptedClaude

BANNER = "scripted Claude: this is a script, not a model; nobody is thinking here"
EVENTS = "text/event-stream"
STARTUP_TIMEOUT_S = 30  # generous: a loaded CI machine needs seconds to import and start uvicorn


class Connections:
    """The open connections of a server, so that one can be ended without an answer."""

    def __init__(self) -> None:
        self._open: dict[object, asyncio.Transport] = {}

    def protocol(self) -> type[asyncio.Protocol]:
        """uvicorn's own protocol, which enters its connections here."""
        connections = self._open

        class Known(AutoHTTPProtocol):  # type: ignore[misc, valid-type] # which one it is depends on what is installed
            def connection_made(self, transport: asyncio.Transport) -> None:
                self.entered = transport.get_extra_info("peername")  # gone from the transport once it is closed
                connections[self.entered] = transport
                super().connection_made(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                connections.pop(self.entered, None)
                super().connection_lost(exc)

        return Known

    def end(self, client: object) -> None:
        """End the connection from `client`, an address and port, after what was already sent."""
        transport = self._open.get(client)
        if transport is None:
            raise RuntimeError("a connection can be cut only on a server started by scripted_claude()")
        transport.close()


class CutResponse(Response):
    """A response that ends with its connection: after `pieces`, or without a first byte where they are None."""

    def __init__(
        self, connections: Connections, pieces: Sequence[bytes] | None, headers: Mapping[str, str], media_type: str
    ) -> None:
        super().__init__(None, 200, headers, media_type)
        self._connections = connections
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what is to be sent, end the connection, and wait until it is gone."""
        if self._pieces is not None:
            headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        self._connections.end(tuple(scope["client"]))
        while (await receive())["type"] != "http.disconnect":
            pass


class Site:
    """The routes over one `ScriptedClaude`."""

    def __init__(self, claude: ScriptedClaude, connections: Connections, new_suffix: Callable[[], str]) -> None:
        self._claude = claude
        self._connections = connections
        self._new_suffix = new_suffix

    def app(self, *, on_startup: Callable[[], None]) -> Starlette:
        """The ASGI application."""

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
        match answered.trouble:
            case Cut(None):
                return CutResponse(self._connections, None, {}, EVENTS)
            case Cut(count) if isinstance(answered.reply, Reply):
                return self._cut(answered, count or 0)
        if not answered.stream or isinstance(answered.reply, ApiError):
            return self._rendered(answered.reply)
        sent = _encoded_events(answered.reply, answered.trouble)
        return StreamingResponse(sent, media_type=EVENTS, headers=self._headers())

    def _cut(self, answered: Answered, count: int) -> Response:
        assert isinstance(answered.reply, Reply)
        if answered.stream:
            pieces = list(_encoded_events(answered.reply, None))[:count]
            return CutResponse(self._connections, pieces, self._headers(), EVENTS)
        body = json.dumps(answered.reply.message()).encode("ascii")
        return CutResponse(self._connections, [body[: len(body) // 2]], self._headers(), "application/json")

    async def _post_count(self, request: HttpRequest) -> Response:
        counted = self._claude.count(dict(request.headers), await request.body())
        return self._rendered(counted) if isinstance(counted, ApiError) else self._json(200, counted)

    async def _get_state(self, _request: HttpRequest) -> Response:
        return self._json(200, self._claude.state())

    async def _not_found(self, request: HttpRequest) -> Response:
        message = f"[scripted Claude] There is no {request.method} {request.url.path} here."
        return self._rendered(ApiError(404, "not_found_error", message))

    def _rendered(self, reply: Reply | ApiError) -> Response:
        if isinstance(reply, ApiError):
            headers = {**self._headers(), **reply.headers}
            return self._json(reply.status, reply.body(headers["request-id"]), headers)
        return self._json(200, reply.message())

    def _json(self, status: int, body: Mapping[str, object], headers: Mapping[str, str] | None = None) -> Response:
        # ASCII with escapes: a script may hold what UTF-8 cannot, such as a lone surrogate.
        data = json.dumps(body)
        return Response(data, status, {**self._headers(), **(headers or {})}, media_type="application/json")

    def _headers(self) -> dict[str, str]:
        return {"x-scripted-claude": BANNER, "request-id": f"req_scripted_{self._new_suffix()}"}


@contextmanager
def served(claude: ScriptedClaude, *, port: int) -> Iterator[None]:
    """Serve `claude` on the loopback while the block runs, in a thread. Its `url` is set."""
    started = threading.Event()
    server, listener = _server(claude, port, started.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="scripted-claude", daemon=True)
    thread.start()
    try:
        if not started.wait(STARTUP_TIMEOUT_S):
            raise RuntimeError(f"the scripted Claude did not start within {STARTUP_TIMEOUT_S} s")
        yield
    finally:
        server.should_exit = True
        thread.join()


def serve(claude: ScriptedClaude, *, port: int, on_startup: Callable[[], None]) -> None:
    """Serve `claude` in this thread until the process is told to stop."""
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
        proxy_headers=False,  # a client is known by its real address
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config), listener


def _encoded_events(reply: Reply, trouble: Refused | Cut | Broken | None) -> Iterator[bytes]:
    for n, event in enumerate(events(reply)):
        if isinstance(trouble, Broken) and n == trouble.after_events:
            yield encoded(Refused(trouble.status).error().body())
            return
        yield encoded(event)
