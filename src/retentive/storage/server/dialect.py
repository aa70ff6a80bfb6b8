"""Interface between the backend and each kind of database server: connections and errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import ClassVar, Protocol

from retentive.errors import Unavailable
from retentive.storage.server.urls import ServerOptions
from retentive.storage.sql.connection import Connection


class ConnectionLost(Unavailable):
    """The connection was lost or timed out. An open transaction was not committed."""


class DeadlineExceeded(Unavailable):
    """The command timed out while other writers held the store."""


class SerializationConflict(Exception):
    """The server rolled the transaction back because of a concurrent one. Retry it."""


class ServerConnection(Connection, Protocol):
    """Connection to a server, outside a transaction or in one begun by `begin_*`."""

    def begin_write(self) -> None:
        """Start a write transaction. It sees commits up to each statement, or up to its first read."""

    def begin_read(self) -> None:
        """Start a read-only transaction on one consistent state."""

    def commit(self) -> None:
        """Commit. After `ConnectionLost` the outcome is unknown; after any other error it was not committed."""

    def roll_back(self) -> None:
        """Roll back the transaction, if any. Never raises."""

    def close(self) -> None:
        """Close the connection."""

    @property
    def usable(self) -> bool:
        """False after a failure that ended the connection."""


class Dialect(ABC):
    """Differences between servers. `timeout_s` is the timeout of one command."""

    name: ClassVar[str]

    def __init__(self, options: ServerOptions) -> None:
        self.timeout_s = options.timeout_s
        self.connections = options.connections

    @abstractmethod
    def connect(self) -> ServerConnection:
        """Open a connection. Raises `Unavailable`, `PermissionDenied`, `InvalidInput`."""

    @abstractmethod
    def schema_locked(self, connection: ServerConnection) -> AbstractContextManager[None]:
        """Hold the schema lock. Leave the context after the commit."""
