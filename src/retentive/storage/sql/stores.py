"""SQL statements for memory stores and their records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from retentive.errors import Damaged, NotFound
from retentive.storage.contract import DEFAULT_WORKSPACE, NewStore, StoreInfo, StoreSelection, to_datetime
from retentive.storage.sql.connection import Connection, Row, Value
from retentive.values.paths import visible
from retentive.values.properties import damaged_store

_UNSTORABLE = re.compile("[\0\ud800-\udfff].*", re.DOTALL)
_STORE = (
    "s.id, s.store_key, s.name, s.created_at, CASE WHEN s.erased_at IS NULL THEN n.memories END, n.total_bytes, s.seal,"
    " s.erased_at, s.workspace, s.properties"
)
OF_STORE = (  # the row of a store, and its newest version with the totals
    "FROM stores s LEFT JOIN versions n ON n.store = s.no AND n.id ="
    " (SELECT max(x.id) FROM versions x WHERE x.store = s.no)"
)


def remove_versions(connection: Connection, number: int, where: str, values: Sequence[Value] = ()) -> None:
    """Delete versions of a store. `where` is a condition with the placeholders for `values`.

    The newest version of a store stays, because revision, totals and the next id follow from it. All its other columns
    are emptied. From then on it belongs to no memory, and is not listed as a version.
    """
    newest = connection.rows("SELECT max(id) FROM versions WHERE store = ?", (number,))[0][0]
    connection.run(
        "UPDATE versions SET memory = '', operation = '', path = '', size_bytes = NULL, sha256 = NULL, actor = NULL,"
        " seal = NULL, redacted_at = NULL, redacted_by = NULL, provenance = NULL, text_of = NULL, text = NULL"
        f" WHERE store = ? AND id = ? AND {where}",
        (number, newest, *values),
    )
    connection.run(f"DELETE FROM versions WHERE store = ? AND id < ? AND {where}", (number, newest, *values))
    connection.run("DELETE FROM versions WHERE store = ? AND id < ? AND memory = ''", (number, newest))


def select_store(connection: Connection, id_or_key: str, workspace: str) -> StoreInfo | None:
    """Return the store with this id. If there is none, return the store that has this key in the workspace, or None."""
    if "\0" in id_or_key or id_or_key.encode(errors="replace").decode() != id_or_key:
        return None  # no database can store a NUL or a lone surrogate
    by_id = _select(connection, "s.id = ?", id_or_key) if id_or_key.startswith("memstore_") else None
    return by_id or _select(connection, "s.workspace = ? AND s.store_key = ?", workspace, id_or_key)


def create_store(connection: Connection, store_id: str, at: int, new: NewStore) -> StoreInfo:
    """Return the store with the key or the id of `new`, or a new store. `at` is its creation time in microseconds.

    The id of an erased store remains in use.
    """
    key, workspace = new["key"], new.get("workspace", DEFAULT_WORKSPACE)
    by_key = None if key is None else _select(connection, "s.workspace = ? AND s.store_key = ?", workspace, key)
    found = by_key or _select(connection, "s.id = ?", store_id)
    if found is not None:
        return found
    connection.run(
        "INSERT INTO stores (id, workspace, store_key, name, created_at, seal, properties)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (store_id, workspace, key, new["name"], at, new.get("seal"), new.get("properties")),
    )
    return find_store(connection, store_id)


def find_store(connection: Connection, store_id: str) -> StoreInfo:
    """Return the store with this id. Raises `NotFound`."""
    found = _select(connection, "s.id = ?", store_id)
    if found is None:
        raise no_store(store_id)
    return found


def select_stores(connection: Connection, chosen: StoreSelection) -> list[StoreInfo]:
    """Return the stores that are not erased and meet the conditions in `chosen`, in order of their ids.

    A store whose row cannot be read is returned with `StoreInfo.damage`.
    """
    after, before = chosen.get("after"), chosen.get("before")
    clauses = (
        ("s.id > ?", None if after is None else as_bound(after)),
        ("s.id < ?", None if before is None else as_bound(before)),
        ("s.workspace = ?", chosen.get("workspace")),
    )
    sql, values = f"{OF_STORE} WHERE s.erased_at IS NULL", list[Value]()
    for clause, value in clauses:
        if value is not None:
            sql, values = f"{sql} AND {clause}", [*values, value]
    sql += " ORDER BY s.id DESC" if chosen.get("newest_first") else " ORDER BY s.id"
    if (limit := chosen.get("limit")) is not None:
        sql, values = sql + " LIMIT ?", [*values, limit]
    try:
        return [_store(row) for row in connection.rows(f"SELECT {_STORE} {sql}", values)]
    except Damaged:
        return [_readable(connection, cast("int", row[0])) for row in connection.rows(f"SELECT s.no {sql}", values)]


def _readable(connection: Connection, number: int) -> StoreInfo:
    """Return one store of a listing, also if its row is damaged."""
    store_id = f"memstore_{number}"
    try:
        store_id = str(connection.rows("SELECT id FROM stores WHERE no = ?", (number,))[0][0])
        return _store(connection.rows(f"SELECT {_STORE} {OF_STORE} WHERE s.no = ?", (number,))[0])
    except Damaged as error:
        return damaged_store(visible(store_id), error)


def as_bound(text: str) -> str:
    """Return a bound that separates paths, ids and keys as `text` does, without NUL and lone surrogates.

    The databases reject these characters. No path, id or key contains them or another control character.
    """
    return _UNSTORABLE.sub(lambda rest: "\x01" if rest[0] < " " else "\ue000", text)


def no_store(store_id: str) -> NotFound:
    """Return the error for a store that does not exist or was erased."""
    return NotFound(f"there is no memory store {store_id}")


def _select(connection: Connection, clause: str, *values: str) -> StoreInfo | None:
    found = connection.rows(f"SELECT {_STORE} {OF_STORE} WHERE {clause}", values)
    return _store(found[0]) if found else None


def _store(row: Row) -> StoreInfo:
    """Return the store in a row. SQLite returns values of any type, and a damaged text with lone surrogates."""
    id_, key, name, created, memories, total_bytes, seal, erased, workspace, properties = cast(
        "tuple[str, str | None, str, int, int | None, int | None, str | None, int | None, str, str | None]", row
    )
    try:
        for text in (id_, name, workspace, *(text for text in (key, seal, properties) if text is not None)):
            str.encode(text)
        created_at, erased_at = to_datetime(created), None if erased is None else to_datetime(erased)
        count, size = (int.__index__(memories), int.__index__(total_bytes or 0)) if memories else (0, 0)
    except (Damaged, TypeError, UnicodeEncodeError):
        raise Damaged(f"the row of memory store {visible(str(id_))} cannot be read") from None
    return StoreInfo(id_, key, name, created_at, count, size, seal, erased_at, workspace, properties)
