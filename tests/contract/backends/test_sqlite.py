"""SQLite passes the shipped suite, with a file and in memory."""

from __future__ import annotations

from pathlib import Path

from retentive.storage.contract import Backend, Clock, NewId
from retentive.storage.sqlite.backend import SqliteBackend
from retentive.testing.backend_suite import BackendSuite


class TestSqlite(BackendSuite):
    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return SqliteBackend(str(place / "memory.db"), clock=clock, new_id=new_id)


class TestSqliteInMemory(BackendSuite):
    lasting = False

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return SqliteBackend(None, clock=clock, new_id=new_id)
