"""Checks and repairs of memory stores in SQL: orphaned rows, wrong counters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import cast

from retentive.errors import Damaged, NotFound, UnknownSchema
from retentive.storage.findings import Finding, found
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.schema import TABLES_OF_STORES, ForeignSchema, Schema
from retentive.storage.sql.snapshot import Head, select_head

_MOST = 1_000  # limit for the findings of each code
_LIVING = "SELECT no FROM stores WHERE erased_at IS NULL"
_ORPHANS = (
    "FROM versions v WHERE v.text IS NOT NULL AND (v.text_of IS NULL OR v.text_of <> v.id) AND NOT EXISTS"
    " (SELECT 1 FROM versions r WHERE r.store = v.store AND r.memory = v.memory AND r.text_of = v.id)"
)


_HALF_REDACTED = (
    "redacted_at IS NOT NULL AND (path <> '' OR size_bytes IS NOT NULL OR sha256 IS NOT NULL OR seal IS NOT NULL OR"
    " text_of IS NOT NULL) AND NOT EXISTS"
    " (SELECT 1 FROM memories m WHERE m.store = versions.store AND m.id = versions.memory AND m.version = versions.id)"
)
_OF_ANOTHER_AGE = (  # if the newest version is right and the memory was not pruned, which `history/expiry.py` records
    "SELECT m.path, v.id, v.created_at, v.revision FROM memories m JOIN versions v ON v.store = m.store AND v.id ="
    " (SELECT min(o.id) FROM versions o WHERE o.store = m.store AND o.memory = m.id)"
    " WHERE m.store = ? AND m.created_at <> v.created_at AND v.operation = 'created' AND EXISTS"
    " (SELECT 1 FROM versions w WHERE w.store = m.store AND w.id = m.version AND w.memory = m.id AND w.path = m.path)"
    " AND NOT EXISTS"
    " (SELECT 1 FROM records r WHERE r.store = m.store AND r.kind = 'history' AND r.name = 'pruned_until')"
)
_BEHIND = (
    "SELECT s.id FROM stores s WHERE s.erased_at IS NULL AND s.last_at <"
    " (SELECT v.created_at FROM versions v WHERE v.store = s.no ORDER BY v.id DESC LIMIT 1)"
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
    """Check the schema, and find rows without a store and texts without a version."""
    if (wrong := _schema_finding(connection, schema)) is not None:
        yield wrong
        return
    yield from (found("index_missing", None, name) for name in _missing_indexes(connection, schema))
    for table in TABLES_OF_STORES:
        left = f"FROM {table} WHERE store <> 0 AND store NOT IN ({_LIVING})"
        count, stores = cast("tuple[int, int]", connection.rows(f"SELECT count(*), count(DISTINCT store) {left}")[0])
        if count:
            yield found("rows_left", None, f"{count} rows of {table}, of {stores} stores that are not there")
    rows = connection.rows(
        f"SELECT s.id, v.id {_ORPHANS.replace('FROM versions v', 'FROM versions v JOIN stores s ON s.no = v.store')}"
        f" LIMIT {_MOST}"
    )
    yield from (found("text_left", str(store), str(version)) for store, version in rows)
    yield from (found("revision_wrong", str(row[0]), "its time") for row in connection.rows(_BEHIND))


def _schema_finding(connection: Connection, schema: Schema) -> Finding | None:
    """Finding if the schema is not the current one, otherwise None."""
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


def repair_indexes(connection: Connection, schema: Schema) -> None:
    """Create missing indexes, unless an id occurs twice. The caller commits."""
    for name in _missing_indexes(connection, schema):
        if not connection.rows("SELECT 1 FROM versions GROUP BY store, id HAVING count(*) > 1 LIMIT 1"):
            connection.run(_INDEXES[schema.dialect][name])


def remove_orphaned_rows(connection: Connection) -> None:
    """Delete rows without a store. The caller commits."""
    every = " UNION ".join(f"SELECT store FROM {table}" for table in TABLES_OF_STORES)
    # One statement sees one state, in which a store that is being created appears together with its rows.
    found = connection.rows(f"SELECT store FROM ({every}) AS named WHERE store <> 0 AND store NOT IN ({_LIVING})")
    for table in TABLES_OF_STORES if found else ():
        connection.run_many(f"DELETE FROM {table} WHERE store = ?", found)


def repair_store(connection: Connection, store_id: str, *, lock: str) -> None:
    """Recompute counters, times and ages of a store from its rows, complete redactions, and remove unreferenced texts.

    The caller commits.
    """
    with suppress(NotFound):  # the store was erased during the repair
        head = select_head(connection, store_id, lock=lock)
        _repair_counts(connection, head)
        _end_redactions(connection, head.no)
        _remove_orphan_texts(connection, head.no)
        _repair_ages(connection, head.no)


def _repair_counts(connection: Connection, head: Head) -> None:
    rows = connection.rows("SELECT size_bytes FROM memories WHERE store = ?", (head.no,))
    memories, size_bytes = len(rows), sum(int(row[0] or 0) for row in rows)  # the type of sum() differs
    newest = "SELECT coalesce(max(revision), 0), coalesce(max(created_at), 0) FROM versions WHERE store = ?"
    revision, last_at = (int(each or 0) for each in connection.rows(newest, (head.no,))[0])
    connection.run(
        "UPDATE stores SET revision = ?, memories = ?, size_bytes = ?, last_at = ? WHERE no = ?",
        (max(revision, head.revision), memories, size_bytes, max(last_at, head.last_at), head.no),
    )


def _end_redactions(connection: Connection, store: int) -> None:
    """Blank versions marked as redacted, except newest versions of present memories. Texts are removed later."""
    half = connection.rows(f"SELECT store, id FROM versions WHERE store = ? AND {_HALF_REDACTED}", (store,))
    connection.run_many(
        "UPDATE versions SET path = '', size_bytes = NULL, sha256 = NULL, seal = NULL, text_of = NULL"
        " WHERE store = ? AND id = ?",
        half,
    )


def _remove_orphan_texts(connection: Connection, store: int) -> None:
    left = connection.rows(f"SELECT v.store, v.id {_ORPHANS} AND v.store = ?", (store,))
    connection.run_many("UPDATE versions SET text = NULL WHERE store = ? AND id = ?", left)


def _repair_ages(connection: Connection, store: int) -> None:
    """Set the creation time of each memory to that of its first version, if no earlier version is missing."""
    revisions = "SELECT count(DISTINCT revision) FROM versions WHERE store = ? AND revision <= ?"
    right = [
        (born, store, path)
        for path, version, born, revision in connection.rows(_OF_ANOTHER_AGE, (store,))
        if str(version).startswith(f"memver_{int(born or 0):014x}")  # the id and the time of the version agree
        and connection.rows(revisions, (store, revision))[0][0] == revision
    ]
    connection.run_many("UPDATE memories SET created_at = ? WHERE store = ? AND path = ?", right)
