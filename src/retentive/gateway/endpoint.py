"""HTTP side of the gateway: who calls, what is passed through unchanged, and which requests get the memory tool."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from retentive.errors import InvalidInput, RetentiveError
from retentive.gateway.calls import MemoryCalls, OnCall, digest_of
from retentive.gateway.loop import ClientResponse, Loop, heavy
from retentive.gateway.records import KeptCall
from retentive.gateway.transform import MessagesRequest, check_batch, failed, parsed
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
_CREDENTIALS = {b"x-api-key", b"authorization"}


@dataclass(frozen=True, slots=True)
class Admitted:
    """Caller of a request. `open_store` opens the memory store for its actor. `path` is that of the API."""

    open_store: Callable[[], MemoryStore]
    mode: GatewayMode
    owner: str
    session: str | None
    path: bytes
    headers: Headers


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
                await client.end(failed(error))

    async def _answer(self, request: Request, client: ClientResponse, has_body: asyncio.Event) -> None:
        found = await self._admitted(request)
        path, run = found.path.partition(b"?")[0], self._server.workers.run
        if request.method != "POST" or path not in {MESSAGES, BATCHES}:
            await run(found.open_store)
            length = [(name, value) for name, value in request.headers.raw if name == b"content-length"]
            has_pieces = bool(length) or "transfer-encoding" in request.headers
            body = _pieces(request, has_body) if has_pieces else await request.body()
            if not has_pieces:
                has_body.set()
            await self._forward(client, request.method, found.path, found.headers + length, body)
            return
        data = await self._server.read_body(request, MAX_BODY_BYTES if path == MESSAGES else MAX_BATCH_BYTES)
        has_body.set()
        asked = None
        if path == MESSAGES:
            asked = await heavy(len(data), _read, data, found.mode)
        elif b"memory_20250818" in data:
            check_batch(await heavy(len(data), parsed, data))
        ids = [] if asked is None else asked.memory_ids()
        if asked is None or not (asked.acts or ids):
            await run(found.open_store)
            await self._forward(client, "POST", found.path, found.headers, data)
            return
        digest = digest_of(found.owner, request.scope["path"], *asked.identity)
        while job := self._answering.get(digest):  # the client has gone and asks again
            await asyncio.wait([job])

        def prepared() -> tuple[MemoryCalls, dict[str, KeptCall]]:
            memory = MemoryCalls(found.open_store(), digest, found.session, self._on_call)
            return memory, memory.load(ids)

        memory, known = await run(prepared)
        asked = await heavy(len(data), asked.with_calls, known) if ids else asked
        body = await heavy(len(data), asked.body, data)
        if not asked.acts:
            await self._forward(client, "POST", found.path, found.headers, body)
            return
        headers, client.is_stream = encoding_for(found.headers), asked.is_stream
        parts = (self._server, self._upstream, client, asked, memory, headers, found.path, body)
        await Loop(*parts, self._max_rounds, self._answering).run()

    async def _forward(self, client: ClientResponse, method: str, path: bytes, headers: Headers, body: Any) -> None:
        async with self._upstream.send(method, path, headers, body) as answer:
            await client.forward(answer)

    async def _admitted(self, request: Request) -> Admitted:
        """Return who sends a request, and for which memory store. Raises `HttpError`."""
        parts = request.scope["raw_path"].removeprefix(PATH.encode() + b"/").split(b"/")
        names = [unquote(part.decode("latin-1")) for part in parts[:2]]
        in_path = next((name for name in names if name.startswith(PREFIX)), None)
        rest = parts[1 if in_path is None else 2 :]
        if any(unquote(part.decode("latin-1")).strip(".") == "" and b"." in part for part in rest) or b"%2e" in (
            b"/".join(rest).lower()
        ):
            raise missing("route")
        query = request.scope["query_string"]
        path = b"/" + b"/".join(rest) + (b"?" + query if query else b"")
        name = next((name for name in names if name != in_path), "")
        headers = end_to_end(request.headers.raw)
        if self._local is not None:
            return self._admitted_here(request, name, path, headers)
        given = request.headers.get(_KEY) or in_path
        ours = [
            value for key, value in headers if key in _CREDENTIALS and _credential(value).startswith(PREFIX.encode())
        ]
        headers = [each for each in headers if each[1] not in ours]
        text = given or (_credential(ours[0]).decode("latin-1") if ours else None)
        if text is None:
            raise unauthorized()
        record = await self._server.authenticated(text)
        request.scope["state"]["key_id"] = record.id
        self._server.limits.check(record.id, record.rate_limit)
        if not record.allows_somewhere("gateway"):
            raise forbidden(NO_SCOPE)
        if text == in_path and {scope for each in record.held for scope in each.scopes} != {"gateway"}:
            raise forbidden("a key in a URL must have only the scope gateway, because proxies may log it")
        session, actor = _who(request)
        store = partial(self._store, record, actor or record.actor, name)
        return Admitted(store, record.gateway_mode, record.id, session, path, headers)

    def _admitted_here(self, request: Request, name: str, path: bytes, headers: Headers) -> Admitted:
        store = self._local
        assert store is not None
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname
        if request.headers.get("origin") is not None or not is_loopback(host):
            raise forbidden("only programs of this machine may use this gateway, and no web page")
        if name not in {store.key, store.id}:
            raise missing(NO_STORE)
        session, actor = _who(request)
        mine = store if actor is None else store.acting_as(actor)
        return Admitted(lambda: mine, "added", "", session, path, headers)

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


def _credential(value: bytes) -> bytes:
    return value[7:].strip() if value[:7].lower() == b"bearer " else value


def _read(data: bytes, mode: GatewayMode) -> MessagesRequest | None:
    fields = parsed(data)
    return None if fields is None else MessagesRequest.read(fields, mode)


def _who(request: Request) -> tuple[str | None, Actor | None]:
    """Return the session of Claude Code that sends a request, and the actor for it: the session, or one of its agents.

    Both are None for another program.
    """
    session, agent = request.headers.get(_SESSION), request.headers.get(_AGENT)
    try:
        return session, None if session is None else Actor("session", f"{session}/{agent}" if agent else session)
    except InvalidInput:
        raise invalid(f"{_SESSION}: must be the id of a session") from None


async def _pieces(request: Request, has_body: asyncio.Event) -> AsyncIterator[bytes]:
    async for piece in pieces_in(request, MAX_FILE_BYTES):
        if piece:
            yield piece
    has_body.set()


async def _while_connected(receive: Receive, has_body: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Await `work`, and cancel it when the client disconnects."""

    async def disconnected() -> None:
        await has_body.wait()
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = asyncio.ensure_future(work), asyncio.ensure_future(disconnected())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_gone = not tasks[0].done()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if not is_gone:
        tasks[0].result()
