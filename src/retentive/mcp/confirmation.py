"""Confirmation before many memories are deleted.

If the client can show a form, its user confirms. Otherwise the model must pass the number of memories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp import types as t
from mcp.shared.exceptions import MCPError

from retentive.engine.lists import list_memories
from retentive.errors import RetentiveError
from retentive.mcp.answers import ToolAnswer
from retentive.mcp.tools import EXPECTED_COUNT
from retentive.remote import is_remote
from retentive.store import MemoryStore, core_of
from retentive.values.commands import Delete, parse

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext

    from retentive.mcp.answers import Arguments

ASK_FROM = 5
"""Smallest number of memories for which a delete needs confirmation."""
MODERN = "2026-07-28"
_FIELD = "confirm"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {_FIELD: {"type": "boolean", "title": "Delete them"}},
    "required": [_FIELD],
}


def mass_delete(store: MemoryStore, arguments: Arguments) -> int:
    """Return the number of memories that a call deletes, or 0 if they are fewer than `ASK_FROM`.

    If the arguments are invalid or the memories cannot be counted, returns 0, so that the tool reports the error. On a
    local store, counting writes no audit entry, because the deletion writes one.
    """
    try:
        command = parse({**arguments, "command": "delete"})
        if not isinstance(command, Delete) or command.path.is_root:
            return 0
        if not is_remote(store):
            count = len(core_of(store).peek(list_memories(command.path)))
        else:
            count = len(store.list_memories(command.path.text, limit=ASK_FROM).items)
            count = count if count < ASK_FROM else len(store.memories(command.path.text))
    except RetentiveError:
        return 0
    return count if count >= ASK_FROM else 0


async def confirmed(
    ctx: ServerRequestContext[Any, Any], params: t.CallToolRequestParams, count: int
) -> ToolAnswer | t.InputRequiredResult | None:
    """Return None if `count` memories may be deleted. Otherwise return a question for the user, or an error."""
    arguments = params.arguments or {}
    if not _can_ask(ctx):
        return _by_number(arguments, count)
    question = f"Delete {count} memories below {arguments['path']}?"
    form = t.ElicitRequestFormParams(message=question, requested_schema=_SCHEMA)
    if ctx.protocol_version >= MODERN:
        given = (params.input_responses or {}).get(_FIELD)
        if not isinstance(given, t.ElicitResult) or params.request_state != str(count):
            requests: t.InputRequests = {_FIELD: t.ElicitRequest(params=form)}
            return t.InputRequiredResult(input_requests=requests, request_state=str(count))
    else:
        try:
            given = await ctx.session.elicit_form(form.message, form.requested_schema, ctx.request_id)
        except MCPError:
            return _by_number(arguments, count)
    if given.action == "accept" and (given.content or {}).get(_FIELD) is True:
        return None
    return ToolAnswer(f"Error: Nothing was deleted: the user did not agree to delete {count} memories.", True)


def _can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the client can show a form.

    With a protocol revision before `MODERN`, the server can send a form only within a session.
    """
    known = ctx.session.client_capabilities
    found = None if known is None else known.elicitation
    has_forms = found is not None and (found.form is not None or found.url is None)
    return has_forms and (ctx.protocol_version >= MODERN or ctx.session.can_send_request)


def _by_number(arguments: Arguments, count: int) -> ToolAnswer | None:
    if arguments.get(EXPECTED_COUNT) == count:
        return None
    return ToolAnswer(
        f"Error: Nothing was deleted: {arguments['path']} contains {count} memories. To delete them all, ask the user"
        f" and repeat the call with {EXPECTED_COUNT} {count}.",
        is_error=True,
    )
