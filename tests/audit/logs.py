"""Audit logs as somebody with the database file in hand changes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from retentive.audit.entries import KIND


def database(directory: Path) -> Path:
    """The SQLite file of the one memory below a directory."""
    (found,) = [path for path in directory.rglob("*.db") if path.read_bytes()[:6] == b"SQLite"]
    return found


class Log:
    """The records of the audit log in a database file, by key; what is assigned rests at once."""

    def __init__(self, directory: Path) -> None:
        self._path = database(directory)

    def records(self) -> dict[str, str]:
        """All of them, in the order of their keys."""
        with closing(sqlite3.connect(self._path)) as connection:
            found = connection.execute("SELECT name, value FROM records WHERE kind = ? ORDER BY name", (KIND,))
            return dict(found.fetchall())

    def put(self, records: Mapping[str, str]) -> None:
        """Replace all records."""
        with closing(sqlite3.connect(self._path)) as connection, connection:
            store = connection.execute("SELECT no FROM stores").fetchone()[0]
            connection.execute("DELETE FROM records WHERE kind = ?", (KIND,))
            connection.executemany(
                "INSERT INTO records (store, kind, name, value) VALUES (?, ?, ?, ?)",
                [(store, KIND, key, value) for key, value in records.items()],
            )
