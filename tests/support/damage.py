"""Locations with a history, and functions that damage their storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import retentive
from retentive import MemoryStore, Retentive
from retentive.doctor import Finding, check_location
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend
from retentive.storage.sealed.backend import SealedBackend
from retentive.storage.server.backend import ServerBackend
from retentive.storage.sql.connection import Row, Value
from retentive.storage.sqlite.backend import SqliteBackend
from support.commands import create, delete, edit, rename

from .model import Model
from .places import KEYS, SEALED
from .walk import Walk

A, C, E = "/memories/a.md", "/memories/c.md", "/memories/d/e.md"


def fill(store: MemoryStore) -> None:
    """Fill a store with a memory of two versions, renamed, nested and deleted memories, and a redacted version."""
    commands: list[dict[str, Any]] = [
        create(A, "one\n"),
        edit("one", "two", A),
        create("/memories/b.md", "bee\n"),
        rename("/memories/b.md", C),
        create(E, "deep é\n"),
        create("/memories/x.md", "gone\n"),
        edit("gone", "going", "/memories/x.md"),
        delete("/memories/x.md"),
    ]
    for command in commands:
        reply = store.execute(command, actor="user:ann", tool_use_id=f"t{len(str(command))}")
        assert not reply.is_error, reply
    store.history.redact([list(store.versions("/memories/x.md"))[-1].id])


def walked(store: MemoryStore, seed: int, steps: int) -> None:
    """Run a random walk of commands in a store."""
    model = Model()
    way = Walk(seed, model)
    for _ in range(steps):
        command = way.command()
        model.execute(command)
        store.execute(command)


def keys_of(backend: str) -> Any:
    return KEYS if backend in SEALED else None


def look(place: str, **options: Any) -> list[Finding]:
    return list(check_location(place, **options))


def codes(findings: Sequence[Finding], *, severity: str = "problem") -> set[str]:
    return {finding.code for finding in findings if finding.severity == severity}


def inner(place: Retentive) -> Backend:
    backend = place.backend
    return backend.inner if isinstance(backend, SealedBackend) else backend


def sql(place: str, statement: str, values: Sequence[Value] = ()) -> list[Row]:
    """Run a statement in the database of a location, and commit it."""
    with retentive.open(place) as found:
        backend = found.backend
        if isinstance(backend, ServerBackend):
            connection = backend.connect()
            try:
                connection.begin(writes=True)
                rows = _run(connection, statement, values)
                connection.commit()
            finally:
                connection.close()
            return rows
        sqlite = below_encryption(backend)
        assert isinstance(sqlite, SqliteBackend)
        return sqlite.transact(lambda connection: _run(connection, statement, values))


def _run(connection: Any, statement: str, values: Sequence[Value]) -> list[Row]:
    if statement.startswith("SELECT"):
        rows: list[Row] = connection.rows(statement, values)
        return rows
    connection.run(statement, values)
    return []
