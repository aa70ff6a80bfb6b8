"""Serves the scripted Claude over HTTP: routes, server-sent events and simulated disconnects."""

from __future__ import annotations

import json
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Unpack

from retentive.values.extras import pip_install

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.datastructures import Headers
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send
except ImportError as error:
    raise ImportError(
        f"the scripted Claude needs the extra `testing` of retentive: {pip_install('testing')}"
    ) from error

from retentive.testing.scripted_claude.claude import Options, ScriptedClaude
from retentive.testing.scripted_claude.errors import ApiError
from retentive.testing.scripted_claude.faults import Disconnect, ErrorResponse, StreamError
from retentive.testing.scripted_claude.reply import ScriptedReply
from retentive.testing.scripted_claude.script import Script, ScriptFunction
from retentive.testing.scripted_claude.stream import encode_event, events

BANNER = "scripted Claude: replies come from a script, not from a model"
EVENTS = "text/event-stream"
STARTUP_TIMEOUT_S = 30  # a loaded CI machine needs several seconds to import and start uvicorn


@contextmanager
def scripted_claude(
    *scripts: Script | ScriptFunction, port: int = 0, **options: Unpack[Options]
) -> Iterator[ScriptedClaude]:
    """Context manager that yields a `ScriptedClaude` and serves it over HTTP until the `with` block ends.

    The server runs in a thread and listens on 127.0.0.1. The attribute `url` of the `ScriptedClaude` is the address of
    the server. `port` 0 selects a free port. The options are those of `ScriptedClaude`.
    """
    claude = ScriptedClaude(*scripts, **options)
    started = threading.Event()
    site = Site(claude, port=port, on_startup=started.set)
    thread = threading.Thread(target=site.run, name="scripted-claude", daemon=True)
    thread.start()
    try:
        if not started.wait(STARTUP_TIMEOUT_S):
            raise RuntimeError(f"the scripted Claude server did not start within {STARTUP_TIMEOUT_S} s")
        yield claude
    finally:
        site.server.should_exit = True
        thread.join()


class Site:
    """HTTP server for a `ScriptedClaude`, on 127.0.0.1. It sets the attribute `url` of the `ScriptedClaude`."""

    def __init__(self, claude: ScriptedClaude, *, port: int, on_startup: Callable[[], None]) -> None:
        @asynccontextmanager
        async def lifespan(_app: Starlette) -> AsyncIterator[None]:
            on_startup()
            yield

        routes = [
            Route("/v1/messages", self._post_message, methods=["POST"]),
            Route("/v1/messages/count_tokens", self._post_count, methods=["POST"]),
            Route("/{path:path}", self._refuse, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes, lifespan=lifespan),
            log_level="warning",
            access_log=False,
            lifespan="on",
            ws="none",
            proxy_headers=False,  # `_cut_off` finds a connection by the real address of its client
            timeout_graceful_shutdown=1,
        )
        self.server = uvicorn.Server(config)
        self._claude = claude
        self._listener = _listen(port)
        claude.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def run(self) -> None:
        """Serve in the calling thread until `server.should_exit` is set.

        In the main thread, signals also stop the server.
        """
        self.server.run(sockets=[self._listener])

    async def _post_message(self, request: Request) -> ASGIApp:
        answered = self._claude.answer(dict(request.headers), await request.body())
        if answered.fault == Disconnect(None):
            return self._cut_off(None)
        if isinstance(answered.reply, ApiError):
            return _error(answered.reply)
        if answered.stream:
            sent = _encoded_events(answered.reply, answered.fault)
            if isinstance(answered.fault, Disconnect):
                return self._cut_off(list(sent)[: answered.fault.after_events])
            return StreamingResponse(sent, media_type=EVENTS, headers=_headers())
        if isinstance(answered.fault, Disconnect):
            body = json.dumps(answered.reply.message()).encode("ascii")
            return self._cut_off([body[: len(body) // 2]], media_type="application/json")
        return _json(200, answered.reply.message())

    def _cut_off(self, pieces: Sequence[bytes] | None, *, media_type: str = EVENTS) -> ASGIApp:
        """Return a response that sends `pieces` and then closes the connection.

        If `pieces` is None, the response only closes the connection.
        """

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            if pieces is not None:
                headers = Headers({**_headers(), "content-type": media_type}).raw
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            for connection in self.server.server_state.connections:
                if getattr(connection, "client", None) == scope["client"]:
                    connection.transport.close()  # the buffered data is sent before the connection closes
            while (await receive())["type"] != "http.disconnect":
                pass

        return respond

    async def _post_count(self, request: Request) -> Response:
        counted = self._claude.count(dict(request.headers), await request.body())
        return _error(counted) if isinstance(counted, ApiError) else _json(200, counted)

    async def _refuse(self, request: Request) -> Response:
        known = request.url.path in ("/v1/messages", "/v1/messages/count_tokens")
        return _error(ApiError(405, "Method Not Allowed") if known else ApiError(404, "Not Found"))


def _listen(port: int) -> socket.socket:
    """Return a listening socket with an explicit protocol.

    asyncio turns off Nagle's algorithm only for a socket with an explicit protocol. With Nagle's algorithm, each
    response would wait 40 ms for a delayed acknowledgement, because the header and the body of a response are sent
    separately.
    """
    listener = socket.create_server(("127.0.0.1", port))
    return socket.socket(listener.family, listener.type, socket.IPPROTO_TCP, listener.detach())


def _error(error: ApiError) -> Response:
    headers = {**_headers(), **error.headers}
    return _json(error.status, error.body(headers["request-id"]), headers)


def _json(status: int, body: Mapping[str, object], headers: Mapping[str, str] | None = None) -> Response:
    # json.dumps escapes all characters outside of ASCII. A script may have lone surrogates, which UTF-8 cannot encode.
    return Response(json.dumps(body), status, headers or _headers(), media_type="application/json")


def _headers() -> dict[str, str]:
    return {"x-scripted-claude": BANNER, "request-id": f"req_scripted_{secrets.token_hex(8)}"}


def _encoded_events(reply: ScriptedReply, fault: ErrorResponse | Disconnect | StreamError | None) -> Iterator[bytes]:
    for n, event in enumerate(events(reply)):
        if isinstance(fault, StreamError) and n == fault.after_events:
            yield encode_event(ErrorResponse(fault.status).error().body())
            return
        yield encode_event(event)
