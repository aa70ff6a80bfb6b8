"""Checks of a SQL database, and the rebuilding of what follows from the versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from retentive.errors import Damaged
from retentive.storage.findings import Finding, found
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.schema import TABLES_OF_STORES, Schema
from retentive.values.paths import visible

_MOST = 1_000  # maximum number of findings of each code
_LIVING = "SELECT no FROM stores WHERE erased_at IS NULL"
_IS_NEWEST = (  # the newest version of a memory that exists
    "v.memory <> '' AND (v.operation <> 'deleted' OR v.sha256 <> '') AND v.redacted_at IS NULL AND NOT EXISTS"
    " (SELECT 1 FROM versions w WHERE w.store = v.store AND w.memory = v.memory AND w.id > v.id)"
)
_WRONG_ROWS = (
    "SELECT s.id, m.path FROM memories m JOIN stores s ON s.no = m.store WHERE NOT EXISTS"
    f" (SELECT 1 FROM versions v WHERE v.store = m.store AND v.id = m.newest AND v.path = m.path AND {_IS_NEWEST})"
)
_MISSING_ROWS = (
    f"SELECT s.id, v.path FROM versions v JOIN stores s ON s.no = v.store WHERE s.erased_at IS NULL AND {_IS_NEWEST}"
    " AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.store = v.store AND m.path = v.path AND m.newest = v.id)"
)
_TEXTS_LEFT = (
    "SELECT s.id, v.id FROM versions v JOIN stores s ON s.no = v.store WHERE v.text IS NOT NULL"
    " AND (v.redacted_at IS NOT NULL OR v.text_of IS NOT NULL OR v.operation = 'deleted') AND NOT"
    " EXISTS (SELECT 1 FROM versions r WHERE r.store = v.store AND r.memory = v.memory AND r.text_of = v.id)"
)
_TOTALS = (
    "SELECT count(*), sum(v.size_bytes) FROM memories m JOIN versions v ON v.store = m.store AND v.id = m.newest"
    " WHERE m.store = ?"
)


def examine(connection: Connection, schema: Schema, *, quick: bool = False) -> Iterator[Finding]:
    """Check the database and yield a finding for each violated rule. With `quick`, rows with texts are not searched.

    Raises `Damaged` if there are no tables, and `UnknownSchema`.
    """
    if not schema.is_current(connection):
        raise Damaged("the database is empty; everything in it was lost")
    for table in TABLES_OF_STORES:
        kept = " AND memory <> ''" if table == "versions" else ""
        left = f"FROM {table} WHERE store NOT IN ({_LIVING}){kept}"
        for row in connection.rows(f"SELECT store, count(*) {left} GROUP BY store LIMIT {_MOST}"):
            yield found("rows_left", None, f"{row[0]!s} ({row[1]!s} rows of {table})")
    for sql in (_WRONG_ROWS, _MISSING_ROWS):
        rows = connection.rows(f"{sql} LIMIT {_MOST}")
        yield from (found("index_wrong", str(store_id), visible(str(path))) for store_id, path in rows)
    if not quick:
        rows = connection.rows(f"{_TEXTS_LEFT} LIMIT {_MOST}")
        yield from (found("text_left", str(store_id), str(version_id)) for store_id, version_id in rows)


def rebuild(connection: Connection) -> None:
    """Rebuild the table of memories and the totals of each store. The caller commits."""
    connection.run("DELETE FROM memories")
    connection.run(
        "INSERT INTO memories (store, path, newest) SELECT v.store, v.path, max(v.id) FROM versions v"
        f" WHERE v.store IN ({_LIVING}) AND {_IS_NEWEST} GROUP BY v.store, v.path"
    )
    for (number,) in connection.rows(_LIVING):
        newest = connection.rows("SELECT max(id) FROM versions WHERE store = ?", (number,))[0][0]
        memories, total = cast("tuple[int, int | None]", connection.rows(_TOTALS, (number,))[0])
        sql = "UPDATE versions SET memories = ?, total_bytes = ? WHERE store = ? AND id = ?"
        connection.run(sql, (memories, int(total or 0), number, newest))
