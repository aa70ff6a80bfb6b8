"""Shared SQL layer: one set of statements for SQLite, PostgreSQL and MariaDB.

Each database has a small `Connection` class and a `Schema`. The backends in `storage.sqlite` and `storage.server`
handle transactions, locks and retries.
"""

from retentive.storage.sql.connection import Connection
from retentive.storage.sql.schema import Schema
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.storage.sql.transaction import SqlTransaction

__all__ = ["Connection", "Schema", "SqlSnapshot", "SqlTransaction"]
