"""Numbers of the versions in a database. Each new version gets a higher number than all versions before it.

The database also stores a number `synced`. All versions up to this number are durable in the files. The files of later
versions may still have to be written.
"""

from __future__ import annotations

from collections import defaultdict
from typing import cast

from retentive.storage.sql.connection import Connection


def newest_number(connection: Connection) -> int:
    """Return the number of the newest version, or 0 if there are no versions."""
    return cast("int | None", connection.rows("SELECT max(seq) FROM versions")[0][0]) or 0


def synced_number(connection: Connection) -> int:
    """Return the number `synced`: all versions up to this number are durable in the files."""
    return cast("int", connection.rows("SELECT seq FROM synced")[0][0])


def are_synced(connection: Connection, store: int, newest: str) -> bool:
    """Return True if the version `newest` of a store and all earlier versions are durable in the files."""
    later = "SELECT 1 FROM versions WHERE store = ? AND id = ? AND seq > (SELECT seq FROM synced)"
    return not connection.rows(later, (store, newest))


def lower_synced(connection: Connection) -> None:
    """Lower the number `synced` to the number of the newest version if `synced` is higher.

    All versions up to `synced` count as durable in the files. If `synced` stayed higher, versions that are added later
    would wrongly count as durable.
    """
    newest = "(SELECT coalesce(max(seq), 0) FROM versions)"
    connection.run(f"UPDATE synced SET seq = {newest} WHERE seq > {newest}")


def keep_numbering(connection: Connection) -> None:
    """Prevent SQLite from reusing the numbers of versions that are deleted.

    SQLite would reuse the highest number after its row is deleted. Call this function before versions are deleted. It
    gives the highest number to a placeholder row, which belongs to no store and is never deleted.
    """
    connection.run("UPDATE versions SET seq = (SELECT max(seq) + 1 FROM versions) WHERE store = 0")
    connection.run(
        "INSERT INTO versions (store, id, memory, operation, path, created_at, revision)"
        " SELECT 0, 'numbering', '', 'deleted', '', 0, 0 WHERE NOT EXISTS (SELECT 1 FROM versions WHERE store = 0)"
    )


def paths_changed_since(connection: Connection, seq: int) -> dict[str, set[str]]:
    """Return the paths of changed memories by store id.

    A memory is changed if a version with a number above `seq` wrote, deleted or renamed it.
    """
    paths: dict[str, set[str]] = defaultdict(set)
    found = connection.rows(
        "SELECT s.id, v.path, (SELECT p.path FROM versions p WHERE p.store = v.store AND p.memory = v.memory"
        " AND p.id < v.id ORDER BY p.id DESC LIMIT 1)"
        " FROM versions v JOIN stores s ON s.no = v.store WHERE v.seq > ?",
        (seq,),
    )
    for store_id, path, path_before in found:
        paths[str(store_id)] |= {str(one) for one in (path, path_before) if one is not None}
    return paths
