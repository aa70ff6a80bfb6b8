"""Routes that run commands.

The route of the memory tool takes a tool_use block and answers a tool_result block. The others return more than the
text of the reply; the client in `retentive.remote` uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retentive.engine.core import StoreCore
from retentive.engine.handlers import RunCommand, RunView, Viewed
from retentive.engine.memories import parse_for_applications
from retentive.engine.operation import AuditOnly, Operation, Outcome, Read
from retentive.engine.rendering import paths_named, rendered
from retentive.errors import Refused, RetentiveError, error_of
from retentive.integrations.messages import render, reply_to
from retentive.server.calls import RouteCall
from retentive.server.errors import api_error, forbidden
from retentive.server.route import STORE, WRITE, Routes
from retentive.storage.contract import Snapshot
from retentive.store import core_of
from retentive.values.commands import Clear, View, command_name
from retentive.values.provenance import origin_of
from retentive.values.records import Invocation, Recorded
from retentive.values.replies import Reply
from retentive.wire.commands import (
    BatchAnswer,
    BatchRequest,
    CommandAnswer,
    CommandChange,
    CommandRequest,
    ToolResult,
    ToolUseBlock,
    WrittenObject,
)
from retentive.wire.keys import Scope

MAX_CHANGES = 1_000
"""Maximum number of versions listed in a response."""
route = Routes()


@route("POST", f"{STORE}/tool", ("read", "write"))
def run_tool(call: RouteCall, body: ToolUseBlock) -> ToolResult:
    """Run a tool_use block of the memory tool; `view` needs the scope `read`, the other commands `write`.

    If a change is sent again with the same `id` within 24 hours, the first result is returned and nothing is changed.
    An id that is not one of the Claude API counts only within the run in the header `Retentive-Run`.
    Raises `HttpError` 503 if the storage was unavailable or the outcome is unknown. In this case, the client
    sends the request again, so the model need not see the failure.
    """
    _check_scope(call, body.input)
    reply = reply_to(call.store, {"name": body.name, "input": body.input}, body.id, run=call.run)
    _check_reply(call, reply)
    return ToolResult.model_validate(render(body.id, reply))


def _check_reply(call: RouteCall, reply: Reply) -> None:
    """Raise `HttpError` if a reply says that the memory store was erased, or that the client should try again."""
    if reply.is_error:
        call.check_store()  # if the memory store was erased, the answer is 404, as for one that never existed
        failure = api_error(error_of(reply.text, reply.code))
        if failure.status == 503:
            raise failure


def _check_scope(call: RouteCall, command: object) -> object:
    """Return the name of a command. Raises `HttpError` 403 if the key lacks its scope."""
    name = command.get("command") if isinstance(command, Mapping) else None
    scope: Scope = "read" if name == "view" else "write"
    if not call.caller.key.allows(scope):
        raise forbidden(f"the API key needs the scope {scope}")
    return name


@route("POST", f"{STORE}/commands", ("read", "write"), conflicts=True)
def run_command(call: RouteCall, body: CommandRequest) -> CommandAnswer:
    """Run a command of the memory tool, or `write`, `append` or `clear`; `view` needs the scope `read`, others `write`.

    If a change is sent again with the same `id` within 24 hours, the handler returns the first reply and changes
    nothing. An id that is not one of the Claude API counts only within the run in the header `Retentive-Run`. Failures
    of the storage are raised as in `run_tool`.
    """
    name = _check_scope(call, body.command)
    core = core_of(call.store)
    origin = origin_of(body.source, body.session)
    invocation = Invocation(None, body.id, core.integration, **origin, request=call.request, run=call.run)
    operation: Operation[Any]
    path = None
    try:
        operation = _operation(core, body.command, name, body.if_version)
        path = paths_named(operation)[-1].text
    except Refused as refusal:
        operation = AuditOnly(command_name(body.command), refusal)
    outcome: Outcome[Any] = core.run(operation, invocation)
    reply = rendered(core, operation, outcome)
    _check_reply(call, reply)
    said: dict[str, Any] = {"content": reply.text, "is_error": reply.is_error, "error_code": reply.code, "path": path}
    if isinstance(operation, RunCommand) and outcome.error is None:
        changes = [] if outcome.proposed else _changes(core, outcome.recorded)
        return CommandAnswer.of(core.described(operation, outcome), changes=changes, **said)
    if isinstance(outcome.result, Viewed) and (memory := outcome.result.memory) is not None:
        core.accesses.note(core.id, memory)
        said |= {"memory_id": memory.id, "memory_version_id": memory.version_id}
    if outcome.error is not None and (other := outcome.error.conflicting) is not None:
        said |= {"conflicting_memory_id": other.memory_id, "conflicting_path": other.path}
    return CommandAnswer(**said)


@route("POST", f"{STORE}/batch", WRITE, conflicts=True)
def run_batch(call: RouteCall, body: BatchRequest) -> BatchAnswer:
    """Run up to 100 commands as one change, all or none; an error has the `position` of the refused command."""
    try:
        written = call.store.batch(body.commands, **origin_of(body.source, body.session))
    except RetentiveError as error:
        found = api_error(error)
        found.fields |= {} if error.position is None else {"position": error.position}
        raise found from None
    return BatchAnswer(results=list(map(WrittenObject.of, written)))


def _operation(core: StoreCore, raw: object, name: object, if_version: str | None) -> Operation[Any]:
    """Return the operation for a command. Raises `Refused` if the command is invalid."""
    if name == "clear":
        return RunCommand(Clear())
    command = parse_for_applications(raw)
    if isinstance(command, View):
        return RunView(command, core.listings)
    return RunCommand(command, if_version)


def _changes(core: StoreCore, recorded: Sequence[Recorded]) -> list[CommandChange]:
    """Return the recorded versions, at most `MAX_CHANGES`.

    They are read after the transaction. This is safe, because versions never change.
    """

    def work(found: Snapshot) -> list[CommandChange]:
        return [CommandChange.of(found.version(each.version_id)[0]) for each in recorded[:MAX_CHANGES]]

    return core.with_options(hides_history=False).peek(Read("versions", work, sees_all=True)) if recorded else []
