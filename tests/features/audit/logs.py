"""Direct changes to audit logs, as made by a person who can write to the database file, and a backend that can fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from retentive.audit.chain import ENTRY, key_of
from retentive.storage.contract import Snapshot, Transaction
from retentive.storage.sqlite.backend import SqliteBackend

T = TypeVar("T")

_TABLE = "records"  # table of the records, with the columns store, kind, name and value


def database(directory: Path) -> Path:
    """Return the SQLite file of the only location below a directory."""
    (found,) = [path for path in directory.rglob("*.db") if path.read_bytes()[:6] == b"SQLite"]
    return found


class Log:
    """The records of an audit log in a database file, by kind and key. Every change is written at once."""

    def __init__(self, directory: Path) -> None:
        self._path = database(directory)

    def records(self, kind: str = ENTRY) -> dict[str, str]:
        """Return all records of a kind, in the order of their keys."""
        with closing(sqlite3.connect(self._path)) as connection:
            found = connection.execute(f"SELECT name, value FROM {_TABLE} WHERE kind = ? ORDER BY name", (kind,))
            return dict(found.fetchall())

    def put(self, records: Mapping[str, str], kind: str = ENTRY) -> None:
        """Replace all records of a kind."""
        with closing(sqlite3.connect(self._path)) as connection, connection:
            store = connection.execute("SELECT no FROM stores").fetchone()[0]
            connection.execute(f"DELETE FROM {_TABLE} WHERE kind = ?", (kind,))
            connection.executemany(
                f"INSERT INTO {_TABLE} (store, kind, name, value) VALUES (?, ?, ?, ?)",
                [(store, kind, key, value) for key, value in records.items()],
            )

    def cut_after(self, seq: int) -> None:
        """Remove all later entries, like a person who wants to hide these entries."""
        self.put({key: value for key, value in self.records().items() if key <= key_of(seq)})


class Faulty(SqliteBackend):
    """A backend whose transactions and reads end with a call of a function, which may raise an error."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.at_read: Callable[[Snapshot], None] = lambda _: None
        self.at_commit: Callable[[Transaction, bool], None] = lambda *_: None

    def read(self, store_id: str, work: Callable[[Snapshot], T], **options: Any) -> T:
        def failing(snapshot: Snapshot) -> T:
            result = work(snapshot)
            self.at_read(snapshot)
            return result

        return super().read(store_id, failing, **options)

    def write(self, store_id: str, work: Callable[[Transaction], T], **options: Any) -> T:
        def failing(tx: Transaction) -> T:
            result = work(tx)
            self.at_commit(tx, bool(options.get("may_use_reserve")))
            return result

        return super().write(store_id, failing, **options)


def once(error: Exception) -> Callable[..., None]:
    """Return a function that raises an error at its first call."""
    errors = [error]

    def raises(*_: object) -> None:
        if errors:
            raise errors.pop()

    return raises
