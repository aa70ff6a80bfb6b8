"""Records and side records of memory stores in SQL.

They share a table; their kinds differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from retentive.errors import NotFound
from retentive.storage.sql.connection import Connection


def select_record(connection: Connection, store: int, kind: str, key: str) -> str | None:
    """Value of a record, or None."""
    found = connection.rows("SELECT value FROM records WHERE store = ? AND kind = ? AND name = ?", (store, kind, key))
    return cast("str", found[0][0]) if found else None


def select_records(connection: Connection, store: int, kind: str, *, after: str = "") -> list[tuple[str, str]]:
    """Keys and values of a kind with keys greater than `after`, in key order."""
    found = connection.rows(
        "SELECT name, value FROM records WHERE store = ? AND kind = ? AND name > ? ORDER BY name", (store, kind, after)
    )
    return cast("list[tuple[str, str]]", found)


def write_records(connection: Connection, store: int, kind: str, values: Mapping[str, str | None]) -> None:
    """Replace records by delete and insert, since no upsert is common to all databases. None removes."""
    connection.run_many(
        "DELETE FROM records WHERE store = ? AND kind = ? AND name = ?", [(store, kind, key) for key in values]
    )
    added = [(store, kind, key, value) for key, value in values.items() if value is not None]
    if added:
        connection.run_many("INSERT INTO records (store, kind, name, value) VALUES (?, ?, ?, ?)", added)


def store_number(connection: Connection, store_id: str) -> int:
    """Number of a store in the tables. Raises `NotFound`."""
    found = connection.rows("SELECT no FROM stores WHERE id = ? AND erased_at IS NULL", (store_id,))
    if not found:
        raise NotFound(f"there is no memory store {store_id}")
    return cast("int", found[0][0])
