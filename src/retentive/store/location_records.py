"""Records of a location: small values that belong to no memory store, such as the keys of an HTTP server.

They are stored in a hidden memory store with the id `SYSTEM_STORE`, which is created with the first record. Backups
and lists of stores leave out this store. If the location was opened with encryption keys, the records are encrypted.
"""

from __future__ import annotations

import re
from contextlib import suppress
from enum import Enum
from functools import partial
from itertools import takewhile
from typing import Final

from retentive.errors import Conflict, InvalidInput, NotFound
from retentive.storage.contract import Backend, Snapshot, Transaction
from retentive.values.records import SYSTEM_STORE

_RECORD = "place"
_KIND = re.compile("[a-z][a-z0-9_.-]{0,39}")
_KEY = re.compile("[!-~]{1,150}")


class Unchecked(Enum):
    """Type of the constant `ANY`, the default of the argument `expected` of `put`."""

    ANY = 0


ANY: Final = Unchecked.ANY


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
            return self._backend.read(SYSTEM_STORE, lambda snapshot: snapshot.get_record(_RECORD, name))
        return None

    def list(self, kind: str, *, after: str = "", limit: int | None = None) -> list[tuple[str, str]]:
        """Return the keys and values of records of a kind, in key order, starting after the key `after`."""
        prefix = _name(kind, "")
        with suppress(NotFound):
            return self._backend.read(SYSTEM_STORE, partial(_listed, prefix=prefix, after=after, limit=limit))
        return []

    def put(self, kind: str, key: str, value: str | None, *, expected: str | Unchecked | None = ANY) -> None:
        """Write a record. The value None removes the record.

        If `expected` is given and differs from the current value, raises `Conflict` and changes nothing.
        `expected=None` means that there must be no record. A call can be repeated: it always succeeds if the record
        already has the new value.
        """
        if value is not None and "\0" in value:
            raise InvalidInput("the value of a record must not contain a NUL character")
        put = partial(_put, name=_name(kind, key), value=value, expected=expected)
        try:
            self._backend.write(SYSTEM_STORE, put)
        except NotFound:
            self._backend.create_store(key=None, name="system", store_id=SYSTEM_STORE)
            self._backend.write(SYSTEM_STORE, put)


def _put(tx: Transaction, name: str, value: str | None, expected: str | Unchecked | None) -> None:
    present = tx.get_record(_RECORD, name)
    if present == value:
        return
    if expected is not ANY and present != expected:
        raise Conflict("the record has changed since it was read")
    tx.put_record(_RECORD, name, value)


def _listed(snapshot: Snapshot, prefix: str, after: str, limit: int | None) -> list[tuple[str, str]]:
    found = takewhile(
        lambda pair: pair[0].startswith(prefix), snapshot.records(_RECORD, after=prefix + after, limit=limit)
    )
    return [(key.removeprefix(prefix), value) for key, value in found]


def _name(kind: str, key: str) -> str:
    if not _KIND.fullmatch(kind) or (key and not _KEY.fullmatch(key)):
        raise InvalidInput(f"the kind {kind[:50]!r} or the key {key[:50]!r} of a record is invalid")
    return f"{kind}/{key}"
