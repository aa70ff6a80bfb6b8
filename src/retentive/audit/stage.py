"""Stage `audited` of the pipeline. It writes an audit entry for each operation, in the transaction of the change."""

from __future__ import annotations

import os
from typing import Any

from retentive.engine.attempt import Attempt, Proceed
from retentive.engine.context import StoreContext
from retentive.engine.operation import REFUSALS, Operation, Outcome
from retentive.errors import Refused, RetentiveError, StorageReadOnly
from retentive.storage.contract import Actor, Snapshot, Transaction, now_us
from retentive.values.records import Invocation
from retentive.values.replies import ERROR_CODES

_read_without_entry: set[str] = set()
"""Ids of the stores of which this process has logged that a read left no entry."""


def needs_entry(attempt: Attempt[Any]) -> bool:
    """Return whether a failure needs an audit entry. It does if the log is on and the transaction had begun."""
    return attempt.has_begun and attempt.settings.audit


def audited(proceed: Proceed, attempt: Attempt[Any]) -> Outcome[Any]:
    """Stage: run the next stages and, if the setting `audit` is on, write an entry with their outcome.

    The entry is written in the same transaction. If the operation is refused after it recorded a change, this stage
    raises the refusal again and writes no entry. In this case, an entry can be written only after the
    transaction was rolled back.
    """
    tx = attempt.tx  # later stages may replace tx
    if attempt.entry is not None and attempt.outcome is not None and _has_entry(tx, *attempt.entry):
        return attempt.outcome  # an earlier run was committed, and only the reply to its commit was lost
    try:
        outcome = proceed(attempt)
    except REFUSALS as error:
        if attempt.has_written:
            raise
        outcome = Outcome(attempt.settings, error=error)
    if attempt.settings.audit or attempt.context.settings_of(tx).audit:
        _write_entry(attempt, tx, outcome)
    return outcome


def _write_entry(attempt: Attempt[Any], tx: Transaction, outcome: Outcome[Any]) -> None:
    entry_id = os.urandom(8).hex() if attempt.entry is None else attempt.entry[1]
    seq = _append(tx, attempt.context, attempt.operation, attempt.invocation, outcome, entry_id=entry_id)
    attempt.entry, attempt.outcome = (seq, entry_id), outcome


def entry_of_read(
    context: StoreContext, operation: Operation[Any], invocation: Invocation, outcome: Outcome[Any]
) -> None:
    """Write the audit entry of a read, in a separate transaction. If this fails, the read fails too.

    On read-only storage, no entry can be written, and memories there must still be readable. Reads then leave no entry.
    """
    entry_id, written = os.urandom(8).hex(), list[int]()

    def work(tx: Transaction) -> None:
        if not any(_has_entry(tx, seq, entry_id) for seq in written):
            written.append(_append(tx, context, operation, invocation, outcome, entry_id=entry_id))

    try:
        context.follow_up(work, may_use_reserve=True)
    except StorageReadOnly:
        if context.id not in _read_without_entry:
            import logging  # noqa: PLC0415 - not needed at startup

            _read_without_entry.add(context.id)
            logging.getLogger("retentive").warning("reads leave no audit entry: the storage is read-only")


def entry_of_failure(attempt: Attempt[Any], error: RetentiveError) -> bool:
    """Write the audit entry of an operation that failed with `error`, in a separate transaction.

    Returns True if the entry was written or is not needed, and False if it cannot be written.
    """
    if not needs_entry(attempt):
        return True
    outcome: Outcome[Any] = Outcome(attempt.settings, error=error)

    def work(tx: Transaction) -> None:
        if attempt.entry is None or not _has_entry(tx, *attempt.entry):
            _write_entry(attempt, tx, outcome)

    try:
        attempt.context.follow_up(work, may_use_reserve=True)
    except RetentiveError:  # the caller gets the original error, not this one
        return False
    return True


def _append(
    tx: Transaction,
    context: StoreContext,
    operation: Operation[Any],
    invocation: Invocation,
    outcome: Outcome[Any],
    *,
    entry_id: str,
) -> int:
    from retentive.audit.chain import append, changes_field  # noqa: PLC0415 - needed only while the log is on

    actor: Actor | None = invocation.actor or context.actor
    body: dict[str, object] = {
        "id": entry_id,
        "time": now_us(context.clock),
        "actor": None if actor is None else str(actor),
        "operation": operation.name,
        "integration": invocation.integration,
        "outcome": "ok" if outcome.error is None else _code_of(outcome.error),
        **changes_field(outcome.recorded),
    }
    body |= {name: True for name in ("repeated", "proposed") if getattr(outcome, name)}
    if outcome.error is None and not outcome.repeated:
        body |= operation.facts(outcome.result)
    paths = [context.redacted(path, outcome.settings) for path in operation.paths()]
    return append(tx, context.id, body, paths)


def _has_entry(snapshot: Snapshot, seq: int, entry_id: str) -> bool:
    from retentive.audit.chain import has_entry  # noqa: PLC0415 - needed only while the log is on

    return has_entry(snapshot, seq, entry_id)


def _code_of(error: RetentiveError) -> str:
    return ERROR_CODES.get(error.key, error.code) if isinstance(error, Refused) else error.code
