"""Handlers that run commands and return more than the text of the reply. The client in `retentive.remote` uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retentive.engine.batch import parse_for_applications
from retentive.engine.core import StoreCore
from retentive.engine.handlers import RunCommand, RunView, Viewed
from retentive.engine.operation import AuditOnly, CommandResult, Operation, Outcome, Read
from retentive.engine.rendering import notes_of, paths_named, rendered
from retentive.errors import Conflicting, Refused, RetentiveError
from retentive.server.calls import Json, RouteCall
from retentive.server.errors import api_error, forbidden
from retentive.server.keys import Scope
from retentive.server.objects import api_path
from retentive.storage.contract import Snapshot
from retentive.store import core_of
from retentive.values.commands import Clear, View, command_name
from retentive.values.provenance import origin_of
from retentive.values.records import Invocation, Recorded, Written
from retentive.values.replies import Reply

MAX_CHANGES = 1_000
"""Maximum number of versions listed in a response."""


def run_command(
    call: RouteCall,
    *,
    command: object,
    id: str | None,  # noqa: A002
    if_version: str | None,
    source: str | None,
    session: str | None,
) -> Json:
    """Run one command, and return the reply, the error code and the new versions.

    The command is a command of the memory tool, or `write`, `append` or `clear`. If a change is sent again with the
    same `id` within 24 hours, the handler returns the first reply and changes nothing. An id that is not one of the
    Claude API counts only within the run in the header `Retentive-Run`.
    """
    name = command.get("command") if isinstance(command, Mapping) else None
    scope: Scope = "read" if name == "view" else "write"
    if not call.caller.key.allows(scope):
        raise forbidden(f"the API key needs the scope {scope}")
    core = core_of(call.store)
    origin = origin_of(source, session)
    invocation = Invocation(None, id, core.integration, **origin, request=call.request, run=call.run)
    try:
        operation = _operation(core, command, name, if_version)
    except Refused as refusal:
        invalid = AuditOnly(command_name(command), refusal)
        return _answer(rendered(core, invalid, core.run(invalid, invocation)), None)
    outcome: Outcome[Any] = core.run(operation, invocation)
    found = _answer(rendered(core, operation, outcome), paths_named(operation)[-1].text)
    if outcome.error is not None:
        return found | _conflicting(outcome.error.conflicting)
    if isinstance(outcome.result, Viewed):
        if outcome.result.memory is None:
            return found
        core.accesses.note(core.id, outcome.result.memory)
        return found | _ids(outcome.result.memory.id, outcome.result.memory.version_id)
    return found | _written(core, outcome)


def run_batch(call: RouteCall, *, commands: Sequence[object], source: str | None, session: str | None) -> Json:
    """Run several commands as one change. If one command fails, nothing is changed."""
    try:
        written = call.store.batch(commands, **origin_of(source, session))
    except RetentiveError as error:
        found = api_error(error)
        found.fields |= {} if error.position is None else {"position": error.position}
        raise found from None
    return {"type": "batch_result", "results": [_of_batch(each) for each in written]}


def _of_batch(written: Written) -> Json:
    return {
        "path": api_path(written.path),
        **_ids(written.memory_id, written.version_id),
        "change_count": written.memories,
        "notes": list(written.notes),
        "proposed": written.is_proposed,
    }


def _answer(reply: Reply, path: str | None) -> Json:
    return {
        "type": "command_result",
        "content": reply.text,
        "is_error": reply.is_error,
        "error_code": reply.code,
        "path": None if path is None else api_path(path),
        **_ids(None, None),
        "change_count": 0,
        "changes": [],
        "notes": [],
        "proposed": False,
        **_conflicting(None),
    }


def _ids(memory_id: str | None, version_id: str | None) -> Json:
    return {"memory_id": memory_id or None, "memory_version_id": version_id or None}


def _conflicting(found: Conflicting | None) -> Json:
    path = None if found is None else api_path(found.path)
    return {"conflicting_memory_id": found and found.memory_id, "conflicting_path": path}


def _written(core: StoreCore, outcome: Outcome[CommandResult]) -> Json:
    """Return the fields of a response that describe the versions that a change recorded.

    At most 100 versions are stored for a repeated request, so its response lists none if there are more.
    """
    recorded = outcome.recorded
    last = recorded[-1] if recorded else Recorded("", "")
    version_id = last.version_id or outcome.value().version_id
    return {
        **_ids(last.memory_id if len(recorded) == 1 else None, version_id),
        "change_count": len(recorded),
        "changes": [] if outcome.proposed else _changes(core, recorded),
        "notes": notes_of(core, outcome.value()),
        "proposed": outcome.proposed,
    }


def _operation(core: StoreCore, raw: object, name: object, if_version: str | None) -> Operation[Any]:
    """Return the operation for a command. Raises `Refused` if the command is invalid."""
    if name == "clear":
        return RunCommand(Clear())
    command = parse_for_applications(raw)
    if isinstance(command, View):
        return RunView(command, core.listings)
    return RunCommand(command, if_version)


def _changes(core: StoreCore, recorded: Sequence[Recorded]) -> list[Json]:
    """Return the recorded versions, at most `MAX_CHANGES`.

    They are read after the transaction. This is safe, because versions never change.
    """

    def work(found: Snapshot) -> list[Json]:
        versions = [found.version(each.version_id)[0] for each in recorded[:MAX_CHANGES]]
        return [
            {
                "path": api_path(each.path),
                "memory_id": each.memory_id,
                "memory_version_id": each.id,
                "operation": each.operation,
            }
            for each in versions
        ]

    return core.with_options(hides_history=False).peek(Read("versions", work, sees_all=True)) if recorded else []
