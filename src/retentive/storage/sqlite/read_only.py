"""Read-only access to the memory stores in a SQLite file: writes, creates and recovers nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn, TypeVar, Unpack

from retentive.errors import NotFound, PermissionDenied, RetentiveError, UnknownSchema
from retentive.storage.capabilities import Checkable
from retentive.storage.contract import Actor, Backend, NewStore, Snapshot, StoreInfo, Transaction
from retentive.storage.findings import Finding
from retentive.storage.sql import check as sql_check
from retentive.storage.sql import records as sql_records
from retentive.storage.sql import stores as sql_stores
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.storage.sqlite.check import integrity
from retentive.storage.sqlite.connection import connect_to_look
from retentive.storage.sqlite.format import SCHEMA, check_format

T = TypeVar("T")


class ReadOnlyBackend(Backend, Checkable):
    """Memory stores in the SQLite file at `path`. Writing raises `PermissionDenied`."""

    def __init__(self, path: str) -> None:
        self._lock = threading.RLock()
        if not os.path.exists(path):
            raise NotFound("there is no database at the place")
        try:
            check_format(path)
        except UnknownSchema:
            raise
        except RetentiveError:  # damaged files are opened too
            pass
        self._connection = connect_to_look(path)

    def get_store(self, id_or_key: str) -> StoreInfo | None:
        with self._lock:
            return sql_stores.select_store(self._connection, id_or_key)

    def list_stores(self, *, after: str | None = None, limit: int | None = None) -> list[StoreInfo]:
        with self._lock:
            return sql_stores.select_stores(self._connection, after, limit)

    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        with self._lock:
            self._connection.run("BEGIN")
            try:
                return work(SqlSnapshot(self._connection, store_id))
            finally:
                self._connection.roll_back()

    def side_records(self, store_id: str, kind: str, *, after: str = "") -> Iterator[tuple[str, str]]:
        with self._lock:
            number = sql_records.store_number(self._connection, store_id)
            return iter(sql_records.select_records(self._connection, number, kind, after=after))

    def check(self) -> Iterator[Finding]:
        with self._lock:
            yield from integrity(self._connection)
            yield from sql_check.examine(self._connection, SCHEMA)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    # -- what writes -----------------------------------------------------------------------------------------

    def create_store(self, **new: Unpack[NewStore]) -> StoreInfo:
        _refuse()

    def write(self, store_id: str, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        _refuse()

    def put_side_records(self, store_id: str, kind: str, values: Mapping[str, str | None]) -> None:
        _refuse()

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        _refuse()

    def repair(self) -> None:
        _refuse()


def _refuse() -> NoReturn:
    raise PermissionDenied("the location was opened for reading only")
