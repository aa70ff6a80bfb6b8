"""Creates, finds, lists and erases memory stores in SQL."""

from __future__ import annotations

from typing import cast

from retentive.errors import NotFound
from retentive.storage.contract import StoreInfo, to_datetime
from retentive.storage.sql.connection import Connection, Row, Value

_STORE = "id, store_key, name, created_at, memories, size_bytes, seal, erased_at"


def insert_store(
    connection: Connection, *, store_id: str, key: str | None, name: str, at: int, seal: str | None
) -> None:
    """Insert a memory store."""
    connection.run(
        "INSERT INTO stores (id, store_key, name, created_at, revision, memories, size_bytes, last_at, seal)"
        " VALUES (?, ?, ?, ?, 0, 0, 0, 0, ?)",
        (store_id, key, name, at, seal),
    )


def erase_store(connection: Connection, store_id: str, *, at: int, by: str | None) -> None:
    """Remove everything in a store except its id. The caller holds the lock on its row."""
    number = "(SELECT no FROM stores WHERE id = ?)"
    for table in ("memories", "versions", "records"):
        connection.run(f"DELETE FROM {table} WHERE store = {number}", (store_id,))
    connection.run(
        "UPDATE stores SET store_key = NULL, name = '', memories = 0, size_bytes = 0, seal = NULL, settings = NULL,"
        " erased_at = ?, erased_by = ? WHERE id = ? AND erased_at IS NULL",
        (at, by, store_id),
    )


def select_store(connection: Connection, id_or_key: str) -> StoreInfo | None:
    """Store with this id, else the store with this key, else None."""
    for column in ("id", "store_key") if id_or_key.startswith("memstore_") else ("store_key",):
        found = connection.rows(f"SELECT {_STORE} FROM stores WHERE {column} = ?", (id_or_key,))
        if found:
            return _store(found[0])
    return None


def select_store_by_id(connection: Connection, store_id: str) -> StoreInfo | None:
    """Store with this id, including an erased one, or None."""
    found = connection.rows(f"SELECT {_STORE} FROM stores WHERE id = ?", (store_id,))
    return _store(found[0]) if found else None


def select_store_by_key(connection: Connection, key: str) -> StoreInfo | None:
    """Store with this key, or None."""
    found = connection.rows(f"SELECT {_STORE} FROM stores WHERE store_key = ?", (key,))
    return _store(found[0]) if found else None


def find_store(connection: Connection, store_id: str) -> StoreInfo:
    """Store with this id. Raises `NotFound`."""
    found = connection.rows(f"SELECT {_STORE} FROM stores WHERE id = ?", (store_id,))
    if not found:
        raise NotFound(f"there is no memory store {store_id}")
    return _store(found[0])


def select_stores(connection: Connection, after: str | None, limit: int | None) -> list[StoreInfo]:
    """Stores in id order."""
    sql, values = f"SELECT {_STORE} FROM stores WHERE erased_at IS NULL", list[Value]()
    if after is not None:
        sql, values = sql + " AND id > ?", [after]
    sql += " ORDER BY id"
    if limit is not None:
        sql, values = sql + " LIMIT ?", [*values, limit]
    return [_store(row) for row in connection.rows(sql, values)]


def _store(row: Row) -> StoreInfo:
    id_, key, name, created, memories, size, seal, erased = cast(
        "tuple[str, str | None, str, int, int, int, str | None, int | None]", row
    )
    gone = None if erased is None else to_datetime(erased)
    return StoreInfo(id_, key, name, to_datetime(created), memories, size, seal, gone)
