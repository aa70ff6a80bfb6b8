"""SQL statements that SQLite, PostgreSQL and MariaDB share.

Each database has its own small `Connection` class and its own `Schema`. The backends in `storage.sqlite` and
`storage.server` handle transactions, locks and retries.
"""

from retentive.storage.sql.connection import Connection
from retentive.storage.sql.schema import Schema
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.storage.sql.transaction import SqlTransaction

__all__ = ["Connection", "Schema", "SqlSnapshot", "SqlTransaction"]
