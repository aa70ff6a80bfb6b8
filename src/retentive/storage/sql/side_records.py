"""Small records of memory stores in SQL: notes, written in the transaction of a change, and jottings beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from retentive.errors import NotFound
from retentive.storage.sql.connection import Connection


def select_note(connection: Connection, store: int, kind: str, key: str) -> str | None:
    """The value of a note."""
    found = connection.rows("SELECT value FROM notes WHERE store = ? AND kind = ? AND name = ?", (store, kind, key))
    return cast("str", found[0][0]) if found else None


def select_notes(connection: Connection, store: int, kind: str, *, after: str = "") -> list[tuple[str, str]]:
    """Keys and values of a kind, with keys beyond `after`."""
    found = connection.rows(
        "SELECT name, value FROM notes WHERE store = ? AND kind = ? AND name > ? ORDER BY name", (store, kind, after)
    )
    return cast("list[tuple[str, str]]", found)


def write_notes(connection: Connection, store: int, kind: str, values: Mapping[str, str | None]) -> None:
    """Replace notes. Removed first and then added: there is no other statement that all databases know."""
    connection.run_many(
        "DELETE FROM notes WHERE store = ? AND kind = ? AND name = ?", [(store, kind, key) for key in values]
    )
    added = [(store, kind, key, value) for key, value in values.items() if value is not None]
    if added:
        connection.run_many("INSERT INTO notes (store, kind, name, value) VALUES (?, ?, ?, ?)", added)


def store_number(connection: Connection, store_id: str) -> int:
    """The number of a store in the tables. Raises `NotFound`."""
    found = connection.rows("SELECT no FROM stores WHERE id = ? AND erased_at IS NULL", (store_id,))
    if not found:
        raise NotFound(f"there is no memory store {store_id}")
    return cast("int", found[0][0])
