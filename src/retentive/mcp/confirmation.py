"""Confirmation before many memories are deleted.

If the client can show a form, its user confirms. Otherwise the model must pass the number of memories.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp import types as t
from mcp.shared.exceptions import MCPError

from retentive.engine.queries import list_memories
from retentive.errors import RetentiveError
from retentive.mcp.answers import ToolAnswer
from retentive.mcp.tools import EXPECTED_COUNT
from retentive.remote import remote_store
from retentive.store import MemoryStore, core_of
from retentive.values.commands import Delete, parse

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext

    from retentive.mcp.answers import Arguments
    from retentive.values.paths import MemoryPath

ASK_FROM = 5
"""Smallest number of memories for which a delete needs confirmation."""
MODERN = "2026-07-28"
_FIELD = "confirm"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {_FIELD: {"type": "boolean", "title": "Delete them"}},
    "required": [_FIELD],
}


@dataclass(frozen=True, slots=True)
class MassDelete:
    """A delete of many memories."""

    path: str
    count: int

    @property
    def question(self) -> str:
        """Question for the user of the client."""
        return f"Delete {self.count} memories below {self.path}?"


def mass_delete(store: MemoryStore, arguments: Arguments) -> MassDelete | None:
    """Return the path and the number of memories if a call deletes at least `ASK_FROM` memories, otherwise None.

    If the arguments are invalid or the memories cannot be counted, returns None, so that the tool reports the error.
    """
    try:
        command = parse({**arguments, "command": "delete"})
        if not isinstance(command, Delete) or command.path.is_root:
            return None
        below = command.path.text
        count = _count(store, command.path)
    except RetentiveError:
        return None
    return MassDelete(below, count) if count >= ASK_FROM else None


def _count(store: MemoryStore, path: MemoryPath) -> int:
    """Return the number of memories below a path.

    On a local store, counting writes no audit entry, because the deletion writes one.
    """
    if remote_store(store) is not None:
        few = store.list_memories(path.text, limit=ASK_FROM).items
        return len(few) if len(few) < ASK_FROM else len(store.memories(path.text))
    return len(core_of(store).peek(list_memories(path)))


async def confirmed(
    ctx: ServerRequestContext[Any, Any], params: t.CallToolRequestParams, asked: MassDelete
) -> ToolAnswer | t.InputRequiredResult | None:
    """Return None if the deletion may run. Otherwise return a question for the user, or an error for the model."""
    if not _can_ask(ctx):
        return _by_number(params.arguments or {}, asked)
    form = t.ElicitRequestFormParams(message=asked.question, requested_schema=_SCHEMA)
    if ctx.protocol_version >= MODERN:
        given = (params.input_responses or {}).get(_FIELD)
        if not isinstance(given, t.ElicitResult) or params.request_state != str(asked.count):
            requests: t.InputRequests = {_FIELD: t.ElicitRequest(params=form)}
            return t.InputRequiredResult(input_requests=requests, request_state=str(asked.count))
    else:
        try:
            given = await ctx.session.elicit_form(form.message, form.requested_schema, ctx.request_id)
        except MCPError:
            return _by_number(params.arguments or {}, asked)
    if given.action == "accept" and (given.content or {}).get(_FIELD) is True:
        return None
    return ToolAnswer(f"Error: Nothing was deleted: the user did not agree to delete {asked.count} memories.", True)


def _can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the client can show a form.

    With a protocol revision before `MODERN`, the server can send a form only within a session.
    """
    known = ctx.session.client_capabilities
    found = None if known is None else known.elicitation
    has_forms = found is not None and (found.form is not None or found.url is None)
    return has_forms and (ctx.protocol_version >= MODERN or ctx.session.can_send_request)


def _by_number(arguments: Arguments, asked: MassDelete) -> ToolAnswer | None:
    if arguments.get(EXPECTED_COUNT) == asked.count:
        return None
    return ToolAnswer(
        f"Error: Nothing was deleted: {asked.path} contains {asked.count} memories. To delete them all, ask the user"
        f" and repeat the call with {EXPECTED_COUNT} {asked.count}.",
        is_error=True,
    )
