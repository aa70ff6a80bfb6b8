"""Idempotency: if a command is repeated with the same tool_use id, it returns its first reply and changes nothing.

An agent loop may crash after a command takes effect but before the reply arrives. When the loop is started again, it
sends the command again.

Each command leaves a record. The transaction that stores the change also writes this record. The record contains a
digest of the tool_use id, a digest of the command, and those parts of the reply that cannot be taken from the repeated
command or the history. Texts and paths are never stored. The digest of the command is an HMAC with the tool_use id as
key. Without the id, nobody can use the digest to confirm a guessed text.

Ids of the Claude API are unique. Other models may use numbers as ids, and use the same number again. Such an id
therefore counts only for the actor that used it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from retentive.engine.attempt import Attempt, Proceed
from retentive.engine.command_handlers import CommandResult, RunCommand
from retentive.engine.context import StoreContext
from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.operation import Outcome
from retentive.errors import NotFound, Phrase, Refused, RetentiveError
from retentive.storage.contract import Transaction
from retentive.values.commands import StrReplace, WriteCommand, paths_of
from retentive.values.paths import MemoryPath
from retentive.values.records import PROPOSED_TEXT, Recorded
from retentive.values.replies import ERROR_CODES
from retentive.values.text import decoded, snippet

KIND = "idempotency"
KEPT_S = 86_400.0
CLEAN_AFTER = 256  # commands recorded by this process for one store, after which old records are removed
CLEAN_AFTER_S = 3_600.0
_AT_ONCE = 500
_MANY = 8  # a record lists the versions of at most this number of changes; replies to larger changes need no ids
_PROPOSAL, _VERSION = "prop_", "memver_"
MALFORMED = (KeyError, TypeError, ValueError, AttributeError)  # errors that a damaged record may raise
_UNIQUE = re.compile("toolu_(?:[a-z]+_)?[0-9A-Za-z]{20,}")  # ids of the Claude API: every call has another id
_PLAIN = {"kinds", "line_numbers", "insert_line", "view_range"}  # numbers and rule names, which may be stored


def idempotent(proceed: Proceed, attempt: Attempt[Any]) -> Outcome[Any]:
    """Stage: run a command and record its outcome.

    If the command already ran under its tool_use id, return the recorded outcome and change nothing.
    """
    operation = attempt.operation
    assert isinstance(operation, RunCommand)
    command, tool_use_id = operation.command, str(attempt.invocation.tool_use_id)
    scope = "" if _UNIQUE.fullmatch(tool_use_id) else str(attempt.actor or "")
    key = digest("", scope, tool_use_id)
    record = attempt.tx.get_record(KIND, key)
    if record is not None and record == attempt.remembered and attempt.outcome is not None:
        return attempt.outcome  # an earlier run was committed, and only the reply to its commit was lost
    repeated = None if record is None else _repeated(attempt, command, record)
    if repeated is not None:
        return repeated
    try:
        outcome = proceed(attempt)
        kept = _result_record(outcome)
    except Refused as refusal:
        refused = None if attempt.has_written else _refusal_record(command, refusal, _writer(attempt))
        if refused is None:
            raise
        outcome, kept = Outcome(attempt.settings, error=refusal), refused
    kept |= {"command": _command_digest(attempt, command), "time": attempt.context.clock()}
    attempt.remembered, attempt.outcome = json.dumps(kept, sort_keys=True, separators=(",", ":")), outcome
    attempt.tx.put_record(KIND, key, attempt.remembered)
    return outcome


def forget_old(context: StoreContext, *, now: float | None = None) -> int:
    """Remove idempotency records older than 24 hours. Return their number. The default of `now` is the current time."""
    now = context.clock() if now is None else now
    old = context.read(lambda found: [key for key, value in found.records(KIND) if is_old(value, now)])
    for start in range(0, len(old), _AT_ONCE):
        context.follow_up(partial(_forget, keys=old[start : start + _AT_ONCE], now=now), may_use_reserve=True)
    return len(old)


def _forget(tx: Transaction, *, keys: list[str], now: float) -> None:
    for key in keys:
        value = tx.get_record(KIND, key)
        if value is not None and is_old(value, now):
            tx.put_record(KIND, key, None)


def _writer(attempt: Attempt[Any]) -> GuardedWriter:
    """Return the writer of the attempt.

    If the operation was refused before it had a writer, return a new writer. The caller needs the writer to mask
    sensitive values in the input.
    """
    who = attempt.actor, attempt.examiner, attempt.invocation
    return attempt.writer or GuardedWriter(attempt.tx, attempt.settings, *who)


def _result_record(outcome: Outcome[CommandResult]) -> dict[str, Any]:
    result, changes = outcome.result, outcome.recorded
    assert result is not None
    kept: dict[str, Any] = {"changes": changes} if len(changes) <= _MANY else {}
    kept["notes"] = [[note.key, {k: v for k, v in note.values.items() if k != "path"}] for note in result.notes]
    if outcome.proposed:
        kept["proposed"] = True
    if result.is_new:
        kept["new"] = True
    if result.snippet is not None:
        kept |= {"at": result.at, "text_of": result.version_id}
    return kept


def _repeated(attempt: Attempt[Any], command: WriteCommand, record: str) -> Outcome[Any] | None:
    """Rebuild the first outcome from `record`. None if the record is damaged, expired or from another command."""
    known = parsed(record)
    if known.get("command") != _command_digest(attempt, command) or is_old(record, attempt.context.clock()):
        return None
    if "refused" in known:
        refusal = _refusal_again(command, known["refused"], _writer(attempt))
        return None if refusal is None else Outcome(attempt.settings, error=refusal, repeated=True)
    try:
        path = paths_of(command)[-1].written
        notes = tuple(Phrase(key, {**values, "path": path}) for key, values in known["notes"])
        shown = _snippet(attempt.tx, command, known) if "at" in known else None
        result = CommandResult(notes, shown, is_new=bool(known.get("new")))
        changes = [Recorded(*each) for each in known.get("changes", ())]
        proposed = bool(known.get("proposed"))
        return Outcome(attempt.settings, result, recorded=changes, repeated=True, proposed=proposed)
    except MALFORMED:
        return None


def _snippet(tx: Transaction, command: WriteCommand, known: Mapping[str, Any]) -> str | None:
    """Rebuild the snippet of the first reply from the text that the first run wrote.

    `known` is the record of the first run. Return None if the text was removed later.
    """
    version, length = str(known["text_of"]), len(getattr(command, "new_str", ""))
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


def _refusal_record(command: WriteCommand, refusal: Refused, write: GuardedWriter) -> dict[str, Any] | None:
    """Return the record of a refusal. It refers to the texts of the command instead of containing them.

    Returns None if the refusal contains a text that is not in the command.
    """
    kept = _values_kept(refusal.values, _texts(command, write))
    return None if kept is None else {"refused": [refusal.key, kept]}


def _values_kept(values: Mapping[str, object], texts: Mapping[str, Callable[[], str]]) -> dict[str, Any] | None:
    kept: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, int) or (isinstance(value, str) and name in _PLAIN):
            kept[name] = value
        elif isinstance(value, Phrase):
            inner = _values_kept(value.values, texts)
            if inner is None:
                return None
            kept[name] = {"phrase": [value.key, inner]}
        else:
            place = next((place for place, text in texts.items() if text() == value), None)
            if place is None:
                return None
            kept[name] = {"text": place}
    return kept


def _refusal_again(command: WriteCommand, kept: object, write: GuardedWriter) -> Refused | None:
    """Rebuild a refusal from its record. Returns None if another version of retentive wrote the record."""
    try:
        key, values = cast("tuple[str, dict[str, Any]]", kept)
        return Refused(key, **_values_again(values, _texts(command, write))) if key in ERROR_CODES else None
    except MALFORMED:
        return None


def _values_again(kept: Mapping[str, Any], texts: Mapping[str, Callable[[], str]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in kept.items():
        if not isinstance(value, dict):
            values[name] = value
        elif "text" in value:
            values[name] = texts[value["text"]]()
        else:
            key, inner = value["phrase"]
            values[name] = Phrase(key, _values_again(inner, texts))
    return values


def _texts(command: WriteCommand, write: GuardedWriter) -> dict[str, Callable[[], str]]:
    """Return functions that compute texts of a command. These are the texts that an error reply can repeat.

    The result is a dict. Its keys are the names by which the record of a refusal refers to these texts.
    """
    texts: dict[str, Callable[[], str]] = {}
    for number, path in enumerate(paths_of(command)):
        texts |= {f"written {number}": partial(str, path.written), f"path {number}": partial(str, path.text)}
        for depth, above in enumerate(path.ancestors):
            texts[f"outward {number} {depth}"] = partial(path.outward, above)
            texts[f"above {number} {depth}"] = partial(str, above)
        texts[f"shown {number}"] = partial(write.shown, path.written)  # last, because masking takes longer
    if isinstance(command, StrReplace):
        texts["old_str"] = partial(write.shown, command.old_str)
    return texts


@dataclass(slots=True, eq=False)
class _Remembered:
    count: int = 0
    cleaned_at: float | None = None


_remembered: dict[str, _Remembered] = {}  # by store id: commands that this process recorded since its last cleanup
_MAX_STORES = 10_000


def forget_now_and_then(context: StoreContext) -> None:
    """Count a recorded command. After `CLEAN_AFTER` commands, remove old records, but at most once an hour.

    Failures are only logged.
    """
    if len(_remembered) >= _MAX_STORES:
        _remembered.clear()
    mine, now = _remembered.setdefault(context.id, _Remembered()), context.clock()
    mine.count += 1  # threads may lose a count, which is harmless
    if mine.count < CLEAN_AFTER or (mine.cleaned_at is not None and 0 <= now - mine.cleaned_at < CLEAN_AFTER_S):
        return
    mine.count, mine.cleaned_at = 0, now
    try:
        forget_old(context)
    except RetentiveError as error:
        import logging  # noqa: PLC0415 - not needed at startup

        logging.getLogger("retentive").warning("old idempotency records were not removed: %s", error.code)
