"""Read-only access to the memory stores in a SQLite file. It does not write, create or recover anything."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from retentive.errors import NotFound, RetentiveError, StorageReadOnly, UnknownSchema
from retentive.storage.contract import Snapshot, Transaction, sortable_id
from retentive.storage.sql.backend import SqlBackend
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.storage.sqlite.connection import connect_to_look
from retentive.storage.sqlite.format import SCHEMA, check_format, integrity

if TYPE_CHECKING:
    from retentive.storage.findings import Finding

T = TypeVar("T")


class ReadOnlyBackend(SqlBackend):
    """Backend for reading the SQLite file at `path`. Methods that write raise `StorageReadOnly`.

    Raises `NotFound` if there is no file.
    """

    def __init__(self, path: str) -> None:
        super().__init__(SCHEMA, time.time, sortable_id)
        self._lock = threading.RLock()
        if not os.path.exists(path):
            raise NotFound("there is no database at this location; restore it from a backup")
        try:
            check_format(path)
        except UnknownSchema:
            raise
        except RetentiveError:  # a damaged file can still be opened
            pass
        self._connection = connect_to_look(path)

    def look(self, work: Callable[[Connection], T]) -> T:
        with self._lock:
            return work(self._connection)

    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        with self._lock:
            self._connection.run("BEGIN")
            try:
                return work(SqlSnapshot(self._connection, store_id))
            finally:
                self._connection.roll_back()

    def check(self, *, quick: bool = False) -> Iterator[Finding]:
        from retentive.storage.sql.check import examine  # noqa: PLC0415 - slow to import

        with self._lock:  # yields each finding at once: if the file is damaged, the next statement may fail
            yield from integrity(self._connection)
            yield from examine(self._connection, SCHEMA)

    def transact(self, work: Callable[[Connection], T], *, may_use_reserve: bool = False) -> T:
        raise StorageReadOnly("the location was opened read-only")

    def write(self, store_id: str, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        raise StorageReadOnly("the location was opened read-only")

    def close(self) -> None:
        with self._lock:
            self._connection.close()
