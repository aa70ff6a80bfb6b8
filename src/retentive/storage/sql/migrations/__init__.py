"""Migrations: numbered SQL files for each dialect. Each is applied once (`sql/schema.py`)."""

from __future__ import annotations

from functools import cache
from importlib import resources

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


def statements(script: str, dialect: str, partitions: int) -> list[str]:
    """Statements of a migration. `partitions` is the number of partitions by store, 0 for no partitioning."""
    text = "\n".join(line.split("--", 1)[0] for line in script.splitlines())
    by_store = _BY_STORE[dialect].format(partitions) if partitions else ""
    text = text.replace("{by_store}", by_store)
    found = [statement.strip() for statement in text.split(";") if statement.strip()]
    if not (partitions and dialect == "postgresql"):
        return found
    return found + [
        f"CREATE TABLE {table}_{number} PARTITION OF {table} FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
        for table in ("memories", "versions", "records")
        if f"CREATE TABLE {table} " in text
        for number in range(partitions)
    ]
