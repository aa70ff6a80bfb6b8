"""Handler of the tool route. The request is a tool_use block, and the response is a tool_result block."""

from __future__ import annotations

from collections.abc import Mapping

from retentive.errors import error_of
from retentive.integrations.messages import render, reply_to
from retentive.server.calls import Json, RouteCall
from retentive.server.errors import api_error, forbidden
from retentive.server.keys import Scope


def run_tool(call: RouteCall, *, type: str, id: str, name: object, input: object, **_: object) -> Json:  # noqa: A002
    """Run the command in a tool_use block.

    If a change is sent again with the same `id` within 24 hours, the first result is returned and nothing is changed.
    An id that is not one of the Claude API counts only within the run in the header `Retentive-Run`.
    Raises `HttpError` 503 if the storage was unavailable or the outcome is unknown. In this case, the client
    sends the request again, so the model need not see the failure.
    """
    is_view = isinstance(input, Mapping) and input.get("command") == "view"
    scope: Scope = "read" if is_view else "write"
    if not call.caller.key.allows(scope):
        raise forbidden(f"the API key needs the scope {scope}")
    reply = reply_to(call.store, {"name": name, "input": input}, id, run=call.run)
    if reply.is_error:
        call.check_store()  # if the memory store was erased, the answer is 404, as for one that never existed
        failure = api_error(error_of(reply.text, reply.code))
        if failure.status == 503:
            raise failure
    return render(id, reply)
