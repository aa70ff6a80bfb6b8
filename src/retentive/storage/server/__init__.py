"""Database server backend, with one `Dialect` for PostgreSQL and one for MariaDB.

`postgresql.open_postgresql` and `mariadb.open_mariadb` are not imported here, since they import their drivers.
"""

from retentive.storage.server.backend import ServerBackend
from retentive.storage.server.dialect import Dialect

__all__ = ["Dialect", "ServerBackend"]
