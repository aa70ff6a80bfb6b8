"""Records of the gateway in a memory store: calls of the memory tool, and the rounds of a request.

Clients lose the input of a call, so each call is kept with its reply, for 30 days after its last use. The rounds of a
request, that is, the messages of the model whose calls were run, are kept for 10 minutes: if the client repeats the
request, it goes on after them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from retentive.storage.contract import Snapshot, Transaction
from retentive.values.paths import is_within
from retentive.values.text import digest

CALL, ROUNDS, UNTIL = "gateway.call", "gateway.rounds", "gateway.until"
"""Kinds of records. Those of the third are the order in which the others expire."""
_ERASED = "~"  # key of the time of the last erasure; sorts after all times
_CALL_S, _ROUNDS_S, _DAY_S = 30 * 86_400, 600, 86_400
_AT_ONCE, _PAGE = 4, 500  # expired records that each new one removes; more than one, so that a backlog goes


@dataclass(frozen=True, slots=True)
class KeptCall:
    """Call of the memory tool, and its reply.

    `id` is the id that the client sees. `turn` names the message of the model. `block` is the call as the model made
    it. `paths` are the memory paths in it. `scope` has the patterns of paths to which the caller was limited.
    """

    id: str
    turn: str
    block: dict[str, Any]
    reply: str
    is_error: bool = False
    paths: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()


def calls(view: Snapshot, ids: Iterable[str], scope: tuple[str, ...], now: float) -> tuple[dict[str, KeptCall], bool]:
    """Return the calls with these ids, and whether `use` has to note that they were used.

    A caller who is limited to some paths gets only calls that were made under the same limits.
    """
    found, is_old = dict[str, KeptCall](), False
    for each in ids:
        text = view.get_record(CALL, digest(each))
        value: Any = None if text is None else json.loads(text)
        if value is None or value["until"] <= now or (scope and tuple(value["scope"]) != scope):
            continue
        is_old = is_old or value["until"] != _until(now)
        del value["until"]
        found[each] = KeptCall(**{**value, "paths": tuple(value["paths"]), "scope": tuple(value["scope"])})
    return found, is_old


def use(tx: Transaction, used: Iterable[KeptCall], now: float) -> None:
    """Note that calls were used today, unless they were erased meanwhile."""
    for call in used:
        if tx.get_record(CALL, digest(call.id)) is not None:
            _keep_until(tx, CALL, digest(call.id), asdict(call), _until(now), now=now)


def keep_call(tx: Transaction, call: KeptCall, since: float, now: float) -> None:
    """Keep a call that was run at the time `since`, unless something was erased meanwhile."""
    erased = tx.get_record(UNTIL, _ERASED)
    if erased is None or float(erased) < since:
        _keep_until(tx, CALL, digest(call.id), asdict(call), _until(now), now=now)


def rounds(view: Snapshot, request: str, now: float) -> list[dict[str, Any]]:
    """Return the messages of the rounds of a request, which its digest names."""
    text = view.get_record(ROUNDS, request)
    value: Any = None if text is None else json.loads(text)
    return [] if value is None or value["until"] <= now else value["messages"]


def keep_round(
    tx: Transaction, request: str, messages: list[dict[str, Any]], paths: Collection[str], now: float
) -> None:
    """Keep the rounds of a request, of which the last is new, unless another run of the request has others."""
    known = [each.get("id") for each in rounds(tx, request, now)]
    if known == [each.get("id") for each in messages[:-1]]:
        value = {"messages": messages, "paths": sorted(paths)}
        _keep_until(tx, ROUNDS, request, value, int(now) + _ROUNDS_S, now=now)


def expire(tx: Transaction, now: float, limit: int = _PAGE) -> None:
    """Remove some expired records."""
    known = [key for key, _ in tx.records(UNTIL, limit=limit) if key < f"{int(now):012d}"]
    for key in known:
        _, kind, name = key.split("/")
        tx.put_record(UNTIL, key, None)
        tx.put_record(kind, name, None)


def is_expired(view: Snapshot, now: float) -> bool:
    """Return whether there are expired records."""
    return any(key < f"{int(now):012d}" for key, _ in view.records(UNTIL, limit=1))


def forget(view: Snapshot, places: Collection[str], now: float) -> list[tuple[str, str, str | None]]:
    """Return the changes of records that remove what the gateway has kept of memories, after an erasure.

    It removes the calls and rounds that name one of the paths `places`, a path below it, or a directory above it,
    whose listing may have it.
    """
    found: list[tuple[str, str, str | None]] = [(UNTIL, _ERASED, str(now))]
    for kind in (CALL, ROUNDS):
        for key, text in view.records(kind):
            value = json.loads(text)
            if any(is_within(path, place) or is_within(place, path) for path in value["paths"] for place in places):
                found += [(kind, key, None), (UNTIL, _place(value["until"], kind, key), None)]
    return found


def _keep_until(tx: Transaction, kind: str, key: str, value: dict[str, Any], until: int, *, now: float) -> None:
    expire(tx, now, _AT_ONCE)
    before = tx.get_record(kind, key)
    if before is not None:
        tx.put_record(UNTIL, _place(json.loads(before)["until"], kind, key), None)
    tx.put_record(kind, key, json.dumps({**value, "until": until}))
    tx.put_record(UNTIL, _place(until, kind, key), "")


def _until(now: float) -> int:
    """Return when a call expires that is used now: 30 days after the end of the day, so that it is noted once a day."""
    return (int(now) // _DAY_S + 1) * _DAY_S + _CALL_S


def _place(until: int, kind: str, key: str) -> str:
    return f"{until:012d}/{kind}/{key}"
