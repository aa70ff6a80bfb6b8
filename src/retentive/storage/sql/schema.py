"""Database schema: reads its version, checks the tables and upgrades them."""

from __future__ import annotations

from retentive.errors import Damaged, UnknownSchema
from retentive.storage.sql import migrations
from retentive.storage.sql.connection import Connection

TABLES_OF_STORES = ("memories", "versions", "records")
NOT_NUMBERING = {"versions": " AND (store <> 0 OR id <> 'numbering')"}
"""SQL clauses, by table, that exclude rows that belong to no store but are needed (`files/numbering.py`)."""
TABLES = frozenset({"stores", *TABLES_OF_STORES})
_VERSION_TABLE = "retentive_schema"
_TABLE_NAMES = {
    "postgresql": "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()",
    "mariadb": "SELECT CAST(table_name AS BINARY) FROM information_schema.tables WHERE table_schema = DATABASE()",
}


class OlderSchema(UnknownSchema):
    """The database has an older schema and must be migrated before it can be used."""


class ForeignSchema(UnknownSchema):
    """The database or directory belongs to another application."""

    def __init__(self, message: str = "the database belongs to another application; retentive leaves it alone") -> None:
        super().__init__(message)


def refuse_newer(version: int, newest: int) -> None:
    """Raise `UnknownSchema` if a schema `version` is higher than `newest`, the highest version that is supported."""
    if version > newest:
        raise UnknownSchema(
            f"the storage has schema {version}, but this version of retentive supports only schema {newest};"
            " upgrade retentive"
        )


class Schema:
    """Schema of the databases of one SQL dialect.

    PostgreSQL and MariaDB have a table with one row for each migration that was applied.
    """

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    @property
    def newest(self) -> int:
        """Highest schema version that this version of retentive supports."""
        return migrations.NEWEST

    def version(self, connection: Connection) -> int:
        """Return the schema version of a database. It is 0 for an empty database.

        Raises `ForeignSchema` if the tables belong to another application, and `Damaged` if tables are missing.
        """
        tables = self._tables(connection)
        done = self._version(connection, tables)
        # Another process may be creating the tables. If the version says that they exist, list the tables again.
        if done and not tables >= TABLES and (missing := TABLES - self._tables(connection)):
            raise Damaged(f"tables of the database are missing: {', '.join(sorted(missing))}")
        return done

    def is_current(self, connection: Connection) -> bool:
        """Return True if the schema is current, and False if it is older.

        Raises `UnknownSchema` if the schema is newer or belongs to another application.
        """
        done = self.version(connection)
        refuse_newer(done, self.newest)
        return done == self.newest

    def upgrade(self, connection: Connection, at: int, *, partitions: int = 0) -> list[int]:
        """Upgrade the schema, and return the number of each applied migration. The caller holds a lock and commits.

        `at` is the current time in microseconds. If the upgrade creates the tables, each table except `stores` is split
        into `partitions` parts, by the hash of the store number. 0 means no partitions.
        """
        done = self.version(connection)
        refuse_newer(done, self.newest)
        self._prepare(connection)
        applied: list[int] = []
        for number, script in migrations.migrations(self.dialect):
            if number > done:
                for statement in migrations.statements(script, self.dialect, partitions):
                    connection.run(statement)
                self._record(connection, number, at)
                applied.append(number)
        return applied

    # -- where the version is kept ---------------------------------------------------------------------------

    def _tables(self, connection: Connection) -> set[str]:
        return {str(row[0]) for row in connection.rows(_TABLE_NAMES[self.dialect])}

    def _version(self, connection: Connection, tables: set[str]) -> int:
        if _VERSION_TABLE in tables:
            return int(connection.rows(f"SELECT coalesce(max(number), 0) FROM {_VERSION_TABLE}")[0][0] or 0)
        if tables & TABLES:
            raise ForeignSchema
        return 0

    def _prepare(self, connection: Connection) -> None:
        connection.run(f"CREATE TABLE IF NOT EXISTS {_VERSION_TABLE} (number INTEGER PRIMARY KEY, applied_at BIGINT)")

    def _record(self, connection: Connection, number: int, at: int) -> None:
        connection.run(f"INSERT INTO {_VERSION_TABLE} (number, applied_at) VALUES (?, ?)", (number, at))
