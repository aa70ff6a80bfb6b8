"""Connections to database servers: their interface, their errors, and the options in URLs."""

from __future__ import annotations

import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import ClassVar, NamedTuple

from retentive.errors import Damaged, InvalidInput, PermissionDenied, Refused, StoreFull, Unavailable
from retentive.storage.sql.connection import Connection
from retentive.values.unreachable import why_unreachable

MIN_TIMEOUT_S, MAX_TIMEOUT_S = 1.0, 3_600.0


class ServerConnectionLost(Unavailable):
    """The connection was lost or timed out. If this happens before the commit, nothing was committed."""


class SerializationConflict(Exception):
    """The transaction conflicted with a concurrent transaction and was rolled back. It can be retried."""


FAILURES: dict[str, Callable[[], Exception]] = {
    "conflict": partial(SerializationConflict, "a concurrent transaction changed the same rows"),
    "full": partial(StoreFull, "no space is left on the database server"),
    "too large": partial(Refused, "too_large_to_keep"),
    "lost": partial(ServerConnectionLost, "the connection to the database server was lost"),
    "damaged": partial(Unavailable, "the database server reports damaged data"),
    "no permission": partial(PermissionDenied, "the database user lacks a permission that retentive needs"),
    "wrong login": partial(
        PermissionDenied, "the database server refuses this user or password; check both in the URL"
    ),
    "no database": partial(InvalidInput, "there is no such database on the server; create it first"),
    "no table": partial(Damaged, "a table of the database is missing or damaged"),
}
"""Exceptions for the failures of a database server. The drivers map their error codes to these names."""


class ServerConnection(Connection, ABC):
    """Connection to a database server, for one thread at a time. No transaction is open until `begin` starts one.

    Statements that `run` runs are sent together with the next query or the commit, or their replies are awaited there.
    In a write transaction on PostgreSQL, each statement sees everything that was committed before the statement
    started. On MariaDB, all statements see the state at the time of the first read. In a transaction that only reads,
    all statements see the same state.
    """

    begin_write: ClassVar[str]
    begin_read: ClassVar[str]

    def __init__(self) -> None:
        self.usable = True  # False after a failure that ended the connection
        self._begun = False

    def begin(self, *, writes: bool) -> None:
        """Start a transaction."""
        self._begun = True
        self.run(self.begin_write if writes else self.begin_read)

    def commit(self) -> None:
        """Commit. If this raises `ServerConnectionLost`, the outcome is unknown.

        After any other error, nothing was committed.
        """
        self.rows("COMMIT")
        self._begun = False

    def roll_back(self) -> None:
        """Roll back the open transaction, if there is one. Never raises."""
        if self._begun and self.usable:
            self._begun = False
            with suppress(ServerConnectionLost, SerializationConflict):
                self.rows("ROLLBACK")

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


class ServerOptions(NamedTuple):
    """Limits for one process: timeout of a command in seconds, and maximum number of open connections."""

    timeout_s: float
    connections: int

    @property
    def answer_s(self) -> float:
        """Maximum time to wait for one reply: a third of the timeout, which leaves time for a retry."""
        return max(self.timeout_s / 3, 1.0)


def unreachable(text: str) -> ServerConnectionLost:
    """Return the exception for a failed attempt to connect, with the reason that `text` names.

    `text` is the error text of the driver. It is left out, because it contains names of hosts and users.
    """
    reason = why_unreachable(text)
    return ServerConnectionLost(f"the database server cannot be reached{f': {reason}' if reason else ''}")


def split_options(rest: str) -> tuple[str, ServerOptions, dict[str, str]]:
    """Split `rest` into the address, the options of retentive, and all other options.

    `rest` is the part of a URL after `scheme://`. Raises `InvalidInput`. The error message does not contain the URL,
    because the URL may contain a password.
    """
    address, _, query = rest.partition("?")
    try:
        given = dict(urllib.parse.parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        ours = ServerOptions(float(given.pop("timeout_s", "30")), int(given.pop("connections", "16")))
    except ValueError:
        raise InvalidInput(
            "options in the URL must have the form `?name=value&name=value`;"
            " `timeout_s` and `connections` must be numbers"
        ) from None
    if not MIN_TIMEOUT_S <= ours.timeout_s <= MAX_TIMEOUT_S:
        raise InvalidInput(f"the option `timeout_s` must be {MIN_TIMEOUT_S:.0f} to {MAX_TIMEOUT_S:.0f} seconds")
    if not 1 <= ours.connections <= 10_000:
        raise InvalidInput("the option `connections` must be 1 to 10000")
    return address, ours, given
