"""Format of a SQLite file: refuses files of other applications, of newer schemas, and databases that were lost.

The header of the file contains the application id of retentive and the schema version. They are checked before the file
is changed, and before other files are created next to it. Even setting the journal mode would change the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing

from retentive.errors import Damaged
from retentive.storage.findings import Finding, found
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.schema import Schema
from retentive.storage.sqlite.connection import IMMUTABLE, READ_ONLY, SqliteConnection
from retentive.storage.sqlite.log_damage import HEADER_BYTES, LOG_SUFFIX
from retentive.storage.sqlite.writer import RESERVE_SUFFIX

SQLITE = Schema("sqlite")
NEW_SUFFIX = "-new"  # ending of an empty file that exists while the tables of a new database are created
_MOST_FINDINGS = 100
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


def check_format(path: str) -> None:
    """Raise `UnknownSchema` if the file at `path` belongs to another application or has a newer schema.

    Raise `Damaged` if the file was a database of memory stores and is empty now. A missing or new file is accepted.
    """
    if _is_lost(path) and _is_lost(path):  # another process may have created it between two statements
        raise Damaged(
            "the database is empty, although it was in use: its file, or its write-ahead log with the ending -wal, was"
            " emptied or left behind; put both files back or restore a backup (to begin anew, delete both)"
        )


def _is_lost(path: str) -> bool:
    """Return whether the file at `path` is empty or has no tables, although nobody is creating it."""
    if not size_of(path):
        has_log = size_of(path + LOG_SUFFIX) > HEADER_BYTES
        was_in_use = has_log or (os.path.exists(path) and size_of(path + RESERVE_SUFFIX) > 0)
        return was_in_use and not os.path.exists(path + NEW_SUFFIX)
    # The header is read through SQLite and not by opening the file, because closing a descriptor of the file releases
    # the locks that this process holds on it. Only a transaction that was interrupted needs a connection that writes.
    is_interrupted, has_log = size_of(path + "-journal") > 0, size_of(path + LOG_SUFFIX) > 0
    mode = None if is_interrupted else READ_ONLY if has_log else IMMUTABLE
    with closing(SqliteConnection(path, mode=mode)) as connection:
        return not SQLITE.is_current(connection) and not os.path.exists(path + NEW_SUFFIX)


def integrity(connection: Connection, *, quick: bool = False) -> Iterator[Finding]:
    """Run SQLite's integrity check of pages, rows and indexes, and yield its findings.

    With `quick`, rows and indexes are not compared.
    """
    try:
        rows = connection.rows(f"PRAGMA {'quick' if quick else 'integrity'}_check({_MOST_FINDINGS})")
    except Damaged as error:  # a full disk or a missing permission is no damage
        yield found("file_damaged", None, str(error))
        return
    for line in (line for row in rows for line in str(row[0]).splitlines()[:_MOST_FINDINGS] if line != "ok"):
        yield found("file_damaged", None, _UNPRINTABLE.sub("?", line))


def size_of(path: str) -> int:
    """Return the size of a file, or 0 if there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
