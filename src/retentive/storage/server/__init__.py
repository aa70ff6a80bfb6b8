"""Backends on a database server: PostgreSQL and MariaDB.

This package does not import the modules of the two, because they import the drivers of the databases.
"""

from retentive.storage.server.backend import ServerBackend

__all__ = ["ServerBackend"]
