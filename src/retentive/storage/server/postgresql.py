"""PostgreSQL through psycopg 3: connections and error mapping.

A transaction pooler (PgBouncer) does not preserve the state of a session. A connection through a pooler therefore sends
its settings with each transaction, and does not prepare statements. Each new connection receives a process id. If this
id differs from `pg_backend_pid()`, there is a pooler.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

import psycopg
from psycopg import errors as pg
from psycopg.types.numeric import Int8BinaryDumper

from retentive.errors import Damaged, InvalidInput, PermissionDenied, Refused, StoreFull, Unavailable
from retentive.storage.contract import Clock, NewId
from retentive.storage.server.backend import ServerBackend
from retentive.storage.server.dialect import (
    Dialect,
    SerializationConflict,
    ServerConnection,
    ServerConnectionLost,
    ServerOptions,
    split_options,
    unreachable,
)
from retentive.storage.sql.connection import Row, Value

_SCHEMA_LOCK = 0x636F6D6D6F6E  # arbitrary, but the same in every process ("common" in ASCII)
_BEGIN_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_COMMIT = "current_setting('synchronous_commit')"
_DURABLE = f"CASE {_COMMIT} WHEN 'off' THEN 'on' ELSE {_COMMIT} END"
_SETTINGS = (
    "SELECT set_config('lock_timeout', '{wait_ms}', LOCAL),"
    " set_config('idle_in_transaction_session_timeout', '{idle_ms}', LOCAL),"
    " set_config('tcp_keepalives_idle', '{alive_s}', LOCAL), set_config('tcp_keepalives_interval', '{alive_s}', LOCAL),"
    " set_config('tcp_keepalives_count', '3', LOCAL),"
    # A plan kept from an almost empty table would read all versions of a store, until the next ANALYZE.
    " set_config('plan_cache_mode', 'force_custom_plan', LOCAL),"
    f" set_config('synchronous_commit', {_DURABLE}, LOCAL)"
)
_MAX_BYTES = 512 * 1024 * 1024  # PostgreSQL allows 1 GB, and the text form may double the size


class _TimedConnection(psycopg.Connection[Row]):
    """Connection of psycopg that waits at most `answer_s` seconds for a reply."""

    answer_s = 30.0

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        return super().wait(gen, interval, self.answer_s if timeout is None else timeout)


class PostgresqlConnection(ServerConnection):
    """Connection to PostgreSQL. Its methods raise the errors of `retentive.errors` and `SerializationConflict`.

    The connection is always in pipeline mode: a statement is sent at once, and only `rows` and `commit` wait for the
    replies. They end with a sync and not with a flush, because the server starts its idle timeout at a sync. After this
    timeout, the server releases the locks of a client that has disappeared.
    """

    def __init__(self, raw: _TimedConnection) -> None:
        self._raw = raw
        self._begun = False
        self._failed = False
        self._begin_with = ""
        self._mode = raw.pipeline()
        settings = _SETTINGS.format(
            wait_ms=int(raw.answer_s * 800), idle_ms=int(raw.answer_s * 2_000), alive_s=max(int(raw.answer_s), 1)
        )
        try:
            self._pipeline = self._mode.__enter__()
            raw.adapters.register_dumper(int, Int8BinaryDumper)  # one type for all integers, so one plan
            if self.rows("SELECT pg_backend_pid()")[0][0] == raw.info.backend_pid:
                self.rows(settings.replace("LOCAL", "false"))
            else:
                raw.prepare_threshold = None
                self._begin_with = settings.replace("LOCAL", "true")
        except BaseException:
            self.close()
            raise

    @property
    def usable(self) -> bool:
        return not self._failed

    def begin_write(self) -> None:
        self._begin(_BEGIN_WRITE)

    def begin_read(self) -> None:
        self._begin(_BEGIN_READ)

    def _begin(self, statement: str) -> None:
        self._begun = True
        self.run(statement)
        if self._begin_with:
            self.run(self._begin_with)

    def run(self, sql: str, values: Sequence[Value] = ()) -> None:
        self._send(sql, values)

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        return self.rows_of_all([(sql, values)])[0]

    def rows_of_all(self, queries: Sequence[tuple[str, Sequence[Value]]]) -> list[list[Row]]:
        cursors = [self._send(sql, values) for sql, values in queries]
        with self._guarded():
            self._pipeline.sync()
            return [cursor.fetchall() if cursor.description else [] for cursor in cursors]

    def commit(self) -> None:
        self.rows("COMMIT")
        self._begun = False

    def roll_back(self) -> None:
        if self._begun and not self._failed:
            self._begun = False
            with suppress(ServerConnectionLost):
                self.rows("ROLLBACK")

    def close(self) -> None:
        self._failed = True
        self._raw.close()
        with suppress(psycopg.Error):  # without a connection, this only ends the context
            self._mode.__exit__(None, None, None)

    def _send(self, sql: str, values: Sequence[Value] = ()) -> psycopg.Cursor[Row]:
        if any(isinstance(value, bytes) and len(value) > _MAX_BYTES for value in values):
            raise Refused("too_large_to_keep")
        with self._guarded():
            return self._raw.execute(sql.replace("?", "%s"), values or None, binary=True)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Convert errors of psycopg. After any error the connection is closed.

        The error may have skipped statements of the pipeline that psycopg takes for prepared.
        """
        try:
            yield
        except BaseException as error:
            self._failed = True
            if isinstance(error, psycopg.Error):
                raise meaning(error) from None
            raise


class PostgresqlDialect(Dialect):
    """Dialect that connects to the PostgreSQL database of `conninfo`, a connection string of libpq."""

    name = "postgresql"
    now_us = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"

    def __init__(self, conninfo: str, options: ServerOptions) -> None:
        super().__init__(options)
        self._conninfo = conninfo

    def connect(self) -> PostgresqlConnection:
        answer_s = max(self.timeout_s / 3, 1.0)  # a third of the timeout leaves time for a retry
        try:
            raw = _TimedConnection.connect(
                self._conninfo, autocommit=True, connect_timeout=max(int(answer_s), 2), client_encoding="utf8"
            )
        except psycopg.Error as error:
            raise _unreachable(error) from None
        raw.answer_s = answer_s
        return PostgresqlConnection(raw)

    @contextmanager
    def schema_locked(self, connection: ServerConnection) -> Iterator[None]:
        connection.rows("SELECT pg_advisory_xact_lock(?)", (_SCHEMA_LOCK,))
        if connection.rows("SHOW server_encoding")[0][0] != "UTF8":
            raise InvalidInput("the database must have the encoding UTF8; other encodings cannot store every text")
        yield


def open_postgresql(rest: str, *, clock: Clock, new_id: NewId, check: bool = True) -> ServerBackend:
    """Open the backend at the URL `postgresql://` + `rest`.

    If `check` is true, the schema is checked. If the database is empty, the check creates the tables.
    """
    address, options, given = split_options(rest)
    query = urllib.parse.urlencode(given)
    conninfo = f"postgresql://{address}" + (f"?{query}" if query else "")
    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.Error as error:
        unknown = re.search(r'parameter: "(\w{1,40})"', str(error))
        reason = f"unknown option {unknown[1]!r} in the URL" if unknown else "invalid URL"
        raise InvalidInput(f"{reason}; use postgresql://user:password@host:port/database?option=value") from None
    backend = ServerBackend(PostgresqlDialect(conninfo, options), clock=clock, new_id=new_id)
    if check:
        backend.check_schema()
    return backend


def _unreachable(error: psycopg.Error) -> Exception:
    """Return the exception of this library that reports a failed attempt to connect.

    The error text of the driver is left out, because it contains names of hosts and users.
    """
    if isinstance(error, (pg.InvalidPassword, pg.InvalidAuthorizationSpecification)) or "authentication" in str(error):
        return PermissionDenied("the database server refuses this user or password; check both in the URL")
    if isinstance(error, pg.InvalidCatalogName) or ('database "' in str(error) and "does not exist" in str(error)):
        return InvalidInput("there is no such database on the server; create it first")
    return unreachable(str(error))


_CONFLICTS = (pg.SerializationFailure, pg.DeadlockDetected, pg.UniqueViolation, pg.LockNotAvailable, pg.QueryCanceled)
_MEANINGS: tuple[tuple[tuple[type[psycopg.Error], ...], Callable[[], Exception]], ...] = (
    (_CONFLICTS, lambda: SerializationConflict("a concurrent transaction changed the same rows")),
    ((pg.DiskFull, pg.InsufficientResources), lambda: StoreFull("no space is left on the database server")),
    ((pg.ProgramLimitExceeded,), lambda: Refused("too_large_to_keep")),
    (
        (pg.IdleInTransactionSessionTimeout,),
        lambda: ServerConnectionLost("the database server ended an idle transaction"),
    ),
    ((pg.ReadOnlySqlTransaction,), lambda: ServerConnectionLost("the database server accepts no writes")),
    (
        (pg.InsufficientPrivilege,),
        lambda: PermissionDenied("the database user lacks a permission that retentive needs"),
    ),
    ((pg.UndefinedTable, pg.UndefinedColumn), lambda: Damaged("a table of the database is missing or damaged")),
    ((pg.DataCorrupted, pg.IndexCorrupted), lambda: Unavailable("the database server reports damaged data")),
)


def meaning(error: psycopg.Error) -> Exception:
    """Convert an error of PostgreSQL to the corresponding exception of this library.

    An error that only a bug can cause is returned unchanged.
    """
    for kinds, meant in _MEANINGS:
        if isinstance(error, kinds) and not isinstance(error, pg.TooManyConnections):
            return meant()
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) or error.sqlstate is None:
        return ServerConnectionLost("the connection to the database server was lost")
    return cast("Exception", error)
