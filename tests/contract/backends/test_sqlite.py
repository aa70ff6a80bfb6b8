"""SQLite passes the shipped suite, with a file and in memory."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import retentive
from retentive.errors import Damaged
from retentive.storage.contract import Backend, Change, Clock, NewId, Snapshot
from retentive.storage.sqlite.backend import SqliteBackend
from retentive.testing.backend_suite import BackendSuite


class TestSqlite(BackendSuite):
    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return SqliteBackend(str(place / "memory.db"), clock=clock, new_id=new_id)


class TestSqliteInMemory(BackendSuite):
    lasting = False

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return SqliteBackend(None, clock=clock, new_id=new_id)


A, B = "/memories/a", "/memories/b"
STATEMENTS = {
    "create": 6,
    "view": 1,
    "str_replace": 6,
    "rename": 7,
    "delete": 6,
}
"""Statements of the commands below, with BEGIN and COMMIT."""


def test_a_command_needs_few_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view is one statement without a transaction. A change reads the store and the memory together."""
    statements, usual = list[str](), sqlite3.connect

    def connect(*arguments: object, **options: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = usual(*arguments, **options)  # type: ignore[call-overload]
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect)
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened:
        store, found = opened.store(), dict[str, int]()
        store.execute({"command": "create", "path": "/memories/d/0", "file_text": "warm\n"})
        store.execute({"command": "view", "path": "/memories/d/0"})
        for command in (
            {"command": "create", "path": "/memories/d/a", "file_text": "one\n"},
            {"command": "view", "path": "/memories/d/a"},
            {"command": "str_replace", "path": "/memories/d/a", "old_str": "one", "new_str": "two"},
            {"command": "rename", "old_path": "/memories/d/a", "new_path": "/memories/d/b"},
            {"command": "delete", "path": "/memories/d/b"},
        ):
            statements.clear()
            assert not store.execute(command).is_error
            found[command["command"]] = len(statements)
    assert found == STATEMENTS


def test_a_read_is_repeated_if_the_store_changed_after_its_first_statement(tmp_path: Path) -> None:
    """What a read returns is one state, though its transaction begins after the first statement only."""
    name = str(tmp_path / "memory.db")
    backend, other = SqliteBackend(name), SqliteBackend(name)
    store = backend.create_store(key="tested", name="").id
    backend.write(store, lambda tx: tx.record([Change(None, A, b"1"), Change(None, B, b"2")], None))
    runs = 0

    def work(snapshot: Snapshot) -> tuple[bool, list[str]]:
        nonlocal runs
        runs += 1
        snapshot.expect(A)
        if runs == 1:
            other.write(store, lambda tx: tx.record([Change(tx.get(A).memory, None)], None))
        return snapshot.get(A).exists, [memory.path for memory in snapshot.memories("/memories")]

    assert backend.read(store, work) == (False, [B])
    assert runs == 2
    runs = 1
    assert backend.read(store, work) == (False, [B])
    assert runs == 2, "nothing changed, so the read ran once"
    backend.close()
    other.close()


def test_an_expected_text_that_is_damaged_is_reported_by_get(tmp_path: Path) -> None:
    """The settings can be read before, and a deletion does not need the text."""
    backend = SqliteBackend(str(tmp_path / "memory.db"))
    store = backend.create_store(key="tested", name="").id
    backend.write(store, lambda tx: tx.record([Change(None, A, b"1")], None))
    backend.transact(lambda connection: connection.run("UPDATE versions SET text = ?", (b"2",)))

    def work(snapshot: Snapshot) -> None:
        snapshot.expect(A)
        assert snapshot.settings is None
        with pytest.raises(Damaged):
            snapshot.get(A)

    backend.read(store, work)
    backend.write(store, work)
    backend.close()
