"""The schema, as numbered files of SQL; each is applied once, in one transaction with the record that it was."""

from __future__ import annotations

from functools import cache
from importlib import resources

from commonplace.backends.sql import Connection
from commonplace.errors import InvalidInput, UnknownSchema


@cache
def migrations() -> list[tuple[int, str]]:
    """Number and SQL of every migration, in order."""
    files = [file for file in resources.files(__name__).iterdir() if file.name.endswith(".sql")]
    return sorted((int(file.name.split("_", 1)[0]), file.read_text("utf-8")) for file in files)


def current(connection: Connection) -> int:
    """The number of the newest migration applied, 0 for an empty database. Raises if the tables are of others."""
    tables = {row[0] for row in connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return 0
    if "migrations" not in tables:
        raise InvalidInput("the file is a database of something else than commonplace")
    return int(connection.rows("SELECT coalesce(max(number), 0) FROM migrations")[0][0] or 0)


def apply(connection: Connection, at: int) -> None:
    """Bring the schema up to date. The caller holds the write lock and commits."""
    done = current(connection)
    if not done:
        connection.run("CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, applied_at INTEGER)")
    for number, script in migrations():
        if number > done:
            for statement in _statements(script):
                connection.run(statement)
            connection.run("INSERT INTO migrations (number, applied_at) VALUES (?, ?)", (number, at))


def newest() -> int:
    """The number this version of commonplace knows."""
    return migrations()[-1][0]


def check(connection: Connection) -> bool:
    """Whether the schema is up to date. Raises `UnknownSchema` if it is of a newer commonplace."""
    done, known = current(connection), newest()
    if done > known:
        raise UnknownSchema(
            f"the store has schema {done}, this commonplace knows {known}: upgrade it to open the store"
        )
    return done == known


def _statements(script: str) -> list[str]:
    lines = [line.split("--", 1)[0] for line in script.splitlines()]
    return [statement.strip() for statement in "\n".join(lines).split(";") if statement.strip()]
