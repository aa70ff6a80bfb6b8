"""PostgreSQL, by psycopg 3: how it is connected to, and what its errors mean here.

A connection stays in pipeline mode: what needs no answer is sent along with the next question, so that an edit takes
three round trips. Behind a pooler that hands out connections by transaction (pgbouncer), nothing is kept with the
session: settings go with each transaction and no statement is prepared. A pooler is known by the process id of its
greeting, which is not that of the server's process.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeVar, cast

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper

from commonplace.backends.base import Clock, NewId
from commonplace.backends.server import Clash, Engine, Lost, ServerBackend, ServerConnection
from commonplace.backends.server_urls import ServerOptions, split_options
from commonplace.backends.sql import Row, Value
from commonplace.errors import InvalidInput, PermissionDenied, Refused, StoreFull, Unavailable

T = TypeVar("T")
_SCHEMA_LOCK = 0x636F6D6D6F6E  # any number, the same in every process: "common"
_BEGIN_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_COMMIT = "current_setting('synchronous_commit')"
_DURABLE = f"CASE {_COMMIT} WHEN 'off' THEN 'on' ELSE {_COMMIT} END"
_MAX_BYTES = 512 * 1024 * 1024  # a value may have 1 GB, and is sent as text twice as long in the worst case


class _Connection(psycopg.Connection[Row]):
    """A psycopg connection that never waits longer than `answer_s` for the server."""

    answer_s = 10.0

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """As psycopg's, with a limit."""
        return super().wait(gen, interval, self.answer_s if timeout is None else timeout)


class PostgresqlConnection:
    """Runs statements; its errors are those of `commonplace.errors`, and `Lost` and `Clash`."""

    def __init__(self, raw: _Connection, settings: str) -> None:
        self._raw = raw
        self._context = raw.pipeline()
        self._pipeline = self._context.__enter__()
        self._begun = False
        self._failed = False
        self._settings = settings
        try:
            self._pooled = self.rows("SELECT pg_backend_pid()")[0][0] != raw.info.backend_pid
            if self._pooled:
                raw.prepare_threshold = None
            else:
                self.rows(settings.format(local="false"))
        except BaseException:
            self.close()
            raise

    @property
    def usable(self) -> bool:
        return not self._failed and not self._raw.closed

    def begin_write(self) -> None:
        self._begin(_BEGIN_WRITE)

    def begin_read(self) -> None:
        self._begin(_BEGIN_READ)

    def _begin(self, statement: str) -> None:
        self._begun = True
        self.run(statement)
        if self._pooled:
            self.run(self._settings.format(local="true"))

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        def ask() -> list[Row]:
            cursor = self._raw.execute(_translated(sql), values or None, binary=True)
            if not self._begun:
                self._pipeline.sync()
            return cursor.fetchall()

        return self._guarded(ask)

    def run(self, sql: str, values: Sequence[Value] = ()) -> None:
        _check_sizes(values)
        self._guarded(lambda: self._raw.execute(_translated(sql), values or None, binary=True))

    def run_many(self, sql: str, values: Sequence[Sequence[Value]]) -> None:
        for each in values:
            self.run(sql, each)

    def commit(self) -> None:
        def send() -> None:
            self._raw.execute("COMMIT")
            self._pipeline.sync()

        self._guarded(send)
        self._begun = False

    def roll_back(self) -> None:
        if not self._begun or self._failed:
            return
        self._begun = False
        try:
            with suppress(psycopg.Error):  # what was sent and not yet answered for
                self._pipeline.sync()
            if self._raw.info.transaction_status != TransactionStatus.IDLE:
                self._raw.execute("ROLLBACK")
                self._pipeline.sync()
        except psycopg.Error:
            self._failed = True

    def close(self) -> None:
        self._failed = True
        self._raw.pgconn.finish()  # first, so that nobody waits for the rest of the pipeline
        with suppress(psycopg.Error):
            self._context.__exit__(None, None, None)
        self._raw.close()

    def _guarded(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except psycopg.Error as error:
            meant = meaning(error)
            self._failed = self._failed or isinstance(meant, Lost)
            raise meant from None
        except BaseException:  # an interrupt in the middle of an answer
            self._failed = True
            raise


class PostgresqlEngine(Engine):
    """Connects to `conninfo`, a connection string of libpq."""

    name = "postgresql"

    def __init__(self, conninfo: str, options: ServerOptions) -> None:
        self._conninfo = conninfo
        self.timeout_s = options.timeout_s
        self.connections = options.connections

    def connect(self) -> PostgresqlConnection:
        answer_s = max(self.timeout_s / 3, 1.0)  # leaves time for another try
        try:
            raw = _Connection.connect(
                self._conninfo,
                autocommit=True,
                prepare_threshold=2,
                connect_timeout=max(int(answer_s), 2),
                client_encoding="utf8",
                keepalives_idle=10,
            )
        except psycopg.Error as error:
            raise _unreachable(error) from None
        raw.answer_s = answer_s
        raw.adapters.register_dumper(int, Int8Dumper)  # one statement for all sizes of numbers
        wait_ms, idle_ms = int(answer_s * 800), int(answer_s * 2_000)
        settings = (
            f"SELECT set_config('lock_timeout', '{wait_ms}', {{local}}), set_config("
            f"'idle_in_transaction_session_timeout', '{idle_ms}', {{local}}),"
            f" set_config('synchronous_commit', {_DURABLE}, {{local}})"
        )
        return PostgresqlConnection(raw, settings)

    @contextmanager
    def schema_locked(self, connection: ServerConnection) -> Iterator[None]:
        connection.rows("SELECT pg_advisory_xact_lock(?)", (_SCHEMA_LOCK,))
        if connection.rows("SHOW server_encoding")[0][0] != "UTF8":
            raise InvalidInput("the database must have the encoding UTF8, to keep every text")
        yield


def open_postgresql(rest: str, *, clock: Clock, new_id: NewId, check: bool = True) -> ServerBackend:
    """The backend for `postgresql://` and `rest`. Without `check`, no schema is looked for or made."""
    address, options, given = split_options(rest)
    query = urllib.parse.urlencode(given)
    conninfo = f"postgresql://{address}" + (f"?{query}" if query else "")
    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.Error:
        raise InvalidInput("the place is not a valid URL of a PostgreSQL database") from None
    backend = ServerBackend(PostgresqlEngine(conninfo, options), clock=clock, new_id=new_id)
    if check:
        backend.check_schema()
    return backend


@cache
def _translated(sql: str) -> Any:
    """A statement of `sql.py` as psycopg wants it."""
    return sql.replace("?", "%s")


def _check_sizes(values: Sequence[Value]) -> None:
    if any(isinstance(value, bytes) and len(value) > _MAX_BYTES for value in values):
        raise Refused("too_large_to_keep")


def _unreachable(error: psycopg.Error) -> Exception:
    """What a failed connection means. The driver's own text names hosts and users."""
    if isinstance(error, (pg.InvalidPassword, pg.InvalidAuthorizationSpecification)) or "authentication" in str(error):
        return PermissionDenied("the database server refuses this user")
    if isinstance(error, pg.InvalidCatalogName) or ('database "' in str(error) and "does not exist" in str(error)):
        return InvalidInput("there is no such database on the server; create it first")
    return Lost("the database server cannot be reached")


_CLASHES = (pg.SerializationFailure, pg.DeadlockDetected, pg.UniqueViolation, pg.LockNotAvailable, pg.QueryCanceled)
_MEANINGS: tuple[tuple[tuple[type[psycopg.Error], ...], Callable[[], Exception]], ...] = (
    (_CLASHES, lambda: Clash("another transaction was in the way")),
    (
        (pg.DiskFull, pg.InsufficientResources),
        lambda: StoreFull("no space is left on the database server"),
    ),
    ((pg.ProgramLimitExceeded,), lambda: Refused("too_large_to_keep")),
    ((pg.IdleInTransactionSessionTimeout,), lambda: Lost("the database server ended an idle transaction")),
    ((pg.ReadOnlySqlTransaction,), lambda: Lost("the database server takes no writes")),
    ((pg.InsufficientPrivilege,), lambda: PermissionDenied("the database user may not do this")),
    (
        (pg.DataCorrupted, pg.IndexCorrupted),
        lambda: Unavailable("the database server reports damaged data"),
    ),
)


def meaning(error: psycopg.Error) -> Exception:
    """What an error of PostgreSQL means here. One that only a bug can cause stays what it is."""
    for kinds, meant in _MEANINGS:
        if isinstance(error, kinds) and not isinstance(error, pg.TooManyConnections):
            return meant()
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) or error.sqlstate is None:
        return Lost("the connection to the database server was lost")
    return cast("Exception", error)
