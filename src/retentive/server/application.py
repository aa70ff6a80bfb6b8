"""ASGI application: routes each request, checks its API key, reads its body and sends the response.

Handlers run in worker threads.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from anyio import fail_after, to_thread
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Router
from starlette.routing import Route as HttpRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from retentive.errors import RetentiveError
from retentive.server.authorization import ACCESS_PREFIX, CLIENT_PREFIX, GRANTED, Authorization
from retentive.server.authorization_routes import oauth_routes
from retentive.server.background import last_run
from retentive.server.calls import (
    Caller,
    ClosingResponse,
    Events,
    Route,
    RouteAnswer,
    RouteCall,
    ServedLocation,
    Streamed,
    lacking,
)
from retentive.server.clients import Clients
from retentive.server.errors import (
    HttpError,
    api_error,
    error_response,
    missing,
    no_method,
    only,
    overloaded,
    unauthorized,
)
from retentive.server.events import Hub
from retentive.server.handlers import ROUTES
from retentive.server.limits import RateLimits, Workers
from retentive.server.location_metrics import LocationCollector
from retentive.server.mcp import McpEndpoint
from retentive.server.metrics import AUTH_FAILURES
from retentive.server.openapi import document
from retentive.server.options import is_loopback
from retentive.server.protocol import Strict
from retentive.server.requests import (
    MAX_BODY_BYTES,
    MCP,
    METADATA,
    UPLOAD_S,
    check_beta,
    check_workspace,
    key_in,
    named_actor,
    named_run,
    pieces_in,
    read_object,
    read_query,
    read_request_key,
    read_upload,
)
from retentive.server.rights import KeyRecord
from retentive.server.sessions import Sessions
from retentive.server.telemetry import Envelope, Telemetry, metrics_answer
from retentive.wire.base import Fields, PageQuery

if TYPE_CHECKING:
    from retentive.server.oauth import Tokens


MAX_BODIES_BYTES = 256 << 20
"""Maximum total size of the request bodies that one process reads at the same time."""
READY_S = 1.0


class Server:
    """State shared by all endpoints of one process.

    `tokens` are the OAuth tokens; None if OAuth is not configured. `is_alone` says that this is the only process at its
    address: only then can MCP clients have sessions. With `has_console`, results for MCP clients link to the web pages
    of memories, and people connect clients there. `public_url` is the URL at which all of them reach the server.
    """

    def __init__(
        self,
        location: ServedLocation,
        workers: Workers | None = None,
        limits: RateLimits | None = None,
        telemetry: Telemetry | None = None,
        tokens: Tokens | None = None,
        *,
        is_alone: bool = True,
        has_console: bool = False,
        has_metrics: bool = True,
        public_url: str | None = None,
    ) -> None:
        self.location = location
        self.workers = workers or Workers()
        self.hub = Hub(self.workers)
        self.telemetry = telemetry or Telemetry()
        self.limits = limits or RateLimits()
        self.max_bodies_bytes = MAX_BODIES_BYTES
        self._bodies_bytes = 0
        self.tokens = tokens
        self.is_alone = is_alone
        self.has_console = has_console
        self.has_metrics = has_metrics
        self._public_url = public_url or (None if tokens is None else tokens.resource)
        records = location.opened.records
        self.sessions = Sessions(location.keys, records)
        clients = Clients(records, to_private=location.webhooks_to_private)
        self.authorization = Authorization(records, clients, self.sessions.record) if has_console else None
        self.is_stopping = False
        self.collector = LocationCollector(location.opened)
        self.mcp = McpEndpoint(self)
        self.closing: list[Callable[[], Awaitable[None]]] = []
        """Functions that are called when the server has stopped."""

    def stop(self) -> None:
        """End all event streams. From now on `/readyz` answers 503."""
        self.is_stopping = True
        self.hub.stop()
        self.mcp.stop()

    @property
    def is_issuer(self) -> bool:
        """True if MCP clients get their tokens here: people sign in here, and not only at other issuers of tokens."""
        signs_in = self.tokens is None or (self.sessions.people is not None and bool(self.sessions.people.providers))
        return self.authorization is not None and signs_in

    def public_url(self, request: Request) -> str | None:
        """Return the URL at which clients reach the server, without a slash at its end. None if it is not known.

        If it is not configured, it is the one of the request, for a client on this machine.
        """
        local, _ = request.scope.get("server") or ("", None)
        try:
            is_here = is_loopback(local) and is_loopback(urlsplit(f"//{request.headers.get('host', '')}").hostname)
        except ValueError:
            is_here = False
        return self._public_url or (str(request.base_url).rstrip("/") if is_here else None)

    def refusal(self, scope: Scope, error: HttpError | RetentiveError, *, challenge: str = "") -> Response:
        """Return the response for an error.

        A response with status 401 refers the client to the OAuth metadata of the path `challenge`.
        """
        response = error_response(scope, error if isinstance(error, HttpError) else api_error(error))
        if response.status_code == 401:
            response.headers["www-authenticate"] = self._challenge(Request(scope), challenge)
        return response

    def _challenge(self, request: Request, path: str) -> str:
        base, is_own = self.public_url(request), self.is_issuer and path == MCP
        if base is None or not (is_own or self.tokens):
            return "Bearer"
        found = f'Bearer resource_metadata="{base}{METADATA}{path}"'
        if is_own:
            found += f', scope="{" ".join(GRANTED)}"'
            found += "" if key_in(request.headers) is None else ', error="invalid_token"'
        return found

    def is_active(self, key: KeyRecord) -> bool:
        """Return whether a key, a token or a connected client still has its rights. May be five seconds late."""
        if self.authorization is not None and key.id.startswith(CLIENT_PREFIX):
            return self.authorization.is_active(key)
        return self.location.keys.is_active(key)

    async def admitted(self, request: Request) -> Caller:
        """Authenticate a request, check its rate limit and its workspace, and return the caller. Raises `HttpError`."""
        caller = await self._caller(request)
        request.scope["state"].update(workspace_id=caller.workspace_id, key_id=caller.key.id)
        request.scope["state"]["rate"] = self.limits.check(caller.key.id, caller.key.rate_limit)
        check_workspace(request.headers, caller.key)
        return caller

    async def answer(self, request: Request, routes: Mapping[str, Route]) -> Response:
        """Handle a request, and return its response. `routes` maps each method that the path supports to its route."""
        if request.method not in routes:
            raise no_method(", ".join(sorted(routes)))
        route = routes[request.method]
        caller = await self.admitted(request)
        check_beta(request.headers)
        allows = caller.key.allows if route.is_of_workspace else caller.key.allows_somewhere
        if not any(map(allows, route.scopes)):
            raise lacking(route.scopes)
        call = RouteCall(self.location, caller, request.method, request.url.path, request.path_params, route.scopes)
        call.last_event_id = request.headers.get("last-event-id")
        try:
            await self._read(request, route, call)
            answer = await self.workers.run(
                self.telemetry.observed(route, call, partial(_answered, call, route)),
                deadline_s=UPLOAD_S if route.is_long else None,
            )
        except HttpError as error:
            if call.upload is not None and error.status != 504:  # otherwise the handler still runs, and closes the file
                call.upload.close()
            raise
        if route.method != "GET" and "memory_store_id" in call.ids:
            self.hub.wake(call.ids["memory_store_id"])
        if isinstance(answer, Events):
            close = self.limits.open_stream(caller.key.id)
            request.scope["state"]["is_stream"] = True
            return ClosingResponse(self.hub.stream(answer), "text/event-stream", close=close)
        if isinstance(answer, Streamed):
            return ClosingResponse(answer.file, answer.media_type)
        assert route.answer is not None  # its serializer leaves out the fields of a subclass, such as a secret
        return Response(TypeAdapter(route.answer).dump_json(answer), media_type="application/json")

    async def _read(self, request: Request, route: Route, call: RouteCall) -> None:
        """Read the query, the body and the headers of a request into `call`."""
        call.given = read_query(request.scope["query_string"])
        asked = route.query.read(call.given)
        fields = {name: getattr(asked, name) for name in type(asked).model_fields}
        if isinstance(asked, PageQuery):
            call.asked, _, _ = asked, fields.pop("limit"), fields.pop("page")
        call.arguments = {"query": asked} if "query" in route.handler.__annotations__ else fields
        if route.upload:
            if "memory_store_id" in call.ids:
                await self.workers.run(call.check_store)
            call.upload, call.given["body"] = await read_upload(request)
            call.arguments["upload"] = call.upload
        elif route.method == "POST":
            given = read_object(await self.read_body(request))
            call.given |= given
            body = (route.body or Fields).read(given)
            call.arguments |= {} if route.body is None else {"body": body}
        if route.method != "GET":
            call.request, call.run = read_request_key(request.headers, call), named_run(request.headers)

    async def _caller(self, request: Request) -> Caller:
        text = key_in(request.headers)
        if text is None:
            raise unauthorized()
        base = self.public_url(request) if request.url.path == MCP else None  # tokens of connected clients are for it
        record = await self.authenticated(text, base)
        return Caller(record, named_actor(request.headers, record))

    async def authenticated(self, text: str, base: str | None = None) -> KeyRecord:
        """Return the rights of an API key, an OAuth token or, at the URL `base`, a connected client.

        Raises `HttpError` 401 if it is not valid.
        """
        find = partial(self._found, text, base)
        record = find() if self.location.keys.is_cached(text) else await self.workers.run(find)
        if record is None:
            raise unauthorized()
        return record

    def _found(self, text: str, base: str | None) -> KeyRecord | None:
        keys, kind = self.location.keys, "oauth_token"
        if base is not None and self.authorization is not None and text.startswith(ACCESS_PREFIX):
            record = self.authorization.authenticated(text, base)
        elif self.tokens is not None and text.count(".") == 2:  # as a JWT has
            record = self.tokens.authenticated(text)
            record = record and keys.groups.with_groups(record)
        else:
            record, kind = keys.authenticated(text), "api_key"
        if record is None:
            AUTH_FAILURES.labels(kind).inc()
        return record

    async def read_body(self, request: Request, max_bytes: int = MAX_BODY_BYTES) -> bytes:
        """Return the body of a request. Raises `HttpError`: 413 if it is too long, 503 if all bodies together are."""
        found = bytearray()
        try:
            async for piece in pieces_in(request, max_bytes):
                found += piece
                self._bodies_bytes += len(piece)
                if self._bodies_bytes > self.max_bodies_bytes:
                    raise overloaded("the server is reading too many request bodies; try again later")
        finally:
            self._bodies_bytes -= len(found)
        return bytes(found)

    async def ready(self, request: Request) -> Response:
        """Answer `/readyz`: 200 if the server is not stopping and can read its storage within a second, else 503.

        The answer tells when maintenance last ended, and how.
        """
        refusal = overloaded("the server is stopping, or its storage cannot be read")
        if self.is_stopping:
            return error_response(request.scope, refusal)
        try:
            with fail_after(READY_S):
                run = await to_thread.run_sync(last_run, self.location.opened.records, abandon_on_cancel=True)
        except (TimeoutError, RetentiveError):
            return error_response(request.scope, refusal)
        return JSONResponse({"status": "ready", "maintenance": None if run is None else run.ending()})

    async def measured(self, _: Request) -> Response:
        """Respond to `/metrics` with the metrics."""
        return await to_thread.run_sync(metrics_answer, self.collector)


def _answered(call: RouteCall, route: Route) -> RouteAnswer:
    """Return the answer of the handler of `route`, and close the uploaded file."""
    with call.upload or nullcontext():
        return call.answered_by(route.handler)


async def _healthy(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _described(_: Request) -> Response:
    return JSONResponse(document())


class _Endpoint:
    """ASGI application that handles the requests to one path, with any method."""

    def __init__(self, server: Server, routes: Mapping[str, Route]) -> None:
        self._server = server
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if b"%2f" in scope.get("raw_path", b"").lower():  # a proxy that does not decode it sees another path
                raise missing("route")
            response = await self._server.answer(Request(scope, receive), self._routes)
        except (HttpError, RetentiveError) as error:
            response = self._server.refusal(scope, error)
        await response(scope, receive, send)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await error_response(scope, missing("route"))(scope, receive, send)


def application(
    server: Server, *, on_stop: Callable[[], None] | None = None, more: Iterable[BaseRoute] = ()
) -> ASGIApp:
    """Return the ASGI application.

    `more` are additional routes. `on_stop` is called when the server has stopped, after the last request.
    """
    by_path: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})[route.method] = route
    routes: list[BaseRoute] = [HttpRoute(path, _Endpoint(server, rows)) for path, rows in by_path.items()]
    routes += [
        only("GET", "/healthz", _healthy),
        only("GET", "/readyz", server.ready),
        only("GET", "/openapi.json", _described),
        HttpRoute(MCP, server.mcp),
        *more,
    ]
    if server.has_metrics:
        routes.append(only("GET", "/metrics", server.measured))
    routes += oauth_routes(server)

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        if current_thread() is main_thread():
            at_stop(server.stop)  # uvicorn would otherwise wait for the event streams and never stop
        yield
        server.stop()
        await server.mcp.close()
        for close in server.closing:
            await close()
        await to_thread.run_sync(server.workers.close)
        if on_stop is not None:
            await to_thread.run_sync(on_stop)

    router = Router(routes, redirect_slashes=False, default=_not_found, lifespan=lifespan)
    return Envelope(Strict(router, error_response), server.telemetry)


def at_stop(action: Callable[[], None]) -> None:
    """Call `action` at SIGINT and SIGTERM, before what these signals do now."""
    for each in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(each)

        def handle(number: int, frame: FrameType | None, before: object = before) -> None:
            action()
            if callable(before):
                before(number, frame)

        signal.signal(each, handle)
