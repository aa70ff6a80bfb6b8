"""Commands that come again under the same tool_use id: the first reply is given again, and nothing is changed.

A loop that crashed after the effect of a command and before it had the reply sends the command again. What is kept of
a command for that is a note in the transaction of its change: digests of the id and of the command, and what the reply
was made of as far as neither the command that comes again nor the history of the store tells it. Texts and paths are
never kept. The digest of the command is keyed with the id, so without that it confirms no guess of a short text.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from retentive.engine.core import Engine
from retentive.engine.handlers import Asked, Done, Work, may_use_reserve, name_of, paths_of, reply_to, work_of
from retentive.engine.writer import GuardedWriter
from retentive.errors import InvalidInput, NotFound, Phrase, Refused, RetentiveError, StoreFull
from retentive.review.proposals import AFTER
from retentive.storage.contract import Actor, Recorded, Transaction
from retentive.values.commands import StrReplace
from retentive.values.paths import MemoryPath
from retentive.values.replies import ERROR_CODES, Replies, Reply
from retentive.values.settings import Settings
from retentive.values.text import decoded, snippet

KIND = "repeat"
KEPT_S = 86_400.0
CLEAN_AFTER = 256  # commands that one process remembered of one store
CLEAN_AFTER_S = 3_600.0
_AT_ONCE = 500
_MANY = 8  # versions that are named; of more changes no reply needs one
_PROPOSAL, _VERSION = "prop_", "memver_"
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError)  # what a note that was altered may raise
_PLAIN = {"kinds", "line_numbers", "insert_line", "view_range"}  # texts that are numbers and names of rules


@dataclass(slots=True)
class Call:
    """One command while it runs: who asks, under which tool_use id; and what came of it so far.

    `changes` were recorded if the reply is no error; `read` is what a view showed, `listed` that it was a directory.
    `settings` are those that held, None as long as the store was not reached. Raises `InvalidInput` for a tool_use id
    that is no text.
    """

    name: str | None
    who: Actor | None
    tool_use_id: str | None = None
    changes: list[Recorded] = field(default_factory=list)
    read: Recorded | None = None
    listed: bool = False
    repeated: bool = False
    settings: Settings | None = None

    def __post_init__(self) -> None:
        given: object = self.tool_use_id
        if given is not None and not isinstance(given, str):
            raise InvalidInput(f"a tool_use id is a text, not {type(given).__name__}")


def run(store: Engine, command: Asked, call: Call) -> Reply:
    """The reply to a command that changes something, run now or, under an id that is known, before. Raises `Refused`.

    What is sent twice at the same time is done once, and both get the same reply.
    """
    attempt = _Attempt(store, command, call)
    try:
        result = store.write(attempt, call.who, may_use_reserve=may_use_reserve(command))
    except Refused as refusal:
        result = attempt.refused_late(refusal)
    except StoreFull:
        if attempt.refusal is None:
            raise
        result = attempt.refusal  # there is no room to remember it, and nothing to be done twice
    if attempt.remembered:
        _clean_now_and_then(store)
    if isinstance(result, Refused):
        raise result
    return result


def forget_old(store: Engine) -> int:
    """Remove what was remembered more than 24 hours ago; how much it was."""
    now = store.clock()
    old = store.read(lambda found: [key for key, value in found.records(KIND) if _is_old(value, now)])
    for start in range(0, len(old), _AT_ONCE):
        _forget(store, old[start : start + _AT_ONCE], now)
    return len(old)


def _forget(store: Engine, keys: list[str], now: float) -> None:
    def work(tx: Transaction) -> None:
        for key in keys:
            value = tx.get_record(KIND, key)
            if value is not None and _is_old(value, now):
                tx.put_record(KIND, key, None)

    store.backend.write(store.id, work, may_use_reserve=True)


class _Attempt:
    """One command in its transaction, which may be run more than once."""

    def __init__(self, store: Engine, command: Asked, call: Call) -> None:
        self._store, self._command, self._call = store, command, call
        self._work: Work = work_of(command)
        self._written: str | None = None
        self._result: Reply | Refused | None = None
        self._tried = False
        self.remembered = False
        who = call.who or store.actor
        self._key = None if not call.tool_use_id else _digest("", str(who or ""), call.tool_use_id)

    def __call__(self, tx: Transaction, write: GuardedWriter) -> Reply | Refused:
        self._call.settings = write.settings
        if self._key is None:
            return self._run(tx, write)
        found = tx.get_record(KIND, self._key)
        if found is not None and found == self._written and self._result is not None:
            return self._result  # the commit was lost from sight, and had taken place
        again = None if found is None else self._again(tx, write, found)
        if again is not None:
            return again
        self.remembered = True
        try:
            return self._keep(tx, self._key, self._run(tx, write))
        except Refused as refusal:
            self._tried = write.tried
            kept = None if write.tried else _refusal_kept(self._command, refusal, write)
            if kept is None:
                raise
            return self._put(tx, self._key, kept, refusal)

    def _run(self, tx: Transaction, write: GuardedWriter) -> Reply:
        self._done = self._work(tx, write)
        self._call.changes = write.recorded
        return reply_to(self._store.replies, self._command, self._done)

    def _keep(self, tx: Transaction, key: str, reply: Reply) -> Reply | Refused:
        changes, done = self._call.changes, self._done
        value: dict[str, Any] = {"changes": changes} if len(changes) <= _MANY else {}
        value["notes"] = [[note.key, {k: v for k, v in note.values.items() if k != "path"}] for note in done.notes]
        if any(each.version_id.startswith(_PROPOSAL) for each in changes):
            value["proposed"] = True
        if done.snippet is not None:
            value |= {"at": done.at, "text_of": done.text_of}
        return self._put(tx, key, value, reply)

    def _put(self, tx: Transaction, key: str, value: dict[str, Any], result: Reply | Refused) -> Reply | Refused:
        value |= {"command": self._digest(), "time": self._store.clock()}
        self._written, self._result = json.dumps(value, sort_keys=True, separators=(",", ":")), result
        tx.put_record(KIND, key, self._written)
        return result

    @property
    def refusal(self) -> Refused | None:
        """What the command was refused for, if it was."""
        return self._result if isinstance(self._result, Refused) else None

    def refused_late(self, refusal: Refused) -> Reply | Refused:
        """What to say of a refusal that came while recording: it is remembered now, as all was undone."""
        if self._key is None or not self._tried:
            raise refusal

        def work(tx: Transaction, write: GuardedWriter) -> Reply | Refused:
            key = str(self._key)
            found = tx.get_record(KIND, key)
            again = None if found is None else self._again(tx, write, found)
            kept = _refusal_kept(self._command, refusal, write)
            if again is not None or kept is None:
                return again or refusal
            return self._put(tx, key, kept, refusal)

        return self._store.write(work, self._call.who)

    # -- giving a reply again --------------------------------------------------------------------------------

    def _again(self, tx: Transaction, write: GuardedWriter, note: str) -> Reply | Refused | None:
        """The first reply, if the same command was remembered, and not too long ago; None for a damaged note."""
        known = _parsed(note)
        if known.get("command") != self._digest() or _is_old(note, self._store.clock()):
            return None
        self._call.repeated = True
        if "refused" in known:
            return _refusal_again(self._command, known["refused"], write)
        try:
            return self._given_again(tx, known)
        except _MALFORMED:
            self._call.repeated, self._call.changes = False, []
            return None

    def _given_again(self, tx: Transaction, known: Mapping[str, Any]) -> Reply:
        """What was done, from what is known of it. Raises `_MALFORMED`."""
        self._call.changes = [Recorded(*each) for each in known.get("changes", ())]
        path = paths_of(self._command)[-1].written if self._command is not None else ""
        notes = tuple(Phrase(key, {**values, "path": path}) for key, values in known["notes"])
        done = Done(notes, self._snippet(tx, known) if "at" in known else None)
        reply = reply_to(self._store.replies, self._command, done)
        return _as_proposed(self._store.replies, reply) if known.get("proposed") else reply

    def _snippet(self, tx: Transaction, known: Mapping[str, Any]) -> str | None:
        """The snippet of the text as it was; None if that was redacted, or is kept no more."""
        version, length = str(known["text_of"]), len(getattr(self._command, "new_str", ""))
        inner = version.rpartition(".")[2]
        try:
            if version.startswith(_PROPOSAL) and not inner.startswith(_VERSION):
                text = tx.get_record(AFTER, version)
            else:
                data = tx.text(inner)
                text = None if data is None else decoded(data)
        except NotFound:
            return None
        return None if text is None else snippet(text, known["at"], length, max_chars=0)

    def _digest(self) -> str:
        """A digest of the command, that of another store another one; keyed with the id it came under."""
        fields = [] if self._command is None else [_plain(value) for value in _values(self._command)]
        name = "clear" if self._command is None else name_of(self._command)
        return _digest(str(self._call.tool_use_id), self._store.id, name, json.dumps(fields))


def _as_proposed(replies: Replies, reply: Reply) -> Reply:
    return Reply(f"{reply.text}\n{replies.awaits_review}")


def _values(command: object) -> list[object]:
    return [getattr(command, name) for name in cast("Any", command).__dataclass_fields__]


def _plain(value: object) -> object:
    return [value.text, value.written] if isinstance(value, MemoryPath) else value


def _digest(key: str, *parts: str) -> str:
    """HMAC-SHA256 of some texts, told apart by their lengths."""
    data = [part.encode("utf-8", "surrogatepass") for part in parts]
    whole = b"".join(len(each).to_bytes(8, "big") + each for each in data)
    return hmac.new(b"retentive repeat" + key.encode("utf-8", "surrogatepass"), whole, hashlib.sha256).hexdigest()


def _parsed(note: str) -> Mapping[str, Any]:
    """What a note says; nothing if it is not one of ours."""
    try:
        found = json.loads(note)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_old(note: str, now: float) -> bool:
    at = _parsed(note).get("time")
    return not isinstance(at, int | float) or now - at >= KEPT_S


# -- refusals without texts --------------------------------------------------------------------------------------


def _refusal_kept(command: Asked, refusal: Refused, write: GuardedWriter) -> dict[str, Any] | None:
    """A refusal as it is kept: texts by where they stand in the command; None if it names something else."""
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


def _refusal_again(command: Asked, kept: object, write: GuardedWriter) -> Refused | None:
    """The refusal; None if another retentive wrote it, and this one has to find out anew."""
    try:
        key, values = cast("tuple[str, dict[str, Any]]", kept)
        return Refused(key, **_values_again(values, _texts(command, write))) if key in ERROR_CODES else None
    except _MALFORMED:
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


def _texts(command: Asked, write: GuardedWriter) -> dict[str, Callable[[], str]]:
    """The texts that a refusal can have from its command, by a name for where they stand in it."""
    texts: dict[str, Callable[[], str]] = {}
    for number, path in enumerate(() if command is None else paths_of(command)):
        texts |= {f"written {number}": partial(str, path.written), f"path {number}": partial(str, path.text)}
        for depth, above in enumerate(path.ancestors):
            texts[f"outward {number} {depth}"] = partial(path.outward, above)
            texts[f"above {number} {depth}"] = partial(str, above)
        texts[f"shown {number}"] = partial(write.shown, path.written)  # last: to examine a text takes longer
    if isinstance(command, StrReplace):
        texts["old_str"] = partial(write.shown, command.old_str)
    return texts


# -- forgetting --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Remembered:
    count: int = 0
    cleaned_at: float | None = None


_remembered: dict[str, _Remembered] = {}  # by store; what this process remembered since it last cleaned up
_MAX_STORES = 10_000


def _clean_now_and_then(store: Engine) -> None:
    """Count a command that was remembered; now and then, remove the old ones. What fails is left for the next time."""
    if len(_remembered) >= _MAX_STORES:
        _remembered.clear()
    mine, now = _remembered.setdefault(store.id, _Remembered()), store.clock()
    mine.count += 1  # threads may lose a count; nothing depends on it
    if mine.count < CLEAN_AFTER or (mine.cleaned_at is not None and 0 <= now - mine.cleaned_at < CLEAN_AFTER_S):
        return
    mine.count, mine.cleaned_at = 0, now
    try:
        forget_old(store)
    except RetentiveError as error:
        import logging  # noqa: PLC0415 - every start would wait for it

        logging.getLogger("retentive").warning("remembered commands were not removed: %s", error.code)
