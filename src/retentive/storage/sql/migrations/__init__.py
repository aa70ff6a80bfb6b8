"""The schema, as numbered files of SQL for each dialect; each is applied once, with the record that it was."""

from __future__ import annotations

from functools import cache
from importlib import resources

from retentive.errors import Damaged, InvalidInput, UnknownSchema
from retentive.storage.sql.connection import Connection

_RECORD = "retentive_schema"
_OURS = {"stores", "memories", "versions", "records"}
_TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
    "postgresql": "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()",
    "mariadb": "SELECT CAST(table_name AS BINARY) FROM information_schema.tables WHERE table_schema = DATABASE()",
}
_BY_STORE = {
    "sqlite": "",
    "postgresql": "PARTITION BY HASH (store)",
    "mariadb": "PARTITION BY HASH (store) PARTITIONS {}",
}


@cache
def migrations(dialect: str) -> list[tuple[int, str]]:
    """Number and SQL of every migration, in order."""
    files = [file for file in (resources.files(__name__) / dialect).iterdir() if file.name.endswith(".sql")]
    return sorted((int(file.name.split("_", 1)[0]), file.read_text("utf-8")) for file in files)


def current(connection: Connection, dialect: str) -> int:
    """The number of the newest migration applied, 0 for an empty database.

    Raises `InvalidInput` if the tables are of others, `Damaged` if some are gone.
    """
    tables = _tables(connection, dialect)
    if _RECORD not in tables:
        if tables & _OURS or (tables and dialect == "sqlite"):
            raise InvalidInput("the database belongs to something else than retentive")
        return 0
    done = int(connection.rows(f"SELECT coalesce(max(number), 0) FROM {_RECORD}")[0][0] or 0)
    # Another process may be making them: where the record says it is done, a second look finds them all.
    if done and not tables >= _OURS and (missing := _OURS - _tables(connection, dialect)):
        raise Damaged(f"tables of the database are not there: {', '.join(sorted(missing))}")
    return done


def _tables(connection: Connection, dialect: str) -> set[str]:
    return {str(row[0]) for row in connection.rows(_TABLES[dialect])}


def apply(connection: Connection, dialect: str, at: int, *, partitions: int = 0) -> list[int]:
    """Bring the schema up to date; the numbers applied. The caller holds a lock for it, and commits.

    `partitions` splits memories and versions by the hash of their store, when the tables are made.
    """
    done = current(connection, dialect)
    if not done:
        connection.run(f"CREATE TABLE IF NOT EXISTS {_RECORD} (number INTEGER PRIMARY KEY, applied_at BIGINT)")
    applied: list[int] = []
    for number, script in migrations(dialect):
        if number > done:
            for statement in _statements(script, dialect, partitions):
                connection.run(statement)
            connection.run(f"INSERT INTO {_RECORD} (number, applied_at) VALUES (?, ?)", (number, at))
            applied.append(number)
    return applied


def newest(dialect: str) -> int:
    """The number this version of retentive knows."""
    return migrations(dialect)[-1][0]


def check(connection: Connection, dialect: str) -> bool:
    """Whether the schema is up to date. Raises `UnknownSchema` if it is of a newer retentive."""
    done, known = current(connection, dialect), newest(dialect)
    if done > known:
        raise UnknownSchema(f"the store has schema {done}, this retentive knows {known}: upgrade it to open the store")
    return done == known


def _statements(script: str, dialect: str, partitions: int) -> list[str]:
    text = "\n".join(line.split("--", 1)[0] for line in script.splitlines())
    by_store = _BY_STORE[dialect].format(partitions) if partitions else ""
    text = text.replace("{by_store}", by_store)
    statements = [statement.strip() for statement in text.split(";") if statement.strip()]
    if not (partitions and dialect == "postgresql"):
        return statements
    return statements + [
        f"CREATE TABLE {table}_{number} PARTITION OF {table} FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
        for table in ("memories", "versions", "records")
        if f"CREATE TABLE {table} " in text
        for number in range(partitions)
    ]
