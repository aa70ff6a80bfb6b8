"""Audit entries of operations. The entry of a change is written in its transaction; a read gets one of its own."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from retentive.audit.chain import append
from retentive.engine.operation import Operation, Outcome, WriteOperation
from retentive.errors import Refused, StorageReadOnly
from retentive.storage.contract import Transaction, now_us
from retentive.values.records import Invocation
from retentive.values.replies import ERROR_CODES

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore

_read_without_entry: set[str] = set()
"""Ids of the stores of which this process has logged that a read left no entry."""


def add(tx: Transaction, store: StoreCore, operation: Operation[Any], call: Invocation, outcome: Outcome[Any]) -> None:
    """Write the entry of an operation."""
    actor, error = call.actor or store.actor, outcome.error
    body: dict[str, object] = {
        "id": os.urandom(8).hex(),
        "time": now_us(store.clock),
        "actor": None if actor is None else str(actor),
        "operation": operation.name,
        "integration": call.integration,
        "outcome": "ok"
        if error is None
        else ERROR_CODES.get(error.key, error.code)
        if isinstance(error, Refused)
        else error.code,
    }
    if outcome.recorded:
        body["changes"] = [list(change) for change in outcome.recorded]
    body |= {name: True for name in ("repeated", "proposed") if getattr(outcome, name)}
    if outcome.error is None and not outcome.repeated:
        body |= operation.facts(outcome.result)
    append(tx, store.id, body, [store.redacted(path.text, outcome.settings) for path in operation.paths()])


def add_alone(store: StoreCore, operation: Operation[Any], call: Invocation, outcome: Outcome[Any]) -> None:
    """Write the entry in a transaction of its own: of a read, or of a write that was rolled back.

    If this fails, a read fails too. On read-only storage, no entry can be written, and memories there must still be
    readable. Reads then leave no entry.
    """
    try:
        store.backend.write(store.id, lambda tx: add(tx, store, operation, call, outcome), may_use_reserve=True)
    except StorageReadOnly:
        if isinstance(operation, WriteOperation):
            raise
        if store.id not in _read_without_entry:
            _read_without_entry.add(store.id)
            logging.getLogger("retentive").warning("reads leave no audit entry: the storage is read-only")
