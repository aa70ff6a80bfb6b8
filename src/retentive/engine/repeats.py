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
from collections.abc import Sequence
from typing import Any, TypeVar

from retentive.engine.operation import Outcome, Write
from retentive.errors import InvalidInput
from retentive.storage.contract import Snapshot, Transaction
from retentive.values.commands import Clear, Command, Delete, Rename, paths_of
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import Actor, Invocation, Recorded, RequestKey
from retentive.values.settings import Settings

R = TypeVar("R")
KIND = "idempotency"
KEPT_S = 86_400.0
_DAY_S = 86_400
_REMOVED_AT_ONCE = 4  # expired records that each new record removes; more than one, so that a backlog goes
_MANY = 100  # a record lists at most this number of versions; results of larger changes need no ids
_API_ID = re.compile("(?:srv|mcp)?toolu_(?:[a-z]+_)?[0-9A-Za-z]{20,}")


def identities(operation: Write[Any], call: Invocation, actor: Actor | None, store_id: str) -> list[RequestKey]:
    """Return what identifies a call, so that a repetition of it is recognized. Empty if nothing does."""
    call_id, command = call.tool_use_id or "", operation.command
    is_unique = command is not None and is_api_id(call_id)
    found = [] if call.request is None or is_unique else [call.request]
    if command is not None and (is_unique or (call_id and call.run is not None)):
        values = [getattr(command, name) for name in command.__dataclass_fields__]
        fields = [[value.text, value.written] if isinstance(value, MemoryPath) else value for value in values]
        run = ("",) if is_unique else (str(call.run), str(actor or ""))
        made = digest(call_id, store_id, command.name, json.dumps(fields))
        found.append(RequestKey(digest("", *run, call_id), made))
    return found


def find(
    tx: Transaction,
    view: Snapshot,
    operation: Write[R],
    call: Invocation,
    known_as: Sequence[RequestKey],
    *,
    settings: Settings,
    now: float,
) -> Outcome[R] | None:
    """Return the outcome of the first run of a call, or None if it has not run.

    `view` is the store as the actor sees it. Raises `InvalidInput` if the idempotency key was used for another request.
    """
    for identity in known_as:
        known = _known(tx, identity, now, is_request=identity is call.request)
        if known is None:
            continue
        recorded = [Recorded(*each) for each in known["changes"]]
        is_in_run = identity is not call.request and not is_api_id(call.tool_use_id)
        if not is_in_run or _stands(view, operation.command, recorded):
            assert operation.rebuilt is not None
            result = operation.rebuilt({**known["facts"], "recorded": recorded}, tx)
            return Outcome(settings, result, recorded=recorded, repeated=True, proposed=known["proposed"])
    return None


def keep(
    tx: Transaction, operation: Write[Any], known_as: Sequence[RequestKey], outcome: Outcome[Any], now: float
) -> None:
    """Record the outcome of a call that took effect, for a repetition of it, and remove some expired records."""
    facts, day = operation.facts_kept(outcome, tx) if known_as else None, int(now // _DAY_S)
    changes = outcome.recorded if len(outcome.recorded) <= _MANY else []
    for identity in known_as if facts is not None else ():
        for old, _ in list(tx.records(KIND, limit=_REMOVED_AT_ONCE)):
            if old < dated("", day - 1):
                tx.put_record(KIND, old, None)
        record = {"digest": identity.digest, "facts": facts, "time": now, "changes": changes}
        text = json.dumps(record | {"proposed": outcome.proposed}, separators=(",", ":"))
        tx.put_record(KIND, dated(identity.key, day), text)


def request_key(caller: str, key: str, *parts: str) -> RequestKey:
    """Build the `RequestKey` of a request, which contains only digests.

    `caller` is the id of the client, and `key` is its idempotency key. `parts` are all parts of the request's content.
    """
    return RequestKey(digest("request", caller, key), digest(key, *parts))


def is_api_id(tool_use_id: str | None) -> bool:
    """Return whether an id has the form of the ids of the Claude API, which gives each call an id of its own."""
    return tool_use_id is not None and _API_ID.fullmatch(tool_use_id) is not None


def dated(key: str, day: int) -> str:
    """Return the key of a record written on a day, which is counted since 1970."""
    return f"{day:06d}.{key}"


def digest(key: str, *parts: str) -> str:
    """Return an HMAC-SHA256 of `parts`. Its key is made from `key`. Each part is preceded by its length."""
    data = [part.encode("utf-8", "surrogatepass") for part in parts]
    whole = b"".join(len(each).to_bytes(8, "big") + each for each in data)
    return hmac.new(b"retentive idempotency" + key.encode("utf-8", "surrogatepass"), whole, hashlib.sha256).hexdigest()


def _known(snapshot: Snapshot, identity: RequestKey, now: float, *, is_request: bool) -> Any:
    """Return what `keep` recorded for a call within the last 24 hours, or None."""
    day = int(now // _DAY_S)
    texts = (snapshot.get_record(KIND, dated(identity.key, each)) for each in (day, day - 1))
    record: Any = next((json.loads(text) for text in texts if text is not None), None)
    if record is None or now - record["time"] >= KEPT_S:
        return None
    if record["digest"] != identity.digest:
        if is_request:
            raise InvalidInput("the idempotency key was used for another request; use a new key for each request")
        return None
    return record


def _stands(view: Snapshot, command: Command | Clear | None, changes: Sequence[Recorded]) -> bool:
    """Return whether the outcome of a command still stands, as its actor sees the store.

    It does if nobody has changed since what the command changed, and nothing is at the path that it emptied. A command
    that changed nothing leaves nothing that could stand.
    """
    is_deletion = isinstance(command, Delete | Clear)
    if isinstance(command, Delete | Clear | Rename):
        emptied = view.get(ROOT if isinstance(command, Clear) else paths_of(command)[0].text)
        if emptied.memory is not None or emptied.below:
            return False
    elif not changes:
        return False
    memories = [(view.find(memory_id), version_id) for memory_id, version_id in changes]
    if is_deletion:
        return all(memory is None for memory, _ in memories)
    return all(memory is not None and memory.version_id == version_id for memory, version_id in memories)
