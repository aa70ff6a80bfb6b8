"""The interface between the backend and each kind of database server: connections, and errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import ClassVar, Protocol

from retentive.errors import Unavailable
from retentive.storage.server.urls import ServerOptions
from retentive.storage.sql.connection import Connection


class ConnectionLost(Unavailable):
    """The connection is gone, or does not answer. An open transaction was not committed."""


class DeadlineExceeded(Unavailable):
    """The time for a command ended while others held the store."""


class SerializationConflict(Exception):
    """The server rolled this transaction back because of another one. Run it again."""


class ServerConnection(Connection, Protocol):
    """A connection to a server. It is in no transaction, or in one begun by `begin_*`."""

    def begin_write(self) -> None:
        """Start a transaction whose statements see what was committed before each of them, or before its first read."""

    def begin_read(self) -> None:
        """Start a transaction that sees one state."""

    def commit(self) -> None:
        """Commit. `ConnectionLost`: nobody knows whether it did; any other error: it did not."""

    def roll_back(self) -> None:
        """End the transaction, if there is one, as if it had never been. Never raises."""

    def close(self) -> None:
        """Close it."""

    @property
    def usable(self) -> bool:
        """False after a failure that ended it."""


class Dialect(ABC):
    """The differences between servers. `timeout_s` is for one command."""

    name: ClassVar[str]
    lock = " FOR UPDATE"

    def __init__(self, options: ServerOptions) -> None:
        self.timeout_s = options.timeout_s
        self.connections = options.connections

    @abstractmethod
    def connect(self) -> ServerConnection:
        """A new connection. Raises `Unavailable`, `PermissionDenied`, `InvalidInput`."""

    @abstractmethod
    def schema_locked(self, connection: ServerConnection) -> AbstractContextManager[None]:
        """While inside, be the only one to change the schema. It ends after the commit."""
