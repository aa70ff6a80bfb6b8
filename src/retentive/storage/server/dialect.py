"""What the backend of database servers needs of each kind of server: connections, and how it says what went wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import ClassVar, Protocol

from retentive.errors import Unavailable
from retentive.storage.server.urls import ServerOptions
from retentive.storage.sql.connection import Connection


class Lost(Unavailable):
    """The connection is gone, or answers no more. What was not committed never was."""


class Late(Unavailable):
    """The time for a command is over, and others were in the way."""


class Clash(Exception):
    """Another transaction was in the way, and this one was taken back. The same again will do."""


class ServerConnection(Connection, Protocol):
    """A connection to a server. It is in no transaction, or in one begun by `begin_*`."""

    def begin_write(self) -> None:
        """Start a transaction whose statements see what was committed before each of them, or before its first read."""

    def begin_read(self) -> None:
        """Start a transaction that sees one state."""

    def commit(self) -> None:
        """Commit. `Lost`: nobody knows whether it did; any other error: it did not."""

    def roll_back(self) -> None:
        """End the transaction, if there is one, as if it had never been. Never raises."""

    def close(self) -> None:
        """Close it."""

    @property
    def usable(self) -> bool:
        """Whether it can be used again."""


class Engine(ABC):
    """What differs between servers. `timeout_s` is that of one command."""

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
