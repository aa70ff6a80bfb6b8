"""Numbers of versions.

Each new version in the database gets a higher number, so the numbers show which files are written.

`synced` in the database is the highest number such that all versions up to it are durable in the files. Later versions
name the files that may still have to be written.
"""

from __future__ import annotations

from collections import defaultdict
from typing import cast

from retentive.storage.sql.connection import Connection


def newest_number(connection: Connection) -> int:
    """Number of the newest version; 0 for an empty database."""
    return cast("int | None", connection.rows("SELECT max(seq) FROM versions")[0][0]) or 0


def synced_number(connection: Connection) -> int:
    """Number of the version up to which all versions are durable in the files."""
    return cast("int", connection.rows("SELECT seq FROM synced")[0][0])


def are_synced(connection: Connection, store: int, newest: str) -> bool:
    """Return whether the versions of a store up to `newest` are durable in the files."""
    later = "SELECT 1 FROM versions WHERE store = ? AND id = ? AND seq > (SELECT seq FROM synced)"
    return not connection.rows(later, (store, newest))


def lower_synced(connection: Connection) -> None:
    """Set `synced` to the newest version if it is higher, so that no future version counts as durable."""
    newest = "(SELECT coalesce(max(seq), 0) FROM versions)"
    connection.run(f"UPDATE synced SET seq = {newest} WHERE seq > {newest}")


def keep_numbering(connection: Connection) -> None:
    """Prevent reuse of the numbers of deleted versions.

    SQLite would reuse the highest number after its row is deleted, so a placeholder row without a store reserves this
    number.
    """
    connection.run("UPDATE versions SET seq = (SELECT max(seq) + 1 FROM versions) WHERE store = 0")
    connection.run(
        "INSERT INTO versions (store, id, memory, operation, path, created_at, revision)"
        " SELECT 0, 'numbering', '', 'deleted', '', 0, 0 WHERE NOT EXISTS (SELECT 1 FROM versions WHERE store = 0)"
    )


def paths_changed_since(connection: Connection, seq: int) -> dict[str, set[str]]:
    """Paths that versions after number `seq` wrote, deleted or renamed, by store id."""
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
