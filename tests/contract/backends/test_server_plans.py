"""Plans that PostgreSQL makes do not outlive the size of the tables that they were made for."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from retentive.storage.server.postgresql import PostgresqlBackend
from support import servers
from support.places import name_of

QUERY = "SELECT b FROM x WHERE a = ?"


def test_a_plan_for_a_small_table_is_replaced_when_the_table_has_grown(tmp_path: Path) -> None:
    """The server would keep it until the next ANALYZE, however large the table is by then."""
    backend = PostgresqlBackend(servers.postgresql().new_database(name_of(tmp_path)).partition("://")[2])
    with closing(backend), closing(backend.connect()) as connection:

        def plan() -> str:
            sql = "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'SELECT b FROM x%'"
            return str(connection.rows(f"EXPLAIN EXECUTE {connection.rows(sql)[0][0]!s}(1)"))

        def transactions(count: int) -> None:
            for _ in range(count):
                connection.begin(writes=False)
                assert connection.rows(QUERY, (0,)) == [("",)]
                connection.roll_back()

        connection.run("CREATE TABLE x (a bigint PRIMARY KEY, b text) WITH (autovacuum_enabled = off)")
        connection.run("INSERT INTO x VALUES (0, '')")
        connection.rows("ANALYZE x")
        transactions(15)
        assert "Seq Scan" in plan()
        connection.rows("INSERT INTO x SELECT n, repeat('b', 100) FROM generate_series(1, 20000) n")
        transactions(15)
        assert "x_pkey" in plan()
