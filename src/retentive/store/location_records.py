"""Records of a location: small values that belong to no memory store, such as the keys of an HTTP server.

They are stored in a hidden memory store with the id `SYSTEM_STORE`, which is created with the first record. Lists
of stores leave it out, and backups have some kinds (`transfer/location_records.py`). If the location was opened with
encryption keys, the records are encrypted.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import takewhile
from typing import Final, TypeAlias

from retentive.audit.chain import AuditEntry, append, entries_page
from retentive.audit.reader import Audit
from retentive.engine.core import StoreCore
from retentive.errors import Conflict, InvalidInput, NotFound
from retentive.storage.contract import Backend, Clock, Snapshot, Transaction, now_us
from retentive.values.listing import ListPage
from retentive.values.records import SYSTEM_STORE

RECORD = "place"
"""Kind of the records in the hidden memory store. Their key is the kind and the key here, with `/` between them."""
_KIND = re.compile("[a-z][a-z0-9_.-]{0,39}")
_KEY = re.compile("[!-~]{1,150}")


LogEntry: TypeAlias = Mapping[str, object]
"""Fields of an entry in the audit log."""
ANY: Final = "\0"
"""Default of the argument `expected` of `put`. No record has this value."""


class LocationRecords:
    """Records of a location, by kind and key. Threads and processes may share them. A write is durable when it returns.

    A kind has 1 to 40 characters: lowercase letters, digits, `_`, `.` and `-`. A key has 1 to 150 printable ASCII
    characters, and no space.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def get(self, kind: str, key: str) -> str | None:
        """Return the value of a record, or None if there is no such record."""
        name = _name(kind, key)
        with suppress(NotFound):
            return self._backend.read(SYSTEM_STORE, lambda snapshot: snapshot.get_record(RECORD, name))
        return None

    def list(self, kind: str, *, after: str = "", limit: int | None = None) -> list[tuple[str, str]]:
        """Return the keys and values of records of a kind, in key order, starting after the key `after`."""
        prefix = _name(kind, "")

        def work(snapshot: Snapshot) -> list[tuple[str, str]]:
            records = snapshot.records(RECORD, after=prefix + after, limit=limit)
            of_kind = takewhile(lambda pair: pair[0].startswith(prefix), records)
            return [(key.removeprefix(prefix), value) for key, value in of_kind]

        with suppress(NotFound):
            return self._backend.read(SYSTEM_STORE, work)
        return []

    def put(
        self, kind: str, key: str, value: str | None, *, expected: str | None = ANY, entry: LogEntry | None = None
    ) -> None:
        """Write a record, with its `entry` in the audit log of the location. The value None removes the record.

        If `expected` is given and differs from the current value, raises `Conflict` and changes nothing.
        `expected=None` means that there must be no record. A call can be repeated: it always succeeds if the record
        already has the new value.
        """
        if value is not None and "\0" in value:
            raise InvalidInput("the value of a record must not contain a NUL character")
        name = _name(kind, key)

        def write(tx: Transaction) -> None:
            present = tx.get_record(RECORD, name)
            if present == value:
                return
            if expected not in {ANY, present}:
                raise Conflict("the record has changed since it was read")
            tx.put_record(RECORD, name, value)
            if entry is not None:
                append(tx, SYSTEM_STORE, entry, ())

        self._write(write)

    def log(self, entry: LogEntry) -> None:
        """Append an entry to the audit log of the location: what happened outside of all memory stores."""
        self._write(lambda tx: append(tx, SYSTEM_STORE, entry, ()))

    def entries(self, before: str = "", limit: int = 50) -> ListPage[AuditEntry, str]:
        """Return a page of the audit log of the location, newest first. `before` is the `next` of the page before."""
        with suppress(NotFound):
            return self._backend.read(SYSTEM_STORE, lambda snapshot: entries_page(snapshot, before, limit))
        return ListPage((), None)

    @property
    def audit(self) -> Audit:
        """Audit log of the location, to verify and export it. Raises `NotFound` if it was never written."""
        info = self._backend.get_store(SYSTEM_STORE)
        if info is None:
            raise NotFound("the audit log of the location has no entries")
        return Audit(StoreCore(self._backend, info))

    def _write(self, work: Callable[[Transaction], object]) -> None:
        try:
            self._backend.write(SYSTEM_STORE, work)
        except NotFound:
            self._backend.create_store(key=None, name="system", store_id=SYSTEM_STORE)
            self._backend.write(SYSTEM_STORE, work)


def entry_of(
    operation: str, actor: str | None, outcome: str = "ok", *, integration: str, clock: Clock = time.time,
    **facts: object,
) -> LogEntry:  # fmt: skip
    """Return an entry for the audit log of the location.

    `outcome` is `ok` or the code of an error. `facts` are further fields, such as `address`.
    """
    said = {"actor": actor, "operation": operation, "integration": integration, "outcome": outcome}
    return {"id": os.urandom(8).hex(), "time": now_us(clock), **said, **facts}


def _name(kind: str, key: str) -> str:
    if not _KIND.fullmatch(kind) or (key and not _KEY.fullmatch(key)):
        raise InvalidInput(f"the kind {kind[:50]!r} or the key {key[:50]!r} of a record is invalid")
    return f"{kind}/{key}"
