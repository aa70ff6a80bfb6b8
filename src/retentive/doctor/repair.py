"""Repairs where the right value is certain. Everything else stays unchanged."""

from __future__ import annotations

from contextlib import suppress

from retentive.doctor.records import orphaned_texts
from retentive.history.removal import finish
from retentive.storage import capabilities
from retentive.storage.contract import Backend, Transaction
from retentive.store import MemoryStore


def repair(backend: Backend) -> None:
    """Correct counts, remove orphans, and complete interrupted removals.

    Others may go on writing. Another check shows what was repaired. Raises the errors of storage.
    """
    capabilities.repair(backend)
    capabilities.purge(backend)  # the bytes of removed texts
    for info in backend.list_stores():
        with suppress(Exception):  # damage can raise any error; the next check reports it
            capabilities.unlock(backend, info)
            finish(MemoryStore(backend, info))
            if backend.read(info.id, orphaned_texts):
                MemoryStore(backend, info).follow_up(_remove_orphaned_texts, may_use_reserve=True)


def _remove_orphaned_texts(tx: Transaction) -> None:
    for kind, key in orphaned_texts(tx):
        tx.put_record(kind, key, None)
