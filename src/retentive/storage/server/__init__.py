"""Database server backend, with one `Dialect` for PostgreSQL and one for MariaDB.

This package does not import `postgresql.open_postgresql` and `mariadb.open_mariadb`, since these import their drivers.
"""

from retentive.storage.server.backend import ServerBackend
from retentive.storage.server.dialect import Dialect

__all__ = ["Dialect", "ServerBackend"]
