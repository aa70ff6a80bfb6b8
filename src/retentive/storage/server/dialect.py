"""Interface that each kind of database server implements for the backend: connections, errors and URL options."""

from __future__ import annotations

import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Protocol

from retentive.errors import InvalidInput, Unavailable
from retentive.storage.sql.connection import Connection, Row, Value
from retentive.values.unreachable import why_unreachable

MIN_TIMEOUT_S, MAX_TIMEOUT_S = 1.0, 3_600.0


class ServerConnectionLost(Unavailable):
    """The connection was lost or timed out. If this happens before the commit, nothing was committed."""


class NoServer(ServerConnectionLost):
    """No server answers at the address, as with a wrong port. At the first opening, this is not retried for long."""


class DeadlineExceeded(Unavailable):
    """The command timed out because other writers held the lock of the store."""


class SerializationConflict(Exception):
    """The transaction conflicted with a concurrent transaction and was rolled back. It can be retried."""


class ServerConnection(Connection, Protocol):
    """Connection to a database server. No transaction is open until `begin_write` or `begin_read` starts one."""

    def begin_write(self) -> None:
        """Start a write transaction.

        On PostgreSQL, each statement sees everything that was committed before the statement started. On MariaDB, all
        statements see the state at the time of the first read.
        """

    def begin_read(self) -> None:
        """Start a read-only transaction. All its statements see the same state."""

    def rows_of_all(self, queries: Sequence[tuple[str, Sequence[Value]]]) -> list[list[Row]]:
        """Run queries in order, in one round trip, and return the rows of each query."""

    def commit(self) -> None:
        """Commit. If this raises `ServerConnectionLost`, the outcome is unknown.

        After any other error, nothing was committed.
        """

    def roll_back(self) -> None:
        """Roll back the open transaction, if there is one. Never raises."""

    def close(self) -> None:
        """Close the connection."""

    @property
    def usable(self) -> bool:
        """False after a failure that ended the connection."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Limits for one process: timeout of a command in seconds, and maximum number of open connections."""

    timeout_s: float = 30.0
    connections: int = 16

    def __post_init__(self) -> None:
        if not MIN_TIMEOUT_S <= self.timeout_s <= MAX_TIMEOUT_S:
            raise InvalidInput(f"the option `timeout_s` must be {MIN_TIMEOUT_S:.0f} to {MAX_TIMEOUT_S:.0f} seconds")
        if not 1 <= self.connections <= 10_000:
            raise InvalidInput("the option `connections` must be 1 to 10000")


class Dialect(ABC):
    """Features of one kind of database server. `timeout_s` is the timeout of one command in seconds."""

    name: ClassVar[str]
    now_us: ClassVar[str]
    """SQL expression for the current time of the database server, in microseconds since 1970."""

    def __init__(self, options: ServerOptions) -> None:
        self.timeout_s = options.timeout_s
        self.connections = options.connections

    @abstractmethod
    def connect(self) -> ServerConnection:
        """Open a connection. Raises `Unavailable`, `PermissionDenied` or `InvalidInput`."""

    @abstractmethod
    def schema_locked(self, connection: ServerConnection) -> AbstractContextManager[None]:
        """Hold the lock for schema changes during the context. The caller must commit inside the context."""


def unreachable(text: str) -> ServerConnectionLost:
    """Return the exception for a failed attempt to connect, with the reason that `text` names.

    `text` is the error text of the driver. It is left out, because it contains names of hosts and users.
    """
    reason = why_unreachable(text)
    if reason is None:
        return ServerConnectionLost("the database server cannot be reached")
    return NoServer(f"the database server cannot be reached: {reason}")


def split_options(rest: str) -> tuple[str, ServerOptions, dict[str, str]]:
    """Split `rest` into the address, the options of retentive, and all other options.

    `rest` is the part of a URL after `scheme://`. Raises `InvalidInput`. The error message does not contain the URL,
    because the URL may contain a password.
    """
    address, _, query = rest.partition("?")
    try:
        given = dict(urllib.parse.parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        ours = ServerOptions(
            timeout_s=float(given.pop("timeout_s", "30")), connections=int(given.pop("connections", "16"))
        )
    except ValueError:
        raise InvalidInput(
            "options in the URL must have the form `?name=value&name=value`;"
            " `timeout_s` and `connections` must be numbers"
        ) from None
    return address, ours, given
