"""Database schema: creates the tables, and refuses databases of other applications and of newer versions.

The tables are in `schema.sql`. A word in braces, such as `{int}`, is replaced by the word of the SQL dialect. A line
with the comment `only sqlite` is used for SQLite only, and a line with the comment `except sqlite` for the others.
"""

from __future__ import annotations

import re
from pkgutil import get_data

from retentive.errors import Damaged, UnknownSchema
from retentive.storage.sql.connection import Connection

SCHEMA = 1  # grows with each change of the tables
APPLICATION_ID = 0x52544E56  # "RTNV" in ASCII, in the header of a SQLite file
TABLES_OF_STORES = ("memories", "versions", "packs", "records")
TABLES = frozenset({"stores", *TABLES_OF_STORES})
_VERSION_TABLE = "retentive_schema"
_TABLE_NAMES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
    "postgresql": "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()",
    "mariadb": "SELECT CAST(table_name AS BINARY) FROM information_schema.tables WHERE table_schema = DATABASE()",
}
_MARKED = re.compile(r"-- (only|except) (\w+)")
_TEXT = 'TEXT COLLATE "C"'
_INNODB = "ENGINE = InnoDB ROW_FORMAT = DYNAMIC"
_WORDS = {
    "sqlite": {
        "int": "INTEGER", "row_number": "INTEGER PRIMARY KEY", "id": "TEXT", "word": "TEXT", "name": "TEXT",
        "text": "TEXT", "bytes": "BLOB", "if_new": "", "of_stores": "", "by_path": "WITHOUT ROWID", "end": "",
        "of_renamed": " WHERE text_of IS NOT NULL",
    },
    "postgresql": {
        "int": "BIGINT", "row_number": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "id": _TEXT, "word": _TEXT,
        "name": _TEXT, "text": "TEXT", "bytes": "BYTEA", "if_new": "", "by_path": "", "end": "",
        "of_renamed": " WHERE text_of IS NOT NULL",
        "of_stores": "WITH (fillfactor = 50)",  # free space in each page, because every write updates a row
    },
    # VARBINARY compares as bytes, without padding. A path of 1,034 bytes fits into an index key; as utf8mb4, the key
    # would need four times as many bytes. IF NOT EXISTS: MariaDB commits at every CREATE, so an interrupted creation
    # is repeated.
    "mariadb": {
        "int": "BIGINT", "row_number": "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY", "id": "VARBINARY(64)",
        "word": "VARBINARY(200)", "name": "VARBINARY(1100)", "bytes": "LONGBLOB",
        "text": "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "if_new": "IF NOT EXISTS ", "of_renamed": "", "of_stores": _INNODB, "by_path": _INNODB, "end": _INNODB,
    },
}  # fmt: skip


class ForeignSchema(UnknownSchema):
    """The database or directory belongs to another application."""

    def __init__(self, message: str = "the database belongs to another application; retentive leaves it alone") -> None:
        super().__init__(message)


def is_current(connection: Connection, dialect: str) -> bool:
    """Return True if the tables exist, and False if the database is empty.

    Raises `ForeignSchema` if the tables belong to another application, `UnknownSchema` if the schema is newer, and
    `Damaged` if tables are missing.
    """
    tables = _tables(connection, dialect)
    version = _version(connection, dialect, tables)
    if version > SCHEMA:
        raise UnknownSchema(
            f"the storage has schema {version}, but this version of retentive supports only schema {SCHEMA};"
            " upgrade retentive"
        )
    # Another process may be creating the tables. If the version says that they exist, list the tables again.
    if version and not tables >= TABLES and (missing := TABLES - _tables(connection, dialect)):
        raise Damaged(f"tables of the database are missing: {', '.join(sorted(missing))}")
    return version == SCHEMA


def create(connection: Connection, dialect: str) -> None:
    """Create the tables if the database is empty. The caller holds a lock and commits."""
    if not is_current(connection, dialect):  # otherwise another process created the tables
        for statement in statements(dialect):
            connection.run(statement)


def _tables(connection: Connection, dialect: str) -> set[str]:
    return {str(row[0]) for row in connection.rows(_TABLE_NAMES[dialect])}


def _version(connection: Connection, dialect: str, tables: set[str]) -> int:
    """Return the number of the schema: it is in the header of a SQLite file, or in a table."""
    application = version = 0
    if dialect == "sqlite":
        # Read with one statement, because another process may commit new tables between two statements.
        row = connection.rows("SELECT * FROM pragma_application_id, pragma_user_version")[0]
        application, version = (int(value or 0) for value in row)
        if application == APPLICATION_ID:
            return version
    elif _VERSION_TABLE in tables:
        return int(connection.rows(f"SELECT coalesce(max(number), 0) FROM {_VERSION_TABLE}")[0][0] or 0)
    if application or version or (tables if dialect == "sqlite" else tables & TABLES):
        raise ForeignSchema
    return 0


def statements(dialect: str) -> list[str]:
    """Return the statements that create the tables."""
    script = get_data(__package__, "schema.sql") or b""
    marked = [(line, _MARKED.search(line)) for line in script.decode().splitlines()]
    lines = [line for line, mark in marked if mark is None or (mark[1] == "only") == (mark[2] == dialect)]
    text = "\n".join(line.split("--", 1)[0] for line in lines).format(
        **_WORDS[dialect], schema=SCHEMA, application=APPLICATION_ID
    )
    return [statement.strip() for statement in text.split(";") if statement.strip()]
