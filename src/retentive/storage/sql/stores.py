"""SQL statements for memory stores, their records and their side records.

Records and side records are in the same table. Their kinds differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from retentive.errors import Damaged, NotFound
from retentive.storage.contract import DEFAULT_WORKSPACE, NewStore, StoreInfo, StoreSelection, to_datetime
from retentive.storage.sql.connection import Connection, Row, Value
from retentive.storage.sql.schema import TABLES_OF_STORES
from retentive.values.paths import visible
from retentive.values.properties import damaged_store

_STORE = "id, store_key, name, created_at, memories, size_bytes, seal, erased_at, workspace, properties"
_BY_KEY = "workspace = ? AND store_key = ?"


def insert_store(connection: Connection, store_id: str, at: int, new: NewStore) -> None:
    """Insert a row for a new memory store. `at` is the time of its creation in microseconds."""
    values = new.get("workspace", DEFAULT_WORKSPACE), new["key"], new["name"], at, new.get("seal")
    connection.run(
        "INSERT INTO stores (id, workspace, store_key, name, created_at, revision, memories, size_bytes, last_at, seal,"
        " properties) VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0, ?, ?)",
        (store_id, *values, new.get("properties")),
    )


def erase_store(connection: Connection, number: int, *, at: int, by: str | None) -> None:
    """Remove all data of a store except its id. The caller must have locked the row of the store."""
    for table in TABLES_OF_STORES:
        connection.run(f"DELETE FROM {table} WHERE store = ?", (number,))
    connection.run(
        "UPDATE stores SET store_key = NULL, name = '', memories = 0, size_bytes = 0, seal = NULL, settings = NULL,"
        " properties = NULL,"
        " erased_at = ?, erased_by = ? WHERE no = ?",
        (at, by, number),
    )


def select_store(connection: Connection, id_or_key: str, workspace: str) -> StoreInfo | None:
    """Return the store with this id. If there is none, return the store that has this key in the workspace, or None."""
    if "\0" in id_or_key or id_or_key.encode(errors="replace").decode() != id_or_key:
        return None  # no database can store a NUL or a lone surrogate
    by_id = _select(connection, "id = ?", id_or_key) if id_or_key.startswith("memstore_") else None
    return by_id or _select(connection, _BY_KEY, workspace, id_or_key)


def select_store_taking(connection: Connection, store_id: str, new: NewStore) -> StoreInfo | None:
    """Return the store that prevents the creation of a new store, or None.

    This is the store with the same key in the same workspace, or the store with the same id. The id of an erased store
    remains in use.
    """
    key, workspace = new["key"], new.get("workspace", DEFAULT_WORKSPACE)
    by_key = None if key is None else _select(connection, _BY_KEY, workspace, key)
    return by_key or _select(connection, "id = ?", store_id)


def find_store(connection: Connection, store_id: str) -> StoreInfo:
    """Return the store with this id. Raises `NotFound`."""
    found = _select(connection, "id = ?", store_id)
    if found is None:
        raise no_store(store_id)
    return found


def select_stores(connection: Connection, chosen: StoreSelection) -> list[StoreInfo]:
    """Return the stores that are not erased and meet the conditions in `chosen`, in order of their ids.

    A store whose row cannot be read is returned with `StoreInfo.damage`.
    """
    clauses = (
        ("id > ?", chosen.get("after")),
        ("id < ?", chosen.get("before")),
        ("workspace = ?", chosen.get("workspace")),
    )
    sql, values = "FROM stores WHERE erased_at IS NULL", list[Value]()
    for clause, value in clauses:
        if value is not None:
            sql, values = f"{sql} AND {clause}", [*values, value]
    sql += " ORDER BY id DESC" if chosen.get("newest_first") else " ORDER BY id"
    if (limit := chosen.get("limit")) is not None:
        sql, values = sql + " LIMIT ?", [*values, limit]
    try:
        return [_store(row) for row in connection.rows(f"SELECT {_STORE} {sql}", values)]
    except Damaged:
        return [_readable(connection, cast("int", row[0])) for row in connection.rows(f"SELECT no {sql}", values)]


def _readable(connection: Connection, number: int) -> StoreInfo:
    """Return one store of a listing, also if its row is damaged."""
    store_id = f"memstore_{number}"
    try:
        store_id = str(connection.rows("SELECT id FROM stores WHERE no = ?", (number,))[0][0])
        return _store(connection.rows(f"SELECT {_STORE} FROM stores WHERE no = ?", (number,))[0])
    except Damaged as error:
        return damaged_store(visible(store_id), error)


def store_number(connection: Connection, store_id: str) -> int:
    """Return the number of a store in the tables. Raises `NotFound`."""
    found = connection.rows("SELECT no FROM stores WHERE id = ? AND erased_at IS NULL", (store_id,))
    if not found:
        raise no_store(store_id)
    return cast("int", found[0][0])


def no_store(store_id: str) -> NotFound:
    """Return the error for a store that does not exist or was erased."""
    return NotFound(f"there is no memory store {store_id}")


def select_records(
    connection: Connection, store: int, kind: str, *, after: str = "", limit: int | None = None
) -> list[tuple[str, str]]:
    """Return keys and values of at most `limit` records of a kind, in key order. The keys are greater than `after`."""
    found = connection.rows(
        "SELECT name, value FROM records WHERE store = ? AND kind = ? AND name > ? ORDER BY name"
        + ("" if limit is None else f" LIMIT {limit:d}"),
        (store, kind, after),
    )
    return cast("list[tuple[str, str]]", found)


def write_records(connection: Connection, store: int, kind: str, values: Mapping[str, str | None]) -> None:
    """Write or replace records. The value None removes a record.

    Each record is deleted and then inserted, because the databases have no common statement for "insert or update".
    """
    connection.run_many(
        "DELETE FROM records WHERE store = ? AND kind = ? AND name = ?", [(store, kind, key) for key in values]
    )
    added = [(store, kind, key, value) for key, value in values.items() if value is not None]
    if added:
        connection.run_many("INSERT INTO records (store, kind, name, value) VALUES (?, ?, ?, ?)", added)


def _select(connection: Connection, clause: str, *values: str) -> StoreInfo | None:
    found = connection.rows(f"SELECT {_STORE} FROM stores WHERE {clause}", values)
    return _store(found[0]) if found else None


def _store(row: Row) -> StoreInfo:
    """Return the store in a row. SQLite returns values of any type, and a damaged text with lone surrogates."""
    id_, key, name, created, memories, size, seal, erased, workspace, properties = cast(
        "tuple[str, str | None, str, int, int, int, str | None, int | None, str, str | None]", row
    )
    optional = [value for value in (key, seal, properties) if value is not None]
    try:
        for text in (id_, name, workspace, *optional):
            text.encode()
        created_at, erased_at = to_datetime(created), None if erased is None else to_datetime(erased)
        counts = memories + size
    except (Damaged, AttributeError, TypeError, UnicodeEncodeError):
        counts = None
    if not isinstance(counts, int) or not all(isinstance(text, str) for text in (id_, name, workspace, *optional)):
        raise Damaged(f"the row of memory store {visible(str(id_))} cannot be read")
    return StoreInfo(id_, key, name, created_at, memories, size, seal, erased_at, workspace, properties)
