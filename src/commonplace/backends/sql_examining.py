"""What statements alone can tell of memory stores in SQL: rows that belong to nothing, sums that are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from commonplace.backends import migrations
from commonplace.backends.findings import Finding, found
from commonplace.backends.sql import select_head
from commonplace.backends.sql_connection import Connection
from commonplace.errors import InvalidInput, NotFound, UnknownSchema

TABLES = ("memories", "versions", "notes")
_MOST = 1_000  # findings of one kind
_LIVING = "SELECT no FROM stores WHERE erased_at IS NULL"
_LEFT_TEXTS = (
    "FROM versions v WHERE v.text IS NOT NULL AND (v.text_of IS NULL OR v.text_of <> v.id) AND NOT EXISTS"
    " (SELECT 1 FROM versions r WHERE r.store = v.store AND r.memory = v.memory AND r.text_of = v.id)"
)


def examine(connection: Connection, engine: str) -> Iterator[Finding]:
    """Schema, rows of no store, and texts of nobody."""
    if (wrong := schema(connection, engine)) is not None:
        yield wrong
        return
    for table in TABLES:
        count, stores = _left(connection, table)
        if count:
            yield found("rows_left", None, f"{count} rows of {table}, of {stores} stores that are not there")
    rows = connection.rows(
        f"SELECT s.id, v.id {_LEFT_TEXTS.replace('FROM versions v', 'FROM versions v JOIN stores s ON s.no = v.store')}"
        f" LIMIT {_MOST}"
    )
    yield from (found("text_left", str(store), str(version)) for store, version in rows)


def schema(connection: Connection, engine: str) -> Finding | None:
    """What is wrong with the tables as a whole."""
    try:
        if migrations.check(connection, engine):
            return None
    except UnknownSchema:
        return found("schema_new")
    except InvalidInput:
        return found("unreadable", None, "the database belongs to something else than commonplace")
    done = migrations.current(connection, engine)
    return found("schema_old", None, f"{done} of {migrations.newest(engine)}") if done else None


def _left(connection: Connection, table: str) -> tuple[int, int]:
    found = connection.rows(
        f"SELECT count(*), count(DISTINCT store) FROM {table} WHERE store <> 0 AND store NOT IN ({_LIVING})"
    )
    return cast("tuple[int, int]", found[0])


def left_stores(connection: Connection) -> list[int]:
    """The numbers of stores of which there are rows, but not the store. To be read from one state."""
    every = " UNION ".join(f"SELECT store FROM {table}" for table in TABLES)
    found = connection.rows(f"SELECT store FROM ({every}) AS named WHERE store <> 0 AND store NOT IN ({_LIVING})")
    return [cast("int", row[0]) for row in found]


def remove_rows(connection: Connection, numbers: list[int]) -> None:
    """Remove the rows of stores that are not there."""
    for table in TABLES:
        connection.run_many(f"DELETE FROM {table} WHERE store = ?", [(number,) for number in numbers])


def mend_store(connection: Connection, store_id: str, *, lock: str = "") -> bool:
    """Make the counts of a store those of its rows, and remove texts of nobody; whether anything was to be done.

    The caller is in a transaction, and commits.
    """
    try:
        head = select_head(connection, store_id, lock=lock)
    except NotFound:  # erased meanwhile
        return False
    rows = connection.rows("SELECT size_bytes FROM memories WHERE store = ?", (head.no,))
    memories, size_bytes = len(rows), sum(int(row[0] or 0) for row in rows)  # of a sum each server makes another type
    newest = "SELECT coalesce(max(revision), 0), coalesce(max(created_at), 0) FROM versions WHERE store = ?"
    revision, last_at = (int(each or 0) for each in connection.rows(newest, (head.no,))[0])
    revision, last_at = max(revision, head.revision), max(last_at, head.last_at)
    right = (revision, memories, size_bytes, last_at)
    left = [row[0] for row in connection.rows(f"SELECT v.id {_LEFT_TEXTS} AND v.store = ?", (head.no,))]
    connection.run_many(
        "UPDATE versions SET text = NULL WHERE store = ? AND id = ?", [(head.no, version) for version in left]
    )
    if right != (head.revision, head.memories, head.size_bytes, head.last_at):
        connection.run(
            "UPDATE stores SET revision = ?, memories = ?, size_bytes = ?, last_at = ? WHERE no = ?", (*right, head.no)
        )
        return True
    return bool(left)
