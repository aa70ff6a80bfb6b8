"""HTTP side of the gateway: who calls, what is passed through unchanged, and which requests get the memory tool."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from retentive.errors import InvalidInput, RetentiveError
from retentive.gateway.calls import MemoryCalls, OnCall
from retentive.gateway.loop import ClientResponse, Loop, heavy
from retentive.gateway.records import KeptCall
from retentive.gateway.transform import MessagesRequest, check_batch, parsed
from retentive.gateway.turns import encoded, failed
from retentive.gateway.upstream import Headers, Upstream, encoding_for, end_to_end
from retentive.server.calls import NO_STORE, Caller
from retentive.server.errors import HttpError, forbidden, invalid, missing, unauthorized
from retentive.server.keys import PREFIX
from retentive.server.options import is_loopback
from retentive.server.requests import pieces_in
from retentive.server.rights import KeyRecord
from retentive.storage.contract import Actor
from retentive.store import MemoryStore, with_options
from retentive.wire.stores import GatewayMode

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from retentive.server.application import Server
    from retentive.server.options import ServeOptions

PATH = "/gateway"
ROUTE = PATH + "/{store}"
"""Route in logs and metrics, which do not get the URL, because it may have a key."""
MESSAGES, BATCHES = b"/v1/messages", b"/v1/messages/batches"
MAX_BODY_BYTES, MAX_BATCH_BYTES, MAX_FILE_BYTES = 32 << 20, 256 << 20, 500 << 20  # Source: "Request size limits"
MAX_ROUNDS = 20
API_KEY = "RETENTIVE_GATEWAY_API_KEY"
"""Environment variable with a key for the Messages API, which replaces those of the clients."""
INTEGRATION = "gateway"
NO_SCOPE = "the API key needs the scope gateway"
_KEY, _SESSION, _AGENT = "x-retentive-key", "x-claude-code-session-id", "x-claude-code-agent-id"


Admitted: TypeAlias = tuple[Callable[[], MemoryStore], GatewayMode, str]
"""What opens the memory store for the actor of a request, the mode, and the id of the key."""


class Gateway:
    """ASGI application for the requests below `/gateway`.

    If `local` is given, all requests use this memory store and need no key, so only programs of this machine may send
    some. `on_call` is called after each call of the memory tool.
    """

    def __init__(
        self,
        server: Server,
        upstream: str,
        *,
        api_key: str | None = None,
        max_rounds: int = MAX_ROUNDS,
        local: MemoryStore | None = None,
        on_call: OnCall = lambda _input, _reply: None,
    ) -> None:
        self._server = server
        self._upstream = Upstream(upstream, api_key)
        self._max_rounds = max_rounds
        self._local = local
        self._on_call = on_call
        self._answering: dict[str, asyncio.Future[list[KeptCall]]] = {}
        server.closing.append(self._upstream.close)

    @property
    def routes(self) -> list[BaseRoute]:
        """Routes of the server."""
        return [Route(PATH + "/{rest:path}", self)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request. If the client disconnects, the request to the API ends, but no memory call that runs."""
        scope["state"]["route"] = ROUTE
        client, has_body = ClientResponse(send), asyncio.Event()
        try:
            await _while_connected(receive, has_body, self._answer(Request(scope, receive), client, has_body))
        except (HttpError, RetentiveError) as error:
            if not client.has_begun:
                await self._server.refusal(scope, error)(scope, receive, send)
            elif client.is_stream and isinstance(error, HttpError):
                await client.end(encoded([failed(error)]))

    async def _answer(self, request: Request, client: ClientResponse, has_body: asyncio.Event) -> None:
        name, in_path, target = _address(request)
        headers = end_to_end(request.headers.raw)
        open_store, mode, owner = (
            await self._admitted(request, name, in_path) if self._local is None else self._admitted_here(request, name)
        )
        if self._local is None:  # no key of ours leaves this server
            headers = [each for each in headers if PREFIX.encode() not in each[1]]
        path, run = target.partition(b"?")[0], self._server.workers.run
        if request.method != "POST" or path not in {MESSAGES, BATCHES}:
            await run(open_store)
            length = [(name, value) for name, value in request.headers.raw if name == b"content-length"]
            body: Any = b""
            if length or "transfer-encoding" in request.headers:
                body = _pieces(request, has_body)
            else:
                has_body.set()
            await self._forward(client, request.method, target, headers + length, body)
            return
        data = await self._server.read_body(request, MAX_BODY_BYTES if path == MESSAGES else MAX_BATCH_BYTES)
        has_body.set()
        asked: MessagesRequest | None = None
        if path == MESSAGES:
            asked = await heavy(len(data), MessagesRequest.read, data, mode)
        elif b"memory_20250818" in data:
            check_batch(await heavy(len(data), parsed, data))
        ids = [] if asked is None else asked.memory_ids()
        if asked is None or not (asked.acts or ids):
            await run(open_store)
            await self._forward(client, "POST", target, headers, data)
            return
        given: MessagesRequest = asked
        digest = await heavy(len(data), given.digest, owner, request.scope["path"])
        while job := self._answering.get(digest):  # the client has gone and asks again
            await asyncio.wait([job])

        def prepared() -> tuple[MemoryCalls, MessagesRequest, bytes]:
            memory = MemoryCalls(open_store(), digest, request.headers.get(_SESSION), self._on_call)
            found = given.with_calls(memory.load(ids))
            return memory, found, found.body()

        memory, given, body = await run(prepared)
        if not given.acts:
            await self._forward(client, "POST", target, headers, body)
            return
        client.is_stream = given.is_stream
        parts = (self._server, self._upstream, client, given, memory, encoding_for(headers), target, body)
        await Loop(*parts, self._max_rounds, self._answering).run()

    async def _forward(self, client: ClientResponse, method: str, path: bytes, headers: Headers, body: Any) -> None:
        async with self._upstream.send(method, path, headers, body) as answer:
            await client.forward(answer)

    async def _admitted(self, request: Request, name: str, in_path: str | None) -> Admitted:
        """Return who sends a request. Raises `HttpError`."""
        text = request.headers.get(_KEY) or in_path
        if text is None:
            raise unauthorized()
        record = await self._server.authenticated(text)
        request.scope["state"]["key_id"] = record.id
        self._server.limits.check(record.id, record.rate_limit)
        if not record.allows_somewhere("gateway"):
            raise forbidden(NO_SCOPE)
        if text == in_path and {scope for each in record.held for scope in each.scopes} != {"gateway"}:
            raise forbidden("a key in a URL must have only the scope gateway, because proxies may log it")
        store = partial(self._store, record, _session_actor(request) or record.actor, name)
        return store, record.gateway_mode, record.id

    def _admitted_here(self, request: Request, name: str) -> Admitted:
        store = self._local
        assert store is not None
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname
        if request.headers.get("origin") is not None or not is_loopback(host):
            raise forbidden("only programs of this machine may use this gateway, and no web page")
        if name not in {store.key, store.id}:
            raise missing(NO_STORE)
        actor = _session_actor(request)
        mine = store if actor is None else store.acting_as(actor)
        return lambda: mine, "added", ""

    def _store(self, record: KeyRecord, actor: Actor, name: str) -> MemoryStore:
        """Return a memory store, opened for a caller. Raises `HttpError` 404, also if the key may not see it."""
        caller = Caller(record.through_gateway, actor)
        info, store = self._server.location.named(name, caller)
        if not caller.may("gateway", info):
            raise forbidden(NO_SCOPE)
        return with_options(store.through(INTEGRATION), hides_history=True)  # the caller is a model


def served(server: Server, options: ServeOptions) -> list[BaseRoute]:
    """Return the routes of the gateway of `retentive serve`. The environment may have the key for the API."""
    api_key = os.environ.get(API_KEY)
    return Gateway(server, options.gateway_upstream, api_key=api_key, max_rounds=options.gateway_rounds).routes


def url_of(address: str, store: MemoryStore) -> str:
    """Return the URL that apps use instead of that of the API."""
    return f"{address}{PATH}/{quote(store.key or store.id, safe='')}"


def _address(request: Request) -> tuple[str, str | None, bytes]:
    """Return the parts of a URL: the name of the memory store, the key if there is one, and the URL for the API."""
    parts = request.scope["raw_path"].removeprefix(PATH.encode() + b"/").split(b"/")
    names = [unquote(part.decode("latin-1")) for part in parts[:2]]
    key = next((name for name in names if name.startswith(PREFIX)), None)
    path, query = b"/" + b"/".join(parts[1 if key is None else 2 :]), request.scope["query_string"]
    if b"/../" in path.lower().replace(b"%2e", b".") + b"/":
        raise missing("route")
    return next((name for name in names if name != key), ""), key, path + (b"?" + query if query else b"")


def _session_actor(request: Request) -> Actor | None:
    """Return the actor for a session of Claude Code or one of its agents. None for another program."""
    session, agent = request.headers.get(_SESSION), request.headers.get(_AGENT)
    try:
        return None if session is None else Actor("session", f"{session}/{agent}" if agent else session)
    except InvalidInput:
        raise invalid(f"{_SESSION}: must be the id of a session") from None


async def _pieces(request: Request, has_body: asyncio.Event) -> AsyncIterator[bytes]:
    async for piece in pieces_in(request, MAX_FILE_BYTES):
        if piece:
            yield piece
    has_body.set()


async def _while_connected(receive: Receive, has_body: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Await `work`, and cancel it when the client disconnects."""
    task = asyncio.ensure_future(work)

    async def watch() -> None:
        await has_body.wait()
        while (await receive())["type"] != "http.disconnect":
            pass
        task.cancel()

    watcher = asyncio.ensure_future(watch())
    try:
        await task
    except asyncio.CancelledError:
        if not watcher.done():
            raise
    finally:
        watcher.cancel()
