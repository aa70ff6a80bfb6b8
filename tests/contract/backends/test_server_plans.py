"""Plans that PostgreSQL makes do not outlive the size of the tables that they were made for."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from retentive.storage.server.dialect import ServerOptions
from retentive.storage.server.postgresql import PostgresqlDialect
from support import servers
from support.places import name_of

QUERY = "SELECT b FROM x WHERE a = ?"


def test_a_plan_for_a_small_table_is_not_kept(tmp_path: Path) -> None:
    """The server would keep it until the next ANALYZE, however large the table is by then."""
    dialect = PostgresqlDialect(servers.postgresql().new_database(name_of(tmp_path)), ServerOptions())
    with closing(dialect.connect()) as connection:
        connection.run("CREATE TABLE x (a bigint PRIMARY KEY, b text) WITH (autovacuum_enabled = off)")
        connection.run("INSERT INTO x VALUES (0, '')")
        connection.rows("ANALYZE x")
        for _ in range(20):
            assert connection.rows(QUERY, (0,)) == [("",)]
        connection.rows("INSERT INTO x SELECT n, repeat('b', 100) FROM generate_series(1, 20000) n RETURNING 1")
        ((name,),) = connection.rows("SELECT name FROM pg_prepared_statements WHERE statement LIKE 'SELECT b FROM x%'")
        assert "x_pkey" in str(connection.rows(f"EXPLAIN EXECUTE {name!s}(1)"))
