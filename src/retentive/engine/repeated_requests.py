"""Repeated requests: a request that is sent again with the same idempotency key does not run a second time.

A client that did not receive the answer to a request sends the request again, with the same key. Each request leaves a
record. The transaction that stores the change also writes this record. The record contains ids, numbers, and digests of
the key and the request. To answer the repeated request, the texts and paths of the first result are read from the
history.
"""

from __future__ import annotations

import json
from typing import Any

from retentive.engine.attempt import Attempt, Proceed
from retentive.engine.operation import Outcome
from retentive.engine.repeats import MALFORMED, other_request, parsed, remember, remembered
from retentive.errors import InvalidInput
from retentive.values.records import Recorded

_MANY = 8  # a record lists the versions of at most this number of changes; larger results do not need the ids


def once_per_request(proceed: Proceed, attempt: Attempt[Any]) -> Outcome[Any]:
    """Stage: run a request and record its outcome.

    If the request already ran under its idempotency key, return the recorded outcome. Raises `InvalidInput` if the key
    was used for another request. A refused request is not recorded, because it changed nothing.
    """
    request, operation = attempt.invocation.request, attempt.operation
    assert request is not None
    now = attempt.context.clock()
    record = remembered(attempt.tx, request.key, now)
    if record is not None and record == attempt.remembered and attempt.outcome is not None:
        return attempt.outcome  # an earlier run was committed, and only the reply to its commit was lost
    if record is not None:
        known = parsed(record)
        if known.get("request") != request.digest:
            raise other_request()
        try:
            changes = [Recorded(*each) for each in known["changes"]]
            result = operation.again(known["kept"], attempt.tx)
        except MALFORMED:
            raise InvalidInput(
                "a request with this idempotency key ran before; the result of that request is no longer known"
            ) from None
        return Outcome(attempt.settings, result, recorded=changes, repeated=True, proposed=bool(known.get("proposed")))
    outcome = proceed(attempt)
    kept = None if outcome.error is not None else operation.kept(outcome.result, attempt.tx)
    if kept is None:
        return outcome
    about = {
        "request": request.digest,
        "kept": kept,
        "changes": outcome.recorded if len(outcome.recorded) <= _MANY else [],
        "time": now,
        **({"proposed": True} if outcome.proposed else {}),
    }
    attempt.remembered, attempt.outcome = json.dumps(about, sort_keys=True, separators=(",", ":")), outcome
    remember(attempt.tx, request.key, attempt.remembered, now)
    return outcome
