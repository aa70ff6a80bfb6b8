"""Handlers of MCP requests to a memory store. All transports use them."""

from __future__ import annotations

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mcp import types as t
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated

from retentive import __version__
from retentive.engine.lists import list_memories
from retentive.errors import InvalidInput, RetentiveError
from retentive.mcp import resources
from retentive.mcp.answers import Arguments, result_of
from retentive.mcp.changes import TreeChanges
from retentive.mcp.tools import EXPECTED_COUNT, ONE_TOOL, TOOLS, McpCall, ToolSpec, UrlOf, deletes, run
from retentive.mounts import StoreOrMounts, store_at, stores_of
from retentive.remote import is_remote
from retentive.store import core_of
from retentive.values.commands import Delete, parse
from retentive.values.paths import ROOT, MemoryPath

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp.shared.subscriptions import ServerEvent

    Context = ServerRequestContext[Any, Any]

T = TypeVar("T")
INTEGRATION = "mcp"
"""Name of this integration in audit logs."""
INSTRUCTIONS = """\
Files below /memories that persist across conversations. View /memories or search before you start a task, and record \
what will matter later: decisions, preferences, and what you learned. Keep one topic per file, and correct what is \
outdated instead of adding to it."""
PAST = " All changes are versioned: memory_history lists them, memory_undo reverts your own."
"""Text that is appended to the instructions if the history tools exist."""
KEY = "retentive/idempotencyKey"
CALL_IDS = ("claudecode/toolUseId", KEY)
"""Fields of `_meta` in which a client may send the id of a call.

If a client repeats a call, it sends the same id. The client chose the ids in the second field so that they are unique,
but the first may hold the ids of any model. JSON-RPC ids cannot identify a repeated call, because they restart
with each connection.
"""
MAX_CALL_ID_CHARS = 255
MAX_SUBSCRIPTIONS = 1_000
ASK_FROM = 5
"""Smallest number of memories for which a delete needs confirmation."""
MODERN = "2026-07-28"
_CONFIRM = "confirm"
_CONFIRM_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {_CONFIRM: {"type": "boolean", "title": "Delete them"}},
    "required": [_CONFIRM],
}


class RunCall(Protocol):
    """Function that runs `work` in a worker thread. If `is_quick` is True, it may run `work` without a thread.

    If the request is cancelled and `is_read` is True, the function abandons `work`. If the request is cancelled and
    `is_read` is False, the function waits until `work` ends.
    """

    def __call__(self, work: Callable[[], T], *, is_read: bool, is_quick: bool = False) -> Awaitable[T]:
        """Return the result of `work`."""


@dataclass(frozen=True, slots=True)
class McpTarget:
    """Memory store or mounts of a request, its name in URIs, and what the caller may do with it."""

    store: StoreOrMounts
    name: str
    run: RunCall
    changes: Callable[[], TreeChanges]
    tools: tuple[ToolSpec, ...] = TOOLS
    may_read: bool = True
    may_write: bool = True
    url_of: UrlOf | None = None
    """Function that returns the URL of the web page of a memory. If it is None, the `memory:` URI is used instead."""
    may_continue: Callable[[], bool] = field(default=lambda: True)
    """Function that is called before events are sent. It returns False if the API key was revoked."""


class McpService:
    """Handlers of MCP requests. `target_of` returns the target of a request. The handlers raise `MCPError`."""

    def __init__(self, target_of: Callable[[Context], McpTarget], *, instructions: str = INSTRUCTIONS + PAST) -> None:
        self._target_of = target_of
        self._instructions = instructions
        self._listening: weakref.WeakSet[ListenHandler] = weakref.WeakSet()
        self._subscribed: OrderedDict[tuple[str, str], Callable[[], None]] = OrderedDict()
        self._sending: set[asyncio.Task[None]] = set()

    def server(self) -> Server[Any]:
        """Return an MCP server that uses these handlers. The caller must run the server on a transport."""
        server: Server[Any] = Server(
            "retentive",
            version=__version__,
            title="Memory",
            instructions=self._instructions,
            get_tool_input_schema=lambda _: None,  # no argument is sent as a header, so the schemas are not needed
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
            on_subscribe_resource=self.subscribe,
            on_unsubscribe_resource=self.unsubscribe,
            on_subscriptions_listen=self.listen,
        )
        server.middleware.clear()  # it would add OpenTelemetry spans; the server of retentive has its own
        return server

    def close(self) -> None:
        """End all event streams to clients."""
        for each in list(self._listening):
            each.close()

    async def list_tools(self, ctx: Context, _: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        """Return the tools that the caller may use."""
        target = self._target_of(ctx)
        overwrites = True  # if the settings cannot be read, `memory_create` may replace a text
        with suppress(RetentiveError):
            overwrites = (await target.run(stores_of(target.store)[ROOT].settings, is_read=True)).create_overwrites
        usable = (
            each
            for each in target.tools
            if each.name == ONE_TOOL or (target.may_read if each.read_only else target.may_write)
        )
        return t.ListToolsResult(tools=[_described(each, overwrites=overwrites) for each in usable])

    async def call_tool(
        self, ctx: Context, params: t.CallToolRequestParams
    ) -> t.CallToolResult | t.InputRequiredResult:
        """Run a tool. Mistakes of the model are returned as results, so that the model can read them."""
        target, arguments = self._target_of(ctx), params.arguments or {}
        tool = next((each for each in target.tools if each.name == params.name), None)
        if tool is None:
            raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        scope = "write" if tool.writes(arguments) else "read"
        if not (target.may_write if scope == "write" else target.may_read):
            return result_of(f"Error: the API key needs the scope {scope}", is_error=True)
        try:
            call_id, run = _call_id(ctx)
            url_of = target.url_of or (lambda path, _: resources.uri_of(target.name, path))
            return await _called(ctx, params, target, tool, McpCall(target.store, arguments, url_of, call_id, run))
        except RetentiveError as error:  # also: no thread was free, or the call took too long
            return result_of(f"Error: {error}", is_error=True)

    async def list_resources(self, ctx: Context, params: t.PaginatedRequestParams | None) -> t.ListResourcesResult:
        """Return one page of the list of memories."""
        target, cursor = self._target_of(ctx), None if params is None else params.cursor
        listed = partial(resources.listed, target.store, target.name, cursor)
        return await _checked(target, partial(target.run, listed, is_read=True))

    async def list_templates(self, ctx: Context, _: t.PaginatedRequestParams | None) -> t.ListResourceTemplatesResult:
        """Return the template of the URIs of all memories."""
        return resources.templates(self._target_of(ctx).name)

    async def read_resource(self, ctx: Context, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        """Return the text of a memory."""
        target = self._target_of(ctx)
        read = partial(resources.read, target.store, target.name, params.uri)
        return await _checked(target, partial(target.run, read, is_read=True))

    async def listen(self, ctx: Context, params: t.SubscriptionsListenRequestParams) -> t.SubscriptionsListenResult:
        """Send the client an event for each change to which it subscribes (protocol revision 2026-07-28)."""
        target = self._target_of(ctx)
        for uri in params.notifications.resource_subscriptions or ():
            resources.checked_path(uri, target.name)
        await _checked(target, target.changes().begin)
        handler = ListenHandler(_Bus(target))
        self._listening.add(handler)
        return await handler(ctx, params)

    async def subscribe(self, ctx: Context, params: t.SubscribeRequestParams) -> t.EmptyResult:
        """Begin to notify the client whenever the memory at a URI changes (protocol revisions before 2026)."""
        target, key = self._target_of(ctx), (_connection(ctx), params.uri)
        resources.checked_path(params.uri, target.name)
        if not ctx.session.can_send_request:
            raise MCPError(t.INVALID_REQUEST, "The server does not keep sessions; use protocol revision 2026-07-28")
        await _checked(target, target.changes().begin)
        self._forget(key)
        self._subscribed[key] = target.changes().subscribe(
            lambda event: self._send(ctx.session, event, params.uri), target.may_continue
        )
        if len(self._subscribed) > MAX_SUBSCRIPTIONS:  # the SDK does not report the end of a session
            self._forget(next(iter(self._subscribed)))
        return t.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
        """Stop the notifications that `subscribe` began."""
        self._forget((_connection(ctx), params.uri))
        return t.EmptyResult()

    def _forget(self, key: tuple[str, str]) -> None:
        self._subscribed.pop(key, lambda: None)()

    def _send(self, session: ServerSession, event: ServerEvent, uri: str) -> None:
        if event == ResourceUpdated(uri):
            task = asyncio.create_task(session.send_resource_updated(uri))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)


async def _called(
    ctx: Context, params: t.CallToolRequestParams, target: McpTarget, tool: ToolSpec, call: McpCall
) -> t.CallToolResult | t.InputRequiredResult:
    """Run a tool. If it deletes many memories, ask for confirmation first.

    If their number changes before the confirmation arrives, ask again.
    """
    count = partial(target.run, partial(_mass_delete, target.store, call.arguments), is_read=True)
    number = await count() if deletes(tool.name, call.arguments) else 0
    confirmed_number = 0
    while number not in (0, confirmed_number):
        refusal = await _confirmed(ctx, params, number)
        if refusal is not None:
            return refusal
        confirmed_number, number = number, await count()
    if number:
        await ctx.session.report_progress(0, number, f"Deleting {number} memories")
    writes = tool.writes(call.arguments)
    is_quick = tool.name == "memory_view" or (not writes and tool.name == ONE_TOOL)
    answer = await target.run(lambda: run(tool, call), is_read=not writes, is_quick=is_quick)
    if number:
        await ctx.session.report_progress(number, number)
    return answer


def _mass_delete(tree: StoreOrMounts, arguments: Arguments) -> int:
    """Return the number of memories that a call deletes, or 0 if they are fewer than `ASK_FROM`.

    If the arguments are invalid or the memories cannot be counted, returns 0, so that the tool reports the error. On a
    local store, counting writes no audit entry, because the deletion writes one.
    """
    try:
        command = parse({**arguments, "command": "delete"})
        assert isinstance(command, Delete)
        store, inner = store_at(tree, command.path.text)
        if inner == ROOT:  # it cannot be deleted
            return 0
        if not is_remote(store):
            count = len(core_of(store).peek(list_memories(MemoryPath.known(inner))))
        else:
            count = len(store.memories(inner))
    except RetentiveError:
        return 0
    return count if count >= ASK_FROM else 0


async def _confirmed(
    ctx: Context, params: t.CallToolRequestParams, count: int
) -> t.CallToolResult | t.InputRequiredResult | None:
    """Return None if `count` memories may be deleted. Otherwise return a question for the user, or an error.

    A client that cannot show a form has to repeat the call with the number. With a protocol revision before `MODERN`,
    the server can send a form only within a session.
    """
    arguments, is_modern = params.arguments or {}, ctx.protocol_version >= MODERN
    known = ctx.session.client_capabilities
    forms = None if known is None else known.elicitation
    form = t.ElicitRequestFormParams(
        message=f"Delete {count} memories below {arguments['path']}?", requested_schema=_CONFIRM_FORM
    )
    given = None
    if forms is None or (forms.form is None and forms.url is not None):
        pass
    elif is_modern:
        answer = (params.input_responses or {}).get(_CONFIRM)
        if not isinstance(answer, t.ElicitResult) or params.request_state != str(count):
            requests: t.InputRequests = {_CONFIRM: t.ElicitRequest(params=form)}
            return t.InputRequiredResult(input_requests=requests, request_state=str(count))
        given = answer
    elif ctx.session.can_send_request:
        with suppress(MCPError):
            given = await ctx.session.elicit_form(form.message, form.requested_schema, ctx.request_id)
    if given is None:
        if arguments.get(EXPECTED_COUNT) == count:
            return None
        return result_of(
            f"Error: Nothing was deleted: {arguments['path']} contains {count} memories. To delete them all, ask the"
            f" user and repeat the call with {EXPECTED_COUNT} {count}.",
            is_error=True,
        )
    if given.action == "accept" and (given.content or {}).get(_CONFIRM) is True:
        return None
    return result_of(f"Error: Nothing was deleted: the user did not agree to delete {count} memories.", is_error=True)


class _Bus:
    """Event source for the stream of one client. Its events are the changes of a memory store."""

    def __init__(self, target: McpTarget) -> None:
        self._target = target

    async def publish(self, event: ServerEvent) -> None:
        """Do nothing. Changes are read from the memory store instead."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        return self._target.changes().subscribe(listener, self._target.may_continue)


async def _checked(target: McpTarget, work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a read, if the caller may read. A failure of storage is an error of the protocol."""
    if not target.may_read:
        raise MCPError(t.INVALID_REQUEST, "the API key needs the scope read")
    try:
        return await work()
    except RetentiveError as error:
        raise MCPError(t.INTERNAL_ERROR, str(error)) from None


def _described(tool: ToolSpec, *, overwrites: bool) -> t.Tool:
    return t.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        annotations=t.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive or (overwrites and tool.name == "memory_create"),
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
        _meta={"anthropic/alwaysLoad": True} if tool.always_loaded else None,
    )


def _call_id(ctx: Context) -> tuple[str | None, str | None]:
    """Return the id that the client sent in `_meta` of a call, and the run in which it is unique. Both may be None.

    Raises `InvalidInput` if the id is invalid.
    """
    given = dict(ctx.meta or {})
    name, found = next(((name, given[name]) for name in CALL_IDS if given.get(name) is not None), ("", None))
    if found is not None and not (isinstance(found, str) and 0 < len(found) <= MAX_CALL_ID_CHARS):
        raise InvalidInput(f"the id of the call must be a string of 1 to {MAX_CALL_ID_CHARS} characters")
    return found, KEY if name == KEY else None


def _connection(ctx: Context) -> str:
    """Return the session id of an HTTP request. Over stdio there is only one connection, and its id is ""."""
    return "" if ctx.request is None else str(ctx.request.headers.get("mcp-session-id"))
