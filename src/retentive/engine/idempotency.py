"""Idempotency: if a command is repeated with the same tool_use id, it returns its first reply and changes nothing.

An agent loop may crash after a command takes effect but before the reply arrives. When the loop is started again, it
sends the command again.

Each command that takes effect leaves a record. The transaction that stores the change also writes this record. The
record contains a digest of the tool_use id, a digest of the command, version ids, and those parts of the reply that
cannot be taken from the repeated command or the history. Texts and paths are never stored. The digest of the command is
an HMAC with the tool_use id as key. Without the id, nobody can use the digest to confirm a guessed text. A command that
was refused leaves no record: it changed nothing, so it simply runs again.

Ids of the Claude API are unique. Other models number the calls of each turn, or use the same id for every call. Such an
id counts only within a run that the application names, only for the actor that used it, and only while the outcome of
the command still stands.

The key of a record starts with the day on which it was written. The oldest records are therefore the first ones, and
each new record removes a few that have expired.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from retentive.engine.attempt import Attempt, Proceed
from retentive.engine.command_handlers import CommandResult, RunCommand
from retentive.engine.operation import Outcome
from retentive.errors import InvalidInput, NotFound, Phrase
from retentive.storage.contract import Snapshot, Transaction
from retentive.values.commands import Clear, Delete, Rename, WriteCommand, paths_of
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import PROPOSED_TEXT, Invocation, Recorded
from retentive.values.text import decoded, snippet

KIND = "idempotency"
KEPT_S = 86_400.0
_DAY_S = 86_400
_REMOVED_AT_ONCE = 4  # expired records that each new record removes; more than one, so that a backlog goes
_MANY = 8  # a record lists the versions of at most this number of changes; replies to larger changes need no ids
_PROPOSAL, _VERSION = "prop_", "memver_"
MALFORMED = (KeyError, TypeError, ValueError, AttributeError)  # errors that a damaged record may raise
_API_ID = re.compile("(?:srv|mcp)?toolu_(?:[a-z]+_)?[0-9A-Za-z]{20,}")


@dataclass(frozen=True, slots=True)
class _Identity:
    """What identifies a call: the key and the digest in its record. `kind` is `id`, `id in a run` or `request`."""

    kind: Literal["id", "id in a run", "request"]
    key: str
    digest: str


def can_repeat(call: Invocation) -> bool:
    """Return whether a repetition of a command can be recognized: by a tool_use id that counts, or by its request."""
    if call.request is not None:
        return True
    return bool(call.tool_use_id) and (call.run is not None or is_api_id(call.tool_use_id))


def idempotent(proceed: Proceed, attempt: Attempt[Any]) -> Outcome[Any]:
    """Stage: run a command and record its outcome.

    If the command already ran under its tool_use id or in the same request, return the recorded outcome and change
    nothing. Raises `InvalidInput` if the idempotency key of the request was used for another request.
    """
    operation, now = attempt.operation, attempt.context.clock()
    assert isinstance(operation, RunCommand)
    identities = list(_identities(attempt, operation.command))
    for identity in identities:
        record = remembered(attempt.tx, identity.key, now)
        if record is None:
            continue
        if record == attempt.remembered and attempt.outcome is not None:
            return attempt.outcome  # an earlier run was committed, and only the reply to its commit was lost
        repeated = _repeated(attempt, operation.command, identity, parsed(record))
        if repeated is not None:
            return repeated
    outcome = proceed(attempt)
    kept = _result_record(outcome) | {"digests": [each.digest for each in identities], "time": now}
    attempt.remembered, attempt.outcome = json.dumps(kept, sort_keys=True, separators=(",", ":")), outcome
    for identity in identities:
        remember(attempt.tx, identity.key, attempt.remembered, now)
    return outcome


def _identities(attempt: Attempt[Any], command: WriteCommand) -> Iterator[_Identity]:
    call, tool_use_id = attempt.invocation, str(attempt.invocation.tool_use_id)
    is_unique = is_api_id(call.tool_use_id)
    if call.request is not None and not is_unique:
        yield _Identity("request", call.request.key, call.request.digest)
    if is_unique:
        yield _Identity("id", digest("", "", tool_use_id), _command_digest(attempt, command))
    elif call.tool_use_id and call.run is not None:
        key = digest("", call.run, str(attempt.actor or ""), tool_use_id)
        yield _Identity("id in a run", key, _command_digest(attempt, command))


def is_api_id(tool_use_id: str | None) -> bool:
    """Return whether an id has the form of the ids of the Claude API, which gives each call an id of its own."""
    return tool_use_id is not None and _API_ID.fullmatch(tool_use_id) is not None


def remembered(found: Snapshot, key: str, now: float) -> str | None:
    """Return the record that `remember` wrote under `key` within the last 24 hours, or None."""
    day = int(now // _DAY_S)
    for each in (day, day - 1):
        record = found.get_record(KIND, dated(key, each))
        if record is not None:
            return None if is_old(record, now) else record
    return None


def remember(tx: Transaction, key: str, record: str, now: float) -> None:
    """Write a record, and remove some of the expired ones."""
    day = int(now // _DAY_S)
    for old, _ in list(tx.records(KIND, limit=_REMOVED_AT_ONCE)):
        if old < dated("", day - 1):
            tx.put_record(KIND, old, None)
    tx.put_record(KIND, dated(key, day), record)


def dated(key: str, day: int) -> str:
    """Return the key of a record written on a day, which is counted since 1970."""
    return f"{day:06d}.{key}"


def other_request() -> InvalidInput:
    """Return the error for an idempotency key that was used for another request."""
    return InvalidInput("the idempotency key was used for another request; use a new key for each request")


def _result_record(outcome: Outcome[CommandResult]) -> dict[str, Any]:
    result, changes = outcome.result, outcome.recorded
    assert result is not None
    kept: dict[str, Any] = {"changes": changes if len(changes) <= _MANY else [], "version": result.version_id}
    kept["notes"] = [[note.key, {k: v for k, v in note.values.items() if k != "path"}] for note in result.notes]
    if outcome.proposed:
        kept["proposed"] = True
    if result.is_new:
        kept["new"] = True
    if result.snippet is not None:
        kept["at"] = result.at
    return kept


def _repeated(
    attempt: Attempt[Any], command: WriteCommand, identity: _Identity, known: Mapping[str, Any]
) -> Outcome[Any] | None:
    """Rebuild the first outcome from a record. None if the command must run: the record is damaged or of another one.

    Raises `InvalidInput` if the record is of another request.
    """
    try:
        if identity.digest not in known["digests"]:
            if identity.kind == "request":
                raise other_request()
            return None
        if identity.kind == "id in a run" and not _stands(attempt.view, command, known["changes"]):
            return None
        path = paths_of(command)[-1].written
        notes = tuple(Phrase(key, {**values, "path": path}) for key, values in known["notes"])
        shown = _snippet(attempt.tx, command, known) if "at" in known else None
        version_id, is_new = str(known["version"]), bool(known.get("new"))
        result = CommandResult(notes, shown, version_id=version_id, is_new=is_new)
        changes = [Recorded(*each) for each in known["changes"]]
        proposed = bool(known.get("proposed"))
        return Outcome(attempt.settings, result, recorded=changes, repeated=True, proposed=proposed)
    except MALFORMED:
        return None


def _stands(view: Snapshot, command: WriteCommand, changes: Sequence[Sequence[str]]) -> bool:
    """Return whether the outcome of a command still stands, as its actor sees the store.

    It does if nobody has changed since what the command changed, and nothing is at the path that it emptied. A command
    that changed nothing leaves nothing that could stand.
    """
    is_deletion = isinstance(command, Delete | Clear)
    if is_deletion or isinstance(command, Rename):
        emptied = view.get(ROOT if isinstance(command, Clear) else paths_of(command)[0].text)
        if emptied.memory is not None or emptied.below:
            return False
    elif not changes:
        return False
    memories = [(view.find(memory_id), version_id) for memory_id, version_id in changes]
    if is_deletion:
        return all(memory is None for memory, _ in memories)
    return all(memory is not None and memory.version_id == version_id for memory, version_id in memories)


def _snippet(tx: Transaction, command: WriteCommand, known: Mapping[str, Any]) -> str | None:
    """Rebuild the snippet of the first reply from the text that the first run wrote.

    `known` is the record of the first run. Return None if the text was removed later.
    """
    version, length = str(known["version"]), len(getattr(command, "new_str", ""))
    inner = version.rpartition(".")[2]
    try:
        if version.startswith(_PROPOSAL) and not inner.startswith(_VERSION):
            text = tx.get_record(PROPOSED_TEXT, version)
        else:
            data = tx.text(inner)
            text = None if data is None else decoded(data)
    except NotFound:
        return None
    return None if text is None else snippet(text, known["at"], length, max_chars=0)


def _command_digest(attempt: Attempt[Any], command: WriteCommand) -> str:
    """Return a digest of the command and the store: an HMAC with the tool_use id as key."""
    fields = [_plain(value) for value in _values(command)]
    return digest(str(attempt.invocation.tool_use_id), attempt.context.id, command.name, json.dumps(fields))


def _values(command: object) -> list[object]:
    return [getattr(command, name) for name in cast("Any", command).__dataclass_fields__]


def _plain(value: object) -> object:
    return [value.text, value.written] if isinstance(value, MemoryPath) else value


def digest(key: str, *parts: str) -> str:
    """Return an HMAC-SHA256 of `parts`. Its key is made from `key`. Each part is preceded by its length."""
    data = [part.encode("utf-8", "surrogatepass") for part in parts]
    whole = b"".join(len(each).to_bytes(8, "big") + each for each in data)
    return hmac.new(b"retentive idempotency" + key.encode("utf-8", "surrogatepass"), whole, hashlib.sha256).hexdigest()


def parsed(note: str) -> Mapping[str, Any]:
    """Return the fields of the record `note`. Empty if the record is not a JSON object."""
    try:
        found = json.loads(note)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_old(note: str, now: float) -> bool:
    """Return whether the record `note` is older than 24 hours, or has no time."""
    at = parsed(note).get("time")
    return not isinstance(at, int | float) or now - at >= KEPT_S
