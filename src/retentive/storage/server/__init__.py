"""Memory stores in a database server: one backend, and a `Dialect` each for PostgreSQL and MariaDB.

`postgresql.open_postgresql` and `mariadb.open_mariadb` import their drivers, so they are not imported here.
"""

from retentive.storage.server.backend import ServerBackend
from retentive.storage.server.dialect import Dialect

__all__ = ["Dialect", "ServerBackend"]
