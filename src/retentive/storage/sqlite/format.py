"""Format and integrity of a SQLite file.

The header of the file contains its format: the application id of retentive and the schema version. retentive refuses a
file that belongs to another application or has a newer schema. It checks this before it changes the file, and before it
creates other files next to it. Even setting the journal mode would change the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing

from retentive.errors import Damaged
from retentive.storage.findings import Finding, found
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.schema import SCHEMA, ForeignSchema, Schema
from retentive.storage.sqlite.connection import READ_TIMEOUT_S, SqliteConnection, connect_to_look
from retentive.storage.sqlite.log import LOG_SUFFIX, intact_bytes, size_of
from retentive.storage.sqlite.space import RESERVE_SUFFIX

_MOST_FINDINGS = 100
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
NEW_SUFFIX = "-new"  # ending of an empty file that exists while the tables of a new database are created
APPLICATION_ID = 0x52544E56  # "RTNV" in ASCII


class SqliteSchema(Schema):
    """Schema of a SQLite file. The schema version is stored in the header field `user_version`."""

    def __init__(self) -> None:
        super().__init__("sqlite")

    def _tables(self, connection: Connection) -> set[str]:
        return {str(row[0]) for row in connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def _version(self, connection: Connection, tables: set[str]) -> int:
        # Read with one statement, because another process may commit new tables between two statements.
        row = connection.rows("SELECT * FROM pragma_application_id, pragma_user_version")[0]
        application, version = (int(value or 0) for value in row)
        if application == APPLICATION_ID:
            return version
        if application or version or tables:
            raise ForeignSchema
        return 0

    def _record(self, connection: Connection, at: int) -> None:
        connection.run(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.run(f"PRAGMA user_version = {SCHEMA}")


SQLITE = SqliteSchema()


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
        was_in_use = os.path.exists(path) and size_of(path + RESERVE_SUFFIX) > 0
        return was_in_use and not os.path.exists(path + NEW_SUFFIX)
    # The header is read through SQLite and not by opening the file, because closing a descriptor of the file releases
    # the locks that this process holds on it. Only a transaction that was interrupted needs a connection that writes.
    if size_of(path + "-journal"):
        connection = SqliteConnection(path, timeout_s=READ_TIMEOUT_S)
    else:
        connection = connect_to_look(path, immutable=not size_of(path + LOG_SUFFIX))
    with closing(connection):
        return not SQLITE.is_current(connection) and not os.path.exists(path + NEW_SUFFIX)


def log_findings(path: str) -> Iterator[Finding]:
    """Yield a finding if acknowledged changes in the log of the database at `path` were lost."""
    intact = intact_bytes(path)
    if intact is not None:
        yield found("log_damaged", None, f"log (intact up to byte {intact})")


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
