"""Repairing what can be repaired for certain; everything else is left as it is."""

from __future__ import annotations

from contextlib import suppress

from retentive.doctor.side_records import left_texts
from retentive.history.removal import finish
from retentive.storage import capabilities
from retentive.storage.contract import Backend, Transaction
from retentive.store import MemoryStore


def repair(backend: Backend) -> None:
    """Make counts the sums they should be, remove what belongs to nothing, and end what was interrupted.

    Others may go on writing. What was repaired is seen by checking again. Raises the errors of storage.
    """
    capabilities.repair(backend)
    capabilities.purge(backend)  # of texts that went
    for info in backend.list_stores():
        with suppress(Exception):  # as damage can show as any error; the others are repaired, and all looked at again
            capabilities.unlock(backend, info)
            finish(MemoryStore(backend, info))
            if backend.read(info.id, left_texts):
                MemoryStore(backend, info).follow_up(_remove_left_texts, may_use_reserve=True)


def _remove_left_texts(tx: Transaction) -> None:
    for kind, key in left_texts(tx):
        tx.put_record(kind, key, None)
