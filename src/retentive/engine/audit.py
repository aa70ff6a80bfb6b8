"""Audit entries of operations. The entry of a change is written in its transaction; a read gets one of its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retentive.audit.chain import append
from retentive.engine.operation import Operation, Outcome, WriteOperation
from retentive.engine.repeats import is_api_id
from retentive.errors import Refused, StorageReadOnly
from retentive.storage.contract import Transaction, now_us
from retentive.values.records import Invocation, Recorded
from retentive.values.replies import ERROR_CODES

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore

MAX_HASHES = 10_000  # of an import, as many as a store has by default; a record of MariaDB has 8 MB at most
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
    named = {"session": call.session, "run": call.run}
    body |= {name: store.redacted(given, outcome.settings) for name, given in named.items() if given}
    body |= {"tool_use_id": call.tool_use_id} if is_api_id(call.tool_use_id) else {}  # another one may be a text
    if outcome.error is None and not outcome.repeated:
        body |= operation.facts(outcome.result)
    paths = [store.redacted(path.text, outcome.settings) for path in operation.paths()]
    append(tx, store.id, body, paths, {} if outcome.repeated else _hashes(tx, outcome.recorded))


def _hashes(tx: Transaction, recorded: Sequence[Recorded]) -> dict[str, str]:
    """Return the hash of each text that an operation recorded, by version id. Proposed texts have none yet."""
    newest = tx.versions(limit=len(recorded)) if 0 < len(recorded) <= MAX_HASHES else ()
    found = {version.id: version.sha256 or "" for version in newest}
    return {each.version_id: hash_ for each in recorded if (hash_ := found.get(each.version_id))}


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
