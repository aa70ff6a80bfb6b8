"""Backend on a database server, with everything that PostgreSQL and MariaDB have in common.

A write locks the row of its store before its first read. In a test in which writes locked the row later, 847 of 1,000
concurrent edits were lost on PostgreSQL, and 702 on Galera.

The writers of a store in one process share a queue. Their changes are committed together. The writers therefore need
only one connection and do not wait for each other's row lock.

The transaction is retried after a conflict, or if the connection is lost before the commit. If the connection is lost
during the commit, the backend does not repeat the commit at once. It first looks up whether the commit succeeded: each
commit adds a random token to the row of its store.
"""

from __future__ import annotations

import threading
import time
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from os import urandom
from typing import ClassVar, TypeVar, Unpack, cast
from weakref import WeakValueDictionary

from retentive.errors import (
    Closed,
    Damaged,
    InvalidInput,
    OutcomeUnknown,
    PermissionDenied,
    Refused,
    RetentiveError,
    StoreFull,
    Unavailable,
)
from retentive.storage import forking
from retentive.storage.backoff import pauses
from retentive.storage.contract import Clock, NewId, Transaction, WriteMode
from retentive.storage.queue import StoreJob, WriteQueue, run_batch
from retentive.storage.sql import schema
from retentive.storage.sql.backend import SqlBackend
from retentive.storage.sql.connection import Connection, Pool
from retentive.storage.sql.snapshot import SqlSnapshot, StoreHead
from retentive.values.extras import why_unreachable

T = TypeVar("T")
# The head must be read by a later statement: PostgreSQL reads a row in the state that it has after the wait for its
# lock, but the other tables in the state before the wait.
_LOCK = "SELECT no FROM stores WHERE id = ? AND erased_at IS NULL FOR UPDATE"
MIN_TIMEOUT_S, MAX_TIMEOUT_S = 1.0, 3_600.0
_FIRST_OPENING_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 1.0
_TOKEN, _TOKENS = 16, 32  # length of a token, and number of tokens in the row of a store
_NO_TOKEN = "0" * _TOKEN


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


def unreachable(text: str) -> ServerConnectionLost:
    """Return the exception for a failed attempt to connect, with the reason that `text` names.

    `text` is the error text of the driver. It is left out, because it contains names of hosts and users.
    """
    reason = why_unreachable(text)
    return ServerConnectionLost(f"the database server cannot be reached{f': {reason}' if reason else ''}")


def split_options(rest: str) -> tuple[str, float, int, dict[str, str]]:
    """Split `rest` into the address, the options of retentive (`timeout_s`, `connections`), and all other options.

    `rest` is the part of a URL after `scheme://`. Raises `InvalidInput`. The error message does not contain the URL,
    because the URL may contain a password.
    """
    address, _, query = rest.partition("?")
    try:
        given = dict(urllib.parse.parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        timeout_s, connections = float(given.pop("timeout_s", "30")), int(given.pop("connections", "16"))
    except ValueError:
        raise InvalidInput(
            "options in the URL must have the form `?name=value&name=value`;"
            " `timeout_s` and `connections` must be numbers"
        ) from None
    if not MIN_TIMEOUT_S <= timeout_s <= MAX_TIMEOUT_S:
        raise InvalidInput(f"the option `timeout_s` must be {MIN_TIMEOUT_S:.0f} to {MAX_TIMEOUT_S:.0f} seconds")
    if not 1 <= connections <= 10_000:
        raise InvalidInput("the option `connections` must be 1 to 10000")
    return address, timeout_s, connections, given


class ServerBackend(SqlBackend):
    """Backend that keeps memory stores in a database on a server. Subclasses open the connections.

    The tables are created if the database is empty.
    """

    lock = " FOR UPDATE"

    def __init__(self, timeout_s: float, connections: int, clock: Clock, new_id: NewId) -> None:
        super().__init__(clock, new_id)
        self.timeout_s = timeout_s  # of a command
        self.answer_s = max(timeout_s / 3, 1.0)  # of one reply, so that time is left for a retry
        self._connections = connections  # maximum number of open connections
        self._closed = False
        self.renew_after_fork()
        forking.watch(self)
        # A server that restarts at this moment is still found; otherwise the address is probably wrong.
        is_current = partial(schema.is_current, dialect=self.dialect)
        if not self._persevere(is_current, deadline=time.monotonic() + _FIRST_OPENING_S):
            # Another process may do this at once: one has a conflict, and repeats it.
            self.transact(partial(schema.create, dialect=self.dialect))

    @abstractmethod
    def connect(self) -> ServerConnection:
        """Open a connection. Raises `Unavailable`, `PermissionDenied` or `InvalidInput`."""

    def renew_after_fork(self) -> None:
        """Replace the connection pool, queues and locks in a forked child, which has no threads of the parent."""
        self._pool = Pool(self.connect, limit=self._connections, timeout_s=self.timeout_s)
        self._queues: WeakValueDictionary[str, WriteQueue] = WeakValueDictionary()
        self._queues_mutex = threading.Lock()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep all connections closed during the context, so that the process can fork."""
        with self._pool.held():
            yield

    def close(self) -> None:
        with self._pool.held():
            self._closed = True

    def connections(self) -> tuple[int, int, int]:
        return *self._pool.size, self._connections

    def __del__(self) -> None:
        with suppress(Exception):  # the object is partly constructed, or the interpreter is shutting down
            self._pool.drop()

    def look(self, work: Callable[[Connection], T]) -> T:
        def attempt(connection: ServerConnection) -> T:
            connection.begin(writes=False)
            return work(connection)

        return self._persevere(attempt)

    def transact(self, work: Callable[[Connection], T], *, may_use_reserve: bool = False) -> T:
        def attempt(connection: ServerConnection) -> T:
            connection.begin(writes=True)
            result = work(connection)
            connection.commit()
            return result

        return self._persevere(attempt)

    def write(self, store_id: str, work: Callable[[Transaction], T], **mode: Unpack[WriteMode]) -> T:
        with self._queues_mutex:
            queue = self._queues.setdefault(store_id, WriteQueue(partial(run_batch, attempt=self._attempt)))
        job = StoreJob(store_id, work, timeout_s=self.timeout_s, **mode)
        return cast("T", queue.submit(job))

    def _attempt(self, jobs: Sequence[StoreJob]) -> None:
        """Run the jobs of one store and commit. Retries until the deadline of the oldest job."""
        store_id, deadline, wait = jobs[0].store_id, jobs[0].deadline, jobs[0].wait
        if wait and deadline < time.monotonic():
            raise Unavailable("the database server or other writers took too long")

        def attempt(connection: ServerConnection) -> None:
            connection.begin(writes=True)
            connection.run(_LOCK if wait else f"{_LOCK} NOWAIT", (store_id,))
            self.run_jobs(connection, jobs, lambda heads: self._commit(connection, store_id, heads[store_id]))

        self._persevere(attempt, deadline=deadline)

    def _commit(self, connection: ServerConnection, store_id: str, head: StoreHead) -> None:
        """Commit. If the connection is lost, look up whether the commit succeeded.

        Raises `SerializationConflict` if the commit did not succeed.
        """
        tokens = head.token or _NO_TOKEN
        token = _add_token(connection, head.no, tokens)
        try:
            connection.commit()
        except ServerConnectionLost:
            if not self._landed(store_id, token, tokens[:_TOKEN]):
                raise SerializationConflict("the connection was lost before the commit") from None

    def _landed(self, store_id: str, token: str, before: str) -> bool:
        """Return True if the commit with `token` succeeded although the connection was lost.

        The method first locks the row of the store. The lock is granted only after the database server has committed or
        rolled back the lost transaction. At the end the method commits a token of its own. This commit waits until the
        cluster has replicated the row that was read. Raises `OutcomeUnknown` if the database server cannot be reached,
        or if the row has neither `token` nor `before`, the token of the commit before: too many others came later.
        """
        unknown = OutcomeUnknown("the connection was lost during the commit, so its outcome is unknown")
        retries = pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, deadline=self._deadline())
        while True:
            try:
                with closing(self.connect()) as connection:
                    connection.begin(writes=True)
                    connection.run(_LOCK, (store_id,))
                    head = SqlSnapshot(connection, store_id).head
                    tokens = head.token or _NO_TOKEN
                    _add_token(connection, head.no, tokens)
                    connection.commit()
            except (RetentiveError, SerializationConflict) as error:
                if not (isinstance(error, (Unavailable, SerializationConflict)) and next(retries, False)):
                    raise unknown from None
                continue
            if token not in tokens and before not in tokens:
                raise unknown
            return token in tokens

    def _deadline(self) -> float:
        return time.monotonic() + self.timeout_s

    def _persevere(self, attempt: Callable[[ServerConnection], T], *, deadline: float | None = None) -> T:
        """Run `attempt` with a connection. After a lost connection or a conflict, try again until the deadline."""

        def rolled_back(connection: ServerConnection) -> T:
            if self._closed:
                raise Closed("the location is closed; open it again")
            try:
                return attempt(connection)
            finally:
                connection.roll_back()

        retries = pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, deadline=self._deadline() if deadline is None else deadline)
        while True:
            try:
                return self._pool.run(rolled_back)
            except ServerConnectionLost:
                self._pool.drop()  # the idle connections are probably lost too
                if not next(retries, False):
                    raise
            except SerializationConflict:
                if not next(retries, False):
                    raise Unavailable("other writers locked the memory store for too long") from None


def _add_token(connection: Connection, number: int, tokens: str) -> str:
    """Put a new token before `tokens`, those in the row of the store, and return the new token."""
    token = urandom(_TOKEN // 2).hex()
    values = (token + tokens)[: _TOKEN * _TOKENS], number
    connection.run("UPDATE stores SET token = ? WHERE no = ?", values)
    return token
