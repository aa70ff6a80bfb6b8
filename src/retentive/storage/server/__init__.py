"""Backend on a database server: PostgreSQL or MariaDB. Each has its own `Dialect`.

Import `open_postgresql` and `open_mariadb` from their modules. This package does not import them, because their modules
import the drivers of the databases.
"""

from retentive.storage.server.backend import ServerBackend
from retentive.storage.server.dialect import Dialect

__all__ = ["Dialect", "ServerBackend"]
