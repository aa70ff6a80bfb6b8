"""Route of the memory tool. The request is a tool_use block, and the answer is a tool_result block."""

from __future__ import annotations

from collections.abc import Mapping

from retentive.errors import error_of
from retentive.integrations.messages import render, reply_to
from retentive.server.calls import RouteCall
from retentive.server.errors import api_error, forbidden
from retentive.server.route import STORE, Routes
from retentive.wire.commands import ToolResult, ToolUseBlock
from retentive.wire.keys import Scope

route = Routes()


@route("POST", f"{STORE}/tool", ("read", "write"))
def run_tool(call: RouteCall, body: ToolUseBlock) -> ToolResult:
    """Run a tool_use block of the memory tool; `view` needs the scope `read`, the other commands `write`.

    If a change is sent again with the same `id` within 24 hours, the first result is returned and nothing is changed.
    An id that is not one of the Claude API counts only within the run in the header `Retentive-Run`.
    Raises `HttpError` 503 if the storage was unavailable or the outcome is unknown. In this case, the client
    sends the request again, so the model need not see the failure.
    """
    is_view = isinstance(body.input, Mapping) and body.input.get("command") == "view"
    scope: Scope = "read" if is_view else "write"
    if not call.caller.key.allows(scope):
        raise forbidden(f"the API key needs the scope {scope}")
    reply = reply_to(call.store, {"name": body.name, "input": body.input}, body.id, run=call.run)
    if reply.is_error:
        call.check_store()  # if the memory store was erased, the answer is 404, as for one that never existed
        failure = api_error(error_of(reply.text, reply.code))
        if failure.status == 503:
            raise failure
    return ToolResult.model_validate(render(body.id, reply))
