"""Audit entries of operations. The entry of a change is written in its transaction; a read gets one of its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from retentive.audit.chain import append, version_hash
from retentive.engine.operation import Operation, Outcome
from retentive.engine.repeats import is_api_id
from retentive.errors import Refused, StorageReadOnly
from retentive.storage.contract import Transaction, now_us
from retentive.values.records import Invocation, name_of
from retentive.values.replies import ERROR_CODES

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore

MAX_HASHES = 10_000  # of an import, as many as a store has by default; a record of MariaDB has 8 MB at most
_read_without_entry: set[str] = set()
"""Ids of the stores of which this process has logged that a read left no entry."""


def add(tx: Transaction, store: StoreCore, operation: Operation[Any], call: Invocation, outcome: Outcome[Any]) -> None:
    """Write the entry of an operation."""
    actor, error = call.actor or store.actor, outcome.error
    body: dict[str, Any] = {
        "id": os.urandom(8).hex(),
        "time": now_us(store.clock),
        "actor": name_of(actor),
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
    paths = [store.redacted(path.text, outcome.settings) for path in operation.paths]
    erased = body.get("erased", ())  # what is known of these versions must not stay in the log
    recorded = {each.version_id for each in outcome.recorded if not outcome.repeated} - {*erased}
    append(tx, store.id, body, paths, _hashes(tx, recorded) if len(recorded) <= MAX_HASHES else {})


def _hashes(tx: Transaction, recorded: Collection[str]) -> dict[str, str]:
    """Return the hash of each version that an operation recorded, by id. Proposed versions have none yet."""
    newest = tx.versions(limit=len(recorded)) if recorded else ()
    return {version.id: version_hash(version) for version in newest if version.id in recorded}


def add_alone(store: StoreCore, operation: Operation[Any], call: Invocation, outcome: Outcome[Any]) -> None:
    """Write the entry in a transaction of its own: of a read, or of a write that was rolled back.

    If this fails, a read fails too. On read-only storage, no entry can be written, and memories there must still be
    readable. Reads then leave no entry.
    """
    try:
        store.backend.write(store.id, lambda tx: add(tx, store, operation, call, outcome), may_use_reserve=True)
    except StorageReadOnly:
        if operation.writes:
            raise
        if store.id not in _read_without_entry:
            _read_without_entry.add(store.id)
            logging.getLogger("retentive").warning("reads leave no audit entry: the storage is read-only")
