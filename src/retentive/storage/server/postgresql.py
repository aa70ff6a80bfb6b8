"""PostgreSQL through psycopg 3: connections and error mapping.

A transaction pooler (PgBouncer) does not preserve the state of a session. A connection through a pooler therefore sends
its settings with each transaction, and does not prepare statements. Each new connection receives a process id. If this
id differs from `pg_backend_pid()`, there is a pooler.
"""

from __future__ import annotations

import re
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import psycopg
from psycopg import errors as pg
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult
from psycopg.types.numeric import Int8BinaryDumper

from retentive.errors import InvalidInput
from retentive.storage.contract import Clock, NewId, sortable_id
from retentive.storage.server.backend import FAILURES, ServerBackend, ServerConnection, split_options, unreachable
from retentive.storage.sql.connection import Row, Value

_COMMIT = "current_setting('synchronous_commit')"
_DURABLE = f"CASE {_COMMIT} WHEN 'off' THEN 'on' ELSE {_COMMIT} END"
_SETTINGS = (
    "SELECT set_config('lock_timeout', '{wait_ms}', LOCAL),"
    " set_config('idle_in_transaction_session_timeout', '{idle_ms}', LOCAL),"
    " set_config('tcp_keepalives_idle', '{alive_s}', LOCAL), set_config('tcp_keepalives_interval', '{alive_s}', LOCAL),"
    " set_config('tcp_keepalives_count', '3', LOCAL),"
    f" set_config('synchronous_commit', {_DURABLE}, LOCAL)"
)
_MAX_PREPARED = 200
_MAX_BYTES = 512 * 1024 * 1024  # PostgreSQL allows 1 GB, and the text form may double the size


class PostgresqlConnection(ServerConnection):
    """Connection to PostgreSQL. Its methods raise the errors of `retentive.errors` and `SerializationConflict`.

    It is always in the pipeline mode of libpq, which collects statements until `rows` sends them together. psycopg's
    cursors would send each statement alone, and take 17 us for each; an edit took 1.6 times as long.
    """

    begin_write = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
    begin_read = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

    def __init__(self, raw: psycopg.Connection[Any], *, answer_s: float) -> None:
        super().__init__()
        self._raw = raw
        self._answer_s = answer_s
        self._transformer = Transformer(raw)
        self._prepared: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._prepares = False
        self._sent = 0  # requests since the last sync
        self._transactions = 0
        self._begin_with = ""
        settings = _SETTINGS.format(
            wait_ms=int(answer_s * 800), idle_ms=int(answer_s * 2_000), alive_s=max(int(answer_s), 1)
        )
        try:
            raw.pgconn.enter_pipeline_mode()
            self._prepares = self.rows("SELECT pg_backend_pid()")[0][0] == raw.info.backend_pid
            if self._prepares:
                self.rows(settings.replace("LOCAL", "false"))
            else:
                self._begin_with = settings.replace("LOCAL", "true")
        except BaseException:
            self.close()
            raise

    def begin(self, *, writes: bool) -> None:
        super().begin(writes=writes)
        if self._begin_with:
            self.run(self._begin_with)
        self._transactions += 1
        if self._transactions.bit_count() == 1:  # 1, 2, 4, 8, ...
            # A plan kept from an almost empty table would read all versions of a store, until the next ANALYZE.
            self.run("DISCARD PLANS")

    def run(self, sql: str, values: Sequence[Value] = ()) -> None:
        if any(isinstance(value, bytes) and len(value) > _MAX_BYTES for value in values):
            raise FAILURES["too large"]()
        transformer, pgconn = self._transformer, self._raw.pgconn
        with self._guarded():
            encoded = transformer.dump_sequence(values, [PyFormat.AUTO] * len(values))
            types, formats = transformer.types or (), transformer.formats
            name = self._prepared.get((sql, types))
            if name is None:
                name = b""
                if self._prepares and len(self._prepared) < _MAX_PREPARED:
                    name = self._prepared[sql, types] = b"s%d" % len(self._prepared)
                pgconn.send_prepare(name, _numbered(sql), types)
                self._sent += 1
            pgconn.send_query_prepared(name, encoded, formats, Format.BINARY)
            self._sent += 1

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        self.run(sql, values)
        with self._guarded():
            # Not a flush, because the server starts its idle timeout at a sync. After this timeout, the server releases
            # the locks of a client that has disappeared.
            self._raw.pgconn.pipeline_sync()
            results = self._raw.wait(self._replies(), timeout=self._answer_s)
            for result in results:
                if result.status == ExecStatus.FATAL_ERROR:
                    raise pg.error_from_result(result)
            last = results[-1]
            self._transformer.set_pgresult(last)
            return self._transformer.load_rows(0, last.ntuples, tuple)

    def _replies(self) -> PQGen[list[PGresult]]:
        """Send everything, and return the results of all requests since the last sync."""
        pgconn, sent, self._sent = self._raw.pgconn, self._sent, 0
        yield from send(pgconn)
        results: list[PGresult] = []
        for _ in range(sent):
            results += yield from fetch_many(pgconn)
        yield from fetch_many(pgconn)  # the reply to the sync
        return results

    def close(self) -> None:
        self.usable = False
        self._raw.close()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Convert errors of psycopg. After any error the connection is closed.

        The server has skipped the statements after the error, so some may not be prepared.
        """
        try:
            yield
        except BaseException as error:
            self.usable = False
            if isinstance(error, psycopg.Error):
                raise meaning(error) from None
            raise


class PostgresqlBackend(ServerBackend):
    """Backend in the PostgreSQL database at the URL `postgresql://` + `rest`."""

    dialect = "postgresql"

    def __init__(self, rest: str, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> None:
        address, timeout_s, connections, given = split_options(rest)
        query = urllib.parse.urlencode(given)
        self._conninfo = f"postgresql://{address}" + (f"?{query}" if query else "")
        try:
            psycopg.conninfo.conninfo_to_dict(self._conninfo)
        except psycopg.Error as error:
            unknown = re.search(r'parameter: "(\w{1,40})"', str(error))
            reason = f"unknown option {unknown[1]!r} in the URL" if unknown else "invalid URL"
            raise InvalidInput(f"{reason}; use postgresql://user:password@host:port/database?option=value") from None
        super().__init__(timeout_s, connections, clock, new_id)

    def connect(self) -> PostgresqlConnection:
        answer_s = self.answer_s
        try:
            raw = psycopg.Connection.connect(
                self._conninfo, autocommit=True, connect_timeout=max(int(answer_s), 2), client_encoding="utf8"
            )
        except psycopg.Error as error:
            raise _unreachable(error) from None
        if raw.info.parameter_status("server_encoding") not in {"UTF8", None}:  # None: a pooler did not pass it on
            raw.close()
            raise InvalidInput("the database must have the encoding UTF8; other encodings cannot store every text")
        raw.adapters.register_dumper(int, Int8BinaryDumper)  # one type for all integers, so one plan
        return PostgresqlConnection(raw, answer_s=answer_s)


def _numbered(sql: str) -> bytes:
    """Replace each placeholder `?` with a placeholder of PostgreSQL: `$1`, `$2` and so on."""
    first, *rest = sql.split("?")
    return "".join([first, *(f"${number}{part}" for number, part in enumerate(rest, start=1))]).encode()


_REFUSED = re.compile('authentication|no password supplied|role ".*" does not exist')


def _unreachable(error: psycopg.Error) -> Exception:
    """Return the exception that reports a failed attempt to connect, without names of hosts and users."""
    text = str(error)
    if isinstance(error, (pg.InvalidPassword, pg.InvalidAuthorizationSpecification)) or _REFUSED.search(text):
        return FAILURES["wrong login"]()
    if isinstance(error, pg.InvalidCatalogName) or ('database "' in text and "does not exist" in text):
        return FAILURES["no database"]()
    return unreachable(text)


_MEANINGS: dict[str, tuple[type[psycopg.Error], ...]] = {
    "conflict": (
        pg.SerializationFailure, pg.DeadlockDetected, pg.UniqueViolation, pg.LockNotAvailable, pg.QueryCanceled,
        pg.DuplicateTable,  # two processes create the tables; each table has a type
        pg.DuplicateObject,
    ),
    "full": (pg.DiskFull, pg.InsufficientResources),
    "lost": (
        pg.TooManyConnections, pg.IdleInTransactionSessionTimeout,
        pg.ReadOnlySqlTransaction,  # a standby server
    ),
    "too large": (pg.ProgramLimitExceeded,),
    "no permission": (pg.InsufficientPrivilege,),
    "no table": (pg.UndefinedTable, pg.UndefinedColumn),
    "damaged": (pg.DataCorrupted, pg.IndexCorrupted),
}  # fmt: skip


def meaning(error: psycopg.Error) -> Exception:
    """Convert an error of PostgreSQL to the corresponding exception of this library.

    An error that only a bug can cause is returned unchanged.
    """
    failure = next((failure for failure, kinds in _MEANINGS.items() if isinstance(error, kinds)), None)
    is_refused = isinstance(error, psycopg.DataError)  # by the driver, which sent nothing: it has no `sqlstate` either
    if (
        failure is None
        and not is_refused
        and (error.sqlstate is None or isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)))
    ):
        failure = "lost"
    return cast("Exception", error) if failure is None else FAILURES[failure]()
