"""Plans that PostgreSQL keeps do not outlive the size of the tables that they were made for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retentive.storage.server.postgresql_wire import _FIRST_PLANS, Wire
from support import servers
from support.places import name_of

ANSWER_S = 60.0
QUERY = "SELECT b FROM x WHERE a = ?"


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[psycopg.Connection[Any]]:
    """Connection to a database with a table of one row. Reading the table costs less than using its index."""
    with closing(psycopg.connect(servers.postgresql().new_database(name_of(tmp_path)), autocommit=True)) as raw:
        raw.execute("CREATE TABLE x (a bigint PRIMARY KEY, b text) WITH (autovacuum_enabled = off)")
        raw.execute("INSERT INTO x VALUES (0, '')")
        raw.execute("ANALYZE x")
        yield raw


def plan(wire: Wire) -> str:
    """Return the plan that the server keeps for `QUERY`, as text."""
    ((name,),) = wire.ask("SELECT name FROM pg_prepared_statements WHERE statement LIKE 'SELECT b FROM x%'")
    return "\n".join(str(row[0]) for row in wire.ask(f"EXPLAIN EXECUTE {name!s}(1)"))


def test_a_plan_for_a_small_table_is_replaced_when_the_table_has_grown(raw: psycopg.Connection[Any]) -> None:
    """The server would keep the plan until the next ANALYZE."""
    wire = Wire(raw.pgconn, answer_s=ANSWER_S)
    wire.prepares = True
    for _ in range(10):
        wire.ask(QUERY, (1,))
    assert "Seq Scan" in plan(wire)
    wire.ask("INSERT INTO x SELECT each, repeat('b', 100) FROM generate_series(1, 20000) each RETURNING 1")
    assert "Seq Scan" in plan(wire)
    for _ in range(_FIRST_PLANS):
        wire.ask(QUERY, (1,))
    assert "x_pkey" in plan(wire)


def test_plans_are_discarded_in_any_transaction(raw: psycopg.Connection[Any]) -> None:
    """Also in one that only reads. A failed one stays failed, and the connection can be used afterwards."""
    wire = Wire(raw.pgconn, answer_s=ANSWER_S)
    wire.prepares = True
    wire.send("BEGIN READ ONLY")
    for _ in range(_FIRST_PLANS):
        assert wire.ask(QUERY, (1,)) == []
    wire.send("COMMIT")
    wire.sync()
    assert wire.done == b"COMMIT"
    wire.send("BEGIN")
    with pytest.raises(psycopg.errors.DivisionByZero):
        wire.ask("SELECT 1 / 0")
    for _ in range(_FIRST_PLANS):
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            wire.ask(QUERY, (1,))
    wire.send("ROLLBACK")
    wire.sync()
    assert wire.ask(QUERY, (1,)) == []


def test_plans_are_not_discarded_before_a_transaction_begins(raw: psycopg.Connection[Any]) -> None:
    """An isolation level can be set only before any other statement of the batch."""
    wire = Wire(raw.pgconn, answer_s=ANSWER_S)
    wire.prepares = True
    for _ in range(_FIRST_PLANS):
        wire.send("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        assert wire.ask(QUERY, (1,)) == []
        wire.send("COMMIT")
        wire.sync()
        assert wire.done == b"COMMIT"
