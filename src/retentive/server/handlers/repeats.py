"""Requests to a location that are sent again with the same idempotency key, such as the creation of an API key.

What changes a memory store leaves its record in the transaction of the change (`retentive.engine.repeated_requests`).
Other requests leave theirs in the records of the location: first the id of what they create, then their answer. So a
request that was interrupted creates nothing twice. Secrets are not recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from retentive.engine.repeats import KEPT_S, dated, other_request
from retentive.errors import Conflict
from retentive.server.calls import Json, RouteAnswer, RouteCall
from retentive.values.records import RequestKey
from retentive.wire.base import Answer

KIND = "request"
"""Kind of the records of requests. Their keys begin with the day, so the oldest come first."""
SECRETS = {"api_key", "signing_secret"}
_DAY_S = 86_400
_REMOVED_AT_ONCE = 4


def answered_once(
    call: RouteCall, work: Callable[[], RouteAnswer], again: Callable[[RouteCall, Json], Json], model: type[Answer]
) -> Answer:
    """Return the result of `work`. If the request was answered before, return its first answer and change nothing.

    `again` completes a recorded answer with what is not recorded. Raises `InvalidInput` if the idempotency key was used
    for another request.
    """
    known = _known(call)
    if known is not None and "answer" in known:
        return model.model_validate(again(call, known["answer"]))
    answer = work()
    assert isinstance(answer, Answer)
    if call.request is not None:
        recorded = answer.model_dump(mode="json", exclude=SECRETS)
        _put(call, call.request, {**(_known(call) or {}), "answer": recorded})
    return answer


def unchanged(_: RouteCall, answer: Json) -> Json:
    """Return the recorded answer of a repeated request."""
    return answer


def id_of_creation(call: RouteCall, new_id: Callable[[], str]) -> str:
    """Return the id of what a request creates. All attempts of the request get the same id."""
    known = _known(call)
    if known is not None:
        return str(known["id"])
    made = new_id()
    if call.request is not None:
        try:
            _put(call, call.request, {"id": made}, is_first=True)
        except Conflict:  # another attempt of the same request has stored an id
            return id_of_creation(call, new_id)
    return made


def _known(call: RouteCall) -> dict[str, Any] | None:
    if call.request is None:
        return None
    records, now = call.location.opened.records, call.location.keys.now().timestamp()
    for day in (int(now // _DAY_S), int(now // _DAY_S) - 1):
        text = records.get(KIND, dated(call.request.key, day))
        known: dict[str, Any] | None = None if text is None else json.loads(text)
        if known is not None and now - known["time"] < KEPT_S:
            if known["request"] != call.request.digest:
                raise other_request()
            return known
    return None


def _put(call: RouteCall, request: RequestKey, fields: Mapping[str, object], *, is_first: bool = False) -> None:
    """Write the record of a request, and remove some of the expired ones."""
    records, now = call.location.opened.records, call.location.keys.now().timestamp()
    day = int(now // _DAY_S)
    for old, _ in records.list(KIND, limit=_REMOVED_AT_ONCE):
        if old < dated("", day - 1):
            with suppress(Conflict):
                records.put(KIND, old, None)
    text = json.dumps({"time": now, **fields, "request": request.digest})
    if is_first:
        records.put(KIND, dated(request.key, day), text, expected=None)
    else:
        records.put(KIND, dated(request.key, day), text)
