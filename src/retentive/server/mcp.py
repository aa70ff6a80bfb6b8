"""Serves memory stores to MCP clients at `/mcp`, over streamable HTTP, with the keys and limits of the API.

The package `mcp` takes a second to import, so it is imported at the first request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.responses import JSONResponse

from retentive.errors import InvalidInput, OutcomeUnknown, RetentiveError, Unavailable
from retentive.mounts import StoreOrMounts, store_at, stores_of, tree_of
from retentive.server.calls import NO_STORE, Caller
from retentive.server.errors import HttpError, forbidden
from retentive.server.options import is_loopback
from retentive.server.requests import MCP
from retentive.server.rights import OF_PATHS, KeyRecord
from retentive.storage.contract import StoreInfo
from retentive.store import MemoryStore, with_options
from retentive.values.extras import pip_install
from retentive.values.mounting import MountOption, mounts_in
from retentive.values.paths import ROOT

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from retentive.mcp.changes import StoreChanges
    from retentive.mcp.http import HttpSessions
    from retentive.mcp.service import McpTarget
    from retentive.server.application import Server

T = TypeVar("T")
NO_SCOPE = "the API key needs the scope read or write"
LACKING = 'Bearer error="insufficient_scope", scope="read write"'
LISTEN = "subscriptions/listen"
"""Method that opens an event stream by POST (protocol revision 2026-07-28). `mcp` checks that the header names it."""
MAX_NAMED = 20
"""Memory stores that the answer names if the URL names none."""
INVALID_REQUEST = -32600
"""Code of JSON-RPC for all errors before a request is read. Clients of MCP show its message, not that of the API."""


class McpEndpoint:
    """ASGI application that handles the requests of MCP clients to `/mcp`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._starting = asyncio.Lock()
        self._sessions: HttpSessions | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_over = asyncio.Event()
        self._changes: WeakValueDictionary[str, StoreChanges] = WeakValueDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request. If it fails, send an error response."""
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]  # RFC 9110, section 5.5
        request = Request(scope, receive)
        try:
            await self._answer(request, send)
        except (HttpError, RetentiveError) as error:
            response = self._server.refusal(scope, error, challenge=MCP)
            body = json.loads(bytes(response.body))
            body |= {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, **body["error"]}}
            headers = {name: value for name, value in response.headers.items() if name != "content-length"}
            await JSONResponse(body, response.status_code, headers)(scope, receive, send)

    async def _answer(self, request: Request, send: Send) -> None:
        """Check the caller, then handle a request.

        Raises `HttpError` only before the first byte of the response is sent.
        """
        caller = await self._server.admitted(request)
        _check_origin(request)
        if not any(map(caller.key.allows_somewhere, OF_PATHS)):
            raise HttpError(403, "permission_error", NO_SCOPE, "permission_denied", www_authenticate=LACKING)
        sessions = await self._running()
        callers, tree = await self._server.workers.run(partial(self._tree, caller, request))
        body = await self._server.read_body(request)
        read: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return read.pop() if read else await request.receive()

        places = [f"{point} {each.id}" for point, each in stores_of(tree).items()]
        owner = " ".join([caller.key.id, str(caller.actor), *places])
        with ExitStack() as at_end:
            if request.method == "GET" or request.headers.get("mcp-method") == LISTEN:
                at_end.callback(self._server.limits.open_stream(caller.key.id))
                request.scope["state"]["is_stream"] = True
            await sessions.answer(request.scope, receive, send, self._target(callers, tree, request), owner)

    def stop(self) -> None:
        """End the event streams. Can be called from any thread and from a signal handler."""
        if self._sessions is not None and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._sessions.stop)

    async def close(self) -> None:
        """End all sessions."""
        self._is_over.set()
        if self._task is not None:
            await self._task

    async def _running(self) -> HttpSessions:
        """Return the MCP sessions of this process. The first call starts them."""
        async with self._starting:
            if self._sessions is None:
                try:
                    self._sessions = await asyncio.to_thread(self._new_sessions)
                except ModuleNotFoundError:
                    message = f"the server lacks the package `mcp`; install it on the server: {pip_install('mcp')}"
                    raise HttpError(404, "not_found_error", message, "not_found") from None
                self._loop, has_begun = asyncio.get_running_loop(), asyncio.Event()
                self._task = asyncio.create_task(self._hold(self._sessions, has_begun))
                await has_begun.wait()
            return self._sessions

    def _new_sessions(self) -> HttpSessions:
        from retentive.mcp.http import HttpSessions  # noqa: PLC0415 - imports mcp

        return HttpSessions(keeps_sessions=self._server.is_alone)

    async def _hold(self, sessions: HttpSessions, has_begun: asyncio.Event) -> None:
        async with sessions.running():
            has_begun.set()
            await self._is_over.wait()

    def _tree(self, caller: Caller, request: Request) -> tuple[list[Caller], StoreOrMounts]:
        """Return the memory store that a request is for, or the mounts that its URL names.

        Also return the caller with its rights in each store, first in the one at `/memories`. Each mounted store is
        checked as if the request were for it alone. Without the right to write there, it is mounted read-only.
        """
        callers, stores = list[Caller](), dict[str, MemoryStore]()
        given = request.query_params
        for mount in (MountOption(ROOT, given.get("store") or ""), *mounts_in(given.getlist("mount"))):
            if mount.url:
                raise InvalidInput("a mount in this URL must be a memory store of this server: POINT=KEY")
            own, store = self._store(caller, mount.key)
            callers.append(own)
            is_read_only = mount.is_read_only or not own.key.allows("write")
            stores[mount.point] = store.read_only() if is_read_only else store
        if len(stores) > 1 and not all(each.key.allows("read") for each in callers):
            raise forbidden("the API key needs the scope read in each mounted memory store")
        return callers, tree_of(stores)

    def _store(self, caller: Caller, given: str | None) -> tuple[Caller, MemoryStore]:
        """Return the memory store that the URL names (`given`), or the only one that the caller sees.

        Also return the caller with its rights there. Raises `HttpError` 404 if there is no such memory store, or if the
        URL names none and the caller sees several.
        """
        location, name, seen = self._server.location, given or _only_name(caller.key), list[StoreInfo]()
        if name is None:
            seen += islice(filter(caller.sees, location.stores(caller.workspace_id)), MAX_NAMED + 1)
        if len(seen) == 1:
            name = seen[0].id
        try:
            info, store = location.named(name or "memstore_", caller)  # without a name, an id that no store has
        except HttpError:
            raise HttpError(404, "not_found_error", _no_store(seen), "not_found") from None
        from retentive.mcp.service import INTEGRATION  # noqa: PLC0415 - imports mcp

        own = caller.within(info)
        if not any(map(own.key.allows, OF_PATHS)):
            raise HttpError(403, "permission_error", NO_SCOPE, "permission_denied", www_authenticate=LACKING)
        return own, with_options(store.through(INTEGRATION), hides_history=True)  # a model, whatever its key allows

    def _target(self, callers: Sequence[Caller], tree: StoreOrMounts, request: Request) -> McpTarget:
        from retentive.mcp.changes import TreeChanges  # noqa: PLC0415 - as above
        from retentive.mcp.service import McpTarget  # noqa: PLC0415 - as above

        stores = stores_of(tree)
        name = stores[ROOT].key or stores[ROOT].id

        async def run(work: Callable[[], T], *, is_read: bool, is_quick: bool = False) -> T:
            found = await self._run(work, is_read=is_read)
            if not is_read:
                for store in stores.values():
                    self._server.hub.wake(store.id)
            return found

        changes = TreeChanges(tree, name, self._changes_of)
        base = self._server.public_url(request) or str(request.base_url).rstrip("/")  # where browsers reach the server

        def page(path: str, memory_id: str) -> str:
            return f"{base}/console/s/{store_at(tree, path)[0].id}/id/{memory_id}"  # stays valid after a rename

        return McpTarget(
            tree,
            name,
            run,
            lambda: changes,  # the target keeps them until somebody listens
            may_read=callers[0].key.allows("read"),
            may_write=any(each.key.allows("write") for each in callers),
            url_of=page if self._server.has_console else None,
            may_continue=partial(self._server.is_active, callers[0].record),
        )

    async def _run(self, work: Callable[[], T], *, is_read: bool = True) -> T:
        """Run a function in a worker thread.

        Raises `RetentiveError` if no thread is free or the function takes too long.
        """
        try:
            return await self._server.workers.run(work)
        except HttpError as error:
            raise (Unavailable if is_read or error.status == 503 else OutcomeUnknown)(error.message) from None

    def _changes_of(self, store: MemoryStore) -> StoreChanges:
        """Return the object that watches a memory store for changes. All MCP clients of the memory store share it."""
        from retentive.mcp.changes import StoreChanges  # noqa: PLC0415 - as above

        found = self._changes.get(store.id)
        if found is None:
            found = self._changes[store.id] = StoreChanges(store, self._run)
        return found


def _only_name(key: KeyRecord) -> str | None:
    """Return the only memory store that a key can see: its id or its store key. None if that is not plain."""
    patterns = (key.only_store,) if key.only_store else () if key.grants else key.stores
    return patterns[0] if len(patterns) == 1 and not {"*", "?"} & set(patterns[0]) else None


def _no_store(seen: list[StoreInfo]) -> str:
    """Return the message for a request without a memory store. `seen` are those that the caller may choose from."""
    if not seen:
        return f"{NO_STORE} not found; name one in the URL, such as {MCP}?store=KEY"
    names = ", ".join(info.key or info.id for info in seen[:MAX_NAMED]) + (", ..." if len(seen) > MAX_NAMED else "")
    return f"the URL names no {NO_STORE}; name one of these, such as {MCP}?store=KEY: {names}"


def _check_origin(request: Request) -> None:
    """Raise `HttpError` 403 if a web page of another site sent the request.

    The error is also raised if the host name of the page resolves to this machine (DNS rebinding). Such pages do not
    have the API key, so this check is a second defence. Source: MCP, "Streamable HTTP", security warning.
    """
    origin = request.headers.get("origin")
    if origin is None:
        return
    host = request.headers.get("host", "")
    local, _ = request.scope.get("server") or ("", None)
    is_rebound = is_loopback(local) and not is_loopback(urlsplit(f"//{host}").hostname)
    if urlsplit(origin).netloc != host or is_rebound:
        raise forbidden("the header Origin names another site")
