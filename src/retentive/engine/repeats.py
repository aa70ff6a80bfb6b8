"""Repeats: a command or request that is sent again changes nothing, and gets its first result.

An agent loop that crashed before the reply arrived sends the command again, with the same tool_use id. A client that
did not receive an answer sends the request again, with the same idempotency key.

What takes effect leaves a record, in the transaction of the change: a digest of the id or key, a digest of the command
or request, the ids of the recorded versions, and the facts from which the operation rebuilds its result. Texts and
paths are never stored. The digest of a command is an HMAC with the tool_use id as key, so that nobody without the id
can use it to confirm a guessed text. What was refused leaves no record: it changed nothing, so it simply runs again.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from retentive.engine.operation import Outcome, Write
from retentive.errors import InvalidInput
from retentive.storage.contract import Snapshot, Transaction
from retentive.values.commands import Clear, Delete, Rename, WriteCommand, paths_of
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import Actor, Invocation, Recorded, RequestKey
from retentive.values.settings import Settings

if TYPE_CHECKING:
    from retentive.engine.handlers import RunCommand

R = TypeVar("R")
KIND = "idempotency"
KEPT_S = 86_400.0
_DAY_S = 86_400
_REMOVED_AT_ONCE = 4  # expired records that each new record removes; more than one, so that a backlog goes
_MANY = 100  # a record lists at most this number of versions; results of larger changes need no ids
MALFORMED = (KeyError, TypeError, ValueError, AttributeError)  # errors that a damaged record may raise
_API_ID = re.compile("(?:srv|mcp)?toolu_(?:[a-z]+_)?[0-9A-Za-z]{20,}")


@dataclass(frozen=True, slots=True)
class Identity:
    """What identifies a call: the key and the digest in its record. `kind` is `id`, `id in a run` or `request`."""

    kind: Literal["id", "id in a run", "request"]
    key: str
    digest: str


def identities(operation: Write[Any], call: Invocation, actor: Actor | None, store_id: str) -> list[Identity]:
    """Return what identifies a call, so that a repetition of it is recognized. Empty if nothing does."""
    found: list[Identity] = []
    call_id = call.tool_use_id or ""
    is_unique = operation.is_command and is_api_id(call_id)
    if call.request is not None and not is_unique:
        found.append(Identity("request", call.request.key, call.request.digest))
    if is_unique or (operation.is_command and call_id and call.run is not None):
        command: Any = cast("RunCommand", operation).command
        values = [getattr(command, name) for name in command.__dataclass_fields__]
        fields = [[value.text, value.written] if isinstance(value, MemoryPath) else value for value in values]
        made = digest(call_id, store_id, command.name, json.dumps(fields))
        if is_unique:
            found.append(Identity("id", digest("", "", call_id), made))
        else:
            found.append(Identity("id in a run", digest("", str(call.run), str(actor or ""), call_id), made))
    return found


def find(
    tx: Transaction,
    view: Snapshot,
    operation: Write[R],
    known_as: Sequence[Identity],
    *,
    settings: Settings,
    now: float,
) -> Outcome[R] | None:
    """Return the outcome of the first run of a call, or None if it has not run.

    `view` is the store as the actor sees it. Raises `InvalidInput` if the idempotency key was used for another request.
    """
    for identity in known_as:
        known = _remembered(tx, identity.key, now)
        if known is None:
            continue
        digests = known.get("digests")
        if not isinstance(digests, list) or identity.digest not in digests:
            if identity.kind == "request":
                raise other_request()
            continue
        try:
            recorded = [Recorded(*each) for each in known["changes"]]
            if identity.kind == "id in a run" and not _stands(view, cast("RunCommand", operation).command, recorded):
                continue
            result = operation.result_from(known["facts"], recorded, tx)
            is_proposed = bool(known.get("proposed"))
            return Outcome(settings, result, recorded=recorded, repeated=True, proposed=is_proposed)
        except MALFORMED:
            if not operation.is_command:
                raise InvalidInput(
                    "a request with this idempotency key ran before; the result of that request is no longer known"
                ) from None
    return None


def keep(
    tx: Transaction, operation: Write[Any], known_as: Sequence[Identity], outcome: Outcome[Any], now: float
) -> None:
    """Record the outcome of a call that took effect, for a repetition of it. Remove some expired records."""
    facts = operation.facts_to_keep(outcome, tx) if known_as else None
    if facts is None:
        return
    digests, changes = [each.digest for each in known_as], outcome.recorded if len(outcome.recorded) <= _MANY else []
    for identity in known_as:
        _remember(
            tx, identity.key, digests, facts, now, changes=changes, **{"proposed": True} if outcome.proposed else {}
        )


def request_key(caller: str, key: str, *parts: str) -> RequestKey:
    """Build the `RequestKey` of a request, which contains only digests.

    `caller` is the id of the client, and `key` is its idempotency key. `parts` are all parts of the request's content.
    """
    return RequestKey(digest("request", caller, key), digest(key, *parts))


def known_result(snapshot: Snapshot, request: RequestKey, now: float) -> Mapping[str, Any] | None:
    """Return the result that `remember_result` recorded for a request, or None. Used for work outside the road.

    Raises `InvalidInput` if the idempotency key was used for another request.
    """
    known = _remembered(snapshot, request.key, now)
    if known is not None and request.digest not in known.get("digests", ()):
        raise other_request()
    return None if known is None else known.get("facts")


def remember_result(tx: Transaction, request: RequestKey, facts: Mapping[str, object], now: float) -> None:
    """Record the result of a request for `known_result`."""
    _remember(tx, request.key, [request.digest], facts, now, changes=[])


def is_api_id(tool_use_id: str | None) -> bool:
    """Return whether an id has the form of the ids of the Claude API, which gives each call an id of its own."""
    return tool_use_id is not None and _API_ID.fullmatch(tool_use_id) is not None


def dated(key: str, day: int) -> str:
    """Return the key of a record written on a day, which is counted since 1970."""
    return f"{day:06d}.{key}"


def other_request() -> InvalidInput:
    """Return the error for an idempotency key that was used for another request."""
    return InvalidInput("the idempotency key was used for another request; use a new key for each request")


def digest(key: str, *parts: str) -> str:
    """Return an HMAC-SHA256 of `parts`. Its key is made from `key`. Each part is preceded by its length."""
    data = [part.encode("utf-8", "surrogatepass") for part in parts]
    whole = b"".join(len(each).to_bytes(8, "big") + each for each in data)
    return hmac.new(b"retentive idempotency" + key.encode("utf-8", "surrogatepass"), whole, hashlib.sha256).hexdigest()


def _remembered(snapshot: Snapshot, key: str, now: float) -> Mapping[str, Any] | None:
    """Return the record that `_remember` wrote under `key` within the last 24 hours. A damaged record is none."""
    day = int(now // _DAY_S)
    for each in (day, day - 1):
        text = snapshot.get_record(KIND, dated(key, each))
        if text is not None:
            try:
                record: Mapping[str, Any] = json.loads(text)
                return record if now - record["time"] < KEPT_S else None
            except (*MALFORMED, RecursionError):
                return None
    return None


def _remember(
    tx: Transaction, key: str, digests: Sequence[str], facts: Mapping[str, object], now: float, **more: object
) -> None:
    """Write a record, and remove some of the expired ones."""
    day, record = int(now // _DAY_S), {"digests": digests, "facts": facts, "time": now, **more}
    for old, _ in list(tx.records(KIND, limit=_REMOVED_AT_ONCE)):
        if old < dated("", day - 1):
            tx.put_record(KIND, old, None)
    tx.put_record(KIND, dated(key, day), json.dumps(record, sort_keys=True, separators=(",", ":")))


def _stands(view: Snapshot, command: WriteCommand, changes: Sequence[Recorded]) -> bool:
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
