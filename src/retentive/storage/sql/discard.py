"""Deletion of the data of a finding. No memory store uses this data. A copy of the rows is saved first."""

from __future__ import annotations

from retentive.errors import InvalidInput
from retentive.storage.capabilities import Keep
from retentive.storage.findings import Finding
from retentive.storage.sql.connection import Connection, Value
from retentive.storage.sql.schema import NOT_NUMBERING, TABLES_OF_STORES
from retentive.storage.sql.snapshot import select_head
from retentive.storage.sql.versions import VERSION

_ROWS = {
    "memories": "store, path, id, version, text_of, size_bytes, sha256, created_at, updated_at, seal, mark",
    "versions": f"store, {VERSION}, text_of, text",
    "records": "store, kind, name, value",
}


def discard(connection: Connection, finding: Finding, keep: Keep, *, lock: str) -> None:
    """Pass the rows of a finding to `keep`, then delete the rows or clear their columns. The caller commits.

    `keep` saves a copy. `lock` is the SQL clause that locks the row of the store. Raises `InvalidInput` if the data is
    in use.
    """
    if finding.code == "rows_left":
        number = int(finding.name.rpartition("/")[2])
        if connection.rows("SELECT 1 FROM stores WHERE no = ? AND erased_at IS NULL", (number,)):
            raise InvalidInput(
                f"{finding.name} cannot be discarded: its rows now belong to a memory store; run the check again"
            )
        for table in TABLES_OF_STORES:
            where = "store = ?" + NOT_NUMBERING.get(table, "")
            _save(connection, table, where, (number,), keep)
            connection.run(f"DELETE FROM {table} WHERE {where}", (number,))
        return
    version_id = finding.name.rpartition("/")[2]
    store = select_head(connection, str(finding.store_id), lock=lock).no
    if finding.code == "redaction_left" and connection.rows(
        "SELECT 1 FROM memories WHERE store = ? AND (version = ? OR text_of = ?)", (store, version_id, version_id)
    ):
        raise InvalidInput(f"version {version_id} cannot be discarded, because a memory uses its text")
    _save(connection, "versions", "store = ? AND id = ?", (store, version_id), keep)
    if finding.code == "redaction_left":
        connection.run(
            "UPDATE versions SET path = '', size_bytes = NULL, sha256 = NULL, seal = NULL, text_of = NULL,"
            " provenance = NULL WHERE store = ? AND id = ? AND redacted_at IS NOT NULL",
            (store, version_id),
        )
    others = "SELECT 1 FROM versions WHERE store = ? AND text_of = ?"
    if not connection.rows(others, (store, version_id)):
        connection.run("UPDATE versions SET text = NULL WHERE store = ? AND id = ?", (store, version_id))


def _save(connection: Connection, table: str, where: str, values: tuple[Value, ...], keep: Keep) -> None:
    columns = _ROWS[table].split(", ")
    for row in connection.rows(f"SELECT {_ROWS[table]} FROM {table} WHERE {where}", values):
        keep(table, dict(zip(columns, row, strict=True)))
