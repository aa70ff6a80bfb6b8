"""Migrations of the schema: numbered SQL files. `sql/schema.py` applies each migration once.

A word in braces, such as `{int}`, is replaced by the word of the SQL dialect. A line with the comment `only sqlite` is
used for SQLite only, and a line with the comment `except sqlite` is used for all dialects except SQLite. The names of
other dialects work in the same way.
"""

from __future__ import annotations

import re
from functools import cache

SCRIPTS = ("0001_memories.sql",)
NEWEST = int(SCRIPTS[-1].partition("_")[0])
"""Number of the last migration, which is the newest version of the schema."""
_MARKED = re.compile(r"-- (only|except) (\w+)")
_TEXT = 'TEXT COLLATE "C"'
_INNODB = "ENGINE = InnoDB ROW_FORMAT = DYNAMIC"
_WORDS = {
    "sqlite": {
        "int": "INTEGER", "row_number": "INTEGER PRIMARY KEY", "id": "TEXT", "word": "TEXT", "name": "TEXT",
        "text": "TEXT", "bytes": "BLOB", "if_new": "", "of_stores": "", "by_path": "WITHOUT ROWID", "end": "",
    },
    "postgresql": {
        "int": "BIGINT", "row_number": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "id": _TEXT, "word": _TEXT,
        "name": _TEXT, "text": "TEXT", "bytes": "BYTEA", "if_new": "", "by_path": "", "end": "",
        "of_stores": "WITH (fillfactor = 50)",  # free space in each page, because every write updates a row
    },
    # VARBINARY compares as bytes, without padding. A path of 1,034 bytes fits into an index key; as utf8mb4, the key
    # would need four times as many bytes. IF NOT EXISTS: MariaDB commits at every CREATE, so an interrupted migration
    # is repeated.
    "mariadb": {
        "int": "BIGINT", "row_number": "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY", "id": "VARBINARY(64)",
        "word": "VARBINARY(200)", "name": "VARBINARY(1100)", "bytes": "LONGBLOB",
        "text": "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "if_new": "IF NOT EXISTS ", "of_stores": _INNODB, "by_path": _INNODB, "end": _INNODB,
    },
}  # fmt: skip
_BY_STORE = {"postgresql": "PARTITION BY HASH (store)", "mariadb": "PARTITION BY HASH (store) PARTITIONS {}"}


@cache
def migrations(dialect: str) -> list[tuple[int, str]]:
    """Return the number and the SQL text of each migration of a dialect, in order."""
    return [(int(name.split("_", 1)[0]), _lines_for(dialect, _script(name))) for name in SCRIPTS]


def _script(name: str) -> str:
    from pkgutil import get_data  # noqa: PLC0415 - only new databases need the scripts; importlib.resources is slower

    data = get_data(__name__, name)
    assert data is not None
    return data.decode()


def _lines_for(dialect: str, script: str) -> str:
    marks = [(line, _MARKED.search(line)) for line in script.splitlines()]
    return "\n".join(line for line, mark in marks if mark is None or (mark[1] == "only") == (mark[2] == dialect))


def statements(script: str, dialect: str, partitions: int) -> list[str]:
    """Return the statements of a migration. `partitions` is the number of partitions of each table; 0 means none."""
    text = "\n".join(line.split("--", 1)[0].rstrip() for line in script.splitlines())
    by_store = _BY_STORE[dialect].format(partitions) if partitions else ""
    text = text.format(**_WORDS[dialect], by_store=by_store)
    found = [statement.strip() for statement in text.split(";") if statement.strip()]
    if not (partitions and dialect == "postgresql"):
        return found
    return found + [
        f"CREATE TABLE {table}_{number} PARTITION OF {table} FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
        for table in ("memories", "versions", "records")
        if f"CREATE TABLE {table} " in text
        for number in range(partitions)
    ]
