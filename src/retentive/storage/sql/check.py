"""Checks of a SQL database: schema, indexes, rows that belong to no store, and texts that belong to no version."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import cast

from retentive.errors import Damaged, UnknownSchema
from retentive.storage.findings import Finding, found
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.schema import NOT_NUMBERING, TABLES_OF_STORES, ForeignSchema, Schema
from retentive.values.records import HIGHEST_COUNTER, time_in_id, to_us

_MOST = 1_000  # maximum number of findings of each code
_LIVING = "SELECT no FROM stores WHERE erased_at IS NULL"
_ORPHANS = (
    "FROM versions v WHERE v.text IS NOT NULL AND (v.text_of IS NULL OR v.text_of <> v.id) AND NOT EXISTS"
    " (SELECT 1 FROM versions r WHERE r.store = v.store AND r.memory = v.memory AND r.text_of = v.id)"
)
_BEHIND = (
    f"SELECT s.id FROM stores s WHERE s.erased_at IS NULL AND (s.last_at >= {HIGHEST_COUNTER} OR s.last_at <"
    " (SELECT v.created_at FROM versions v WHERE v.store = s.no ORDER BY v.id DESC LIMIT 1))"
)
_WITHOUT_TIME = (  # a store with such a creation time can be neither opened nor listed
    "SELECT no, id FROM stores WHERE erased_at IS NULL AND created_at NOT BETWEEN"
    f" {to_us(datetime.min.replace(tzinfo=UTC))} AND {to_us(datetime.max.replace(tzinfo=UTC))}"
)
_BY_MEMORY = {"versions_by_memory": "CREATE INDEX versions_by_memory ON versions (store, memory, id)"}
_KEY = "ALTER TABLE versions ADD PRIMARY KEY (store, id)"
_INDEXES = {
    "sqlite": {"versions_by_id": "CREATE UNIQUE INDEX versions_by_id ON versions (store, id)"} | _BY_MEMORY,
    "postgresql": {"versions_pkey": _KEY} | _BY_MEMORY,
    "mariadb": {"PRIMARY": _KEY} | _BY_MEMORY,
}
_NAMES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'versions'",
    "postgresql": "SELECT indexname FROM pg_catalog.pg_indexes"
    " WHERE schemaname = current_schema() AND tablename = 'versions'",
    "mariadb": "SELECT CAST(index_name AS BINARY) FROM information_schema.statistics"
    " WHERE table_schema = DATABASE() AND table_name = 'versions'",
}


def examine(connection: Connection, schema: Schema) -> Iterator[Finding]:
    """Check the database and yield a finding for each violated rule.

    The rules concern the schema, the indexes, rows that belong to no store, texts that belong to no version, and times
    of stores. If the schema is wrong, only this is reported.
    """
    if (wrong := _schema_finding(connection, schema)) is not None:
        yield wrong
        return
    yield from (found("index_missing", None, name) for name in _missing_indexes(connection, schema))
    for table in TABLES_OF_STORES:
        left = f"FROM {table} WHERE store NOT IN ({_LIVING}){NOT_NUMBERING.get(table, '')}"
        for row in connection.rows(f"SELECT store, count(*) {left} GROUP BY store LIMIT {_MOST}"):
            store, count = cast("tuple[int, int]", row)
            yield found("rows_left", None, f"{store} ({count} rows of {table})")
    rows = connection.rows(
        f"SELECT s.id, v.id {_ORPHANS.replace('FROM versions v', 'FROM versions v JOIN stores s ON s.no = v.store')}"
        f" LIMIT {_MOST}"
    )
    yield from (found("text_left", str(store), str(version)) for store, version in rows)
    yield from (found("revision_wrong", str(row[0]), "its time") for row in connection.rows(_BEHIND))
    yield from (found("time_wrong", str(row[1]), "the memory store itself") for row in connection.rows(_WITHOUT_TIME))


def _schema_finding(connection: Connection, schema: Schema) -> Finding | None:
    try:
        if schema.is_current(connection):
            return None
        done = schema.version(connection)
    except ForeignSchema:
        return found("schema_foreign")
    except UnknownSchema:
        return found("schema_new")
    except Damaged as error:
        return found("unreadable", None, str(error))
    if not done:
        return found("unreadable", None, "the database is empty; everything in it was lost")
    return found("schema_old", None, f"{done} of {schema.newest}")


def _missing_indexes(connection: Connection, schema: Schema) -> list[str]:
    there = {str(row[0]) for row in connection.rows(_NAMES[schema.dialect])}
    return [name for name in _INDEXES[schema.dialect] if name not in there]


def repair_times(connection: Connection) -> None:
    """Repair unreadable creation times of stores: use the time in the id of the store. The caller commits."""
    for number, store_id in connection.rows(_WITHOUT_TIME):
        at = time_in_id(str(store_id))
        if at is not None and at < HIGHEST_COUNTER:
            connection.run("UPDATE stores SET created_at = ? WHERE no = ?", (at, number))


def repair_indexes(connection: Connection, schema: Schema) -> None:
    """Create missing indexes. Creates none if two versions of a store have the same id. The caller commits."""
    for name in _missing_indexes(connection, schema):
        if not connection.rows("SELECT 1 FROM versions GROUP BY store, id HAVING count(*) > 1 LIMIT 1"):
            connection.run(_INDEXES[schema.dialect][name])
