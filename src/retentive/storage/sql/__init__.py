"""Memory stores in SQL: one set of statements for SQLite, PostgreSQL and MariaDB.

Each database has a thin `Connection` and a `Schema`; transactions, locks and retries are those of its backend, in
`storage.sqlite` and `storage.server`.
"""

from retentive.storage.sql.connection import Connection
from retentive.storage.sql.schema import Schema
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.storage.sql.transaction import SqlTransaction

__all__ = ["Connection", "Schema", "SqlSnapshot", "SqlTransaction"]
