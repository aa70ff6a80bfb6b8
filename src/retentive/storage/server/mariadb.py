"""MariaDB and Galera (clusters of MariaDB) through PyMySQL: connections and error mapping.

Galera does not lock rows across nodes. If two transactions change the same row on different nodes, the second
transaction fails at its commit and is retried. With `wsrep_sync_wait`, every read waits until the node has applied all
earlier commits of the cluster.
"""

from __future__ import annotations

import ssl
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from typing import Any, TypeVar, cast

import pymysql
from pymysql.constants import CLIENT, CR, ER, FIELD_TYPE
from pymysql.converters import conversions
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

from retentive.errors import Damaged, InvalidInput, PermissionDenied, Refused, StoreFull
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

T = TypeVar("T")
DEFAULT_PORT = 3306
_SCHEMA_LOCK = "retentive-schema"
_TLS_OPTIONS = ("ssl_ca", "ssl_cert", "ssl_key")
# InnoDB takes the snapshot of a transaction at its first plain read, which comes after the row of the store is locked.
_SETTINGS = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
    "SET SESSION wsrep_sync_wait = 1",
)


def _text(data: object) -> object:
    return data.decode() if isinstance(data, bytes) else data


_CONVERSIONS = conversions | {FIELD_TYPE.VAR_STRING: _text, FIELD_TYPE.STRING: _text}  # all text columns are VARBINARY


_described = lru_cache(maxsize=1_024)(FieldDescriptorPacket)


class _RawConnection(pymysql.Connection):
    """Connection of PyMySQL with a shared TLS context, and with cached descriptions of columns.

    PyMySQL would make a context for each connection, which takes up to 0.1 s. The server sends the descriptions of the
    columns with each result. Without the cache, a third of the time of a view was spent on decoding them.
    """

    def __init__(self, tls: ssl.SSLContext, **options: Any) -> None:
        self._tls = tls
        super().__init__(**options)

    def _create_ssl_ctx(self, _: object) -> ssl.SSLContext:
        return self._tls

    def _read_packet(self, packet_type: Any = MysqlPacket) -> Any:
        kind = _described if packet_type is FieldDescriptorPacket else packet_type
        return super()._read_packet(kind)  # type: ignore[no-untyped-call]


class MariadbConnection(ServerConnection):
    """Connection to MariaDB. Its methods raise the errors of `retentive.errors` and `SerializationConflict`.

    Statements that return no rows are sent together with the next query or the commit. If the server is a node of a
    cluster, however, each statement is sent alone, because a node can roll back a transaction between two statements of
    one packet. The node would then run the remaining statements outside the transaction and commit half of a change
    (seen on Galera 4 with MariaDB 10.11).
    """

    def __init__(self, raw: Any, wait_s: float) -> None:
        self._raw = raw
        self._failed = False
        self._begun = False
        self._batch: list[str] = []
        self._batch_bytes = 0
        self._max_bytes = 1 << 20
        self._one_by_one = False
        limits = {"innodb_lock_wait_timeout": wait_s, "idle_transaction_timeout": 2 * wait_s}  # then locks are released
        for statement in (*_SETTINGS, *(f"SET SESSION {name} = {max(int(s), 1)}" for name, s in limits.items())):
            self.run(statement)
        max_bytes, in_cluster = cast("tuple[int, int]", self.rows("SELECT @@max_allowed_packet, @@wsrep_on")[0])
        self._max_bytes, self._one_by_one = max_bytes, bool(in_cluster)

    @property
    def usable(self) -> bool:
        return not self._failed and bool(self._raw.open)

    def begin_write(self) -> None:
        self._begun = True
        self.run("BEGIN")

    def begin_read(self) -> None:
        self._begun = True
        self.run("START TRANSACTION READ ONLY")

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        self.run(sql, values)
        return self._send()[-1]

    def rows_of_all(self, queries: Sequence[tuple[str, Sequence[Value]]]) -> list[list[Row]]:
        tables = [table for sql, values in queries for table in self._add(sql, values)]
        return [*tables, *self._send()][-len(queries) :]

    def run(self, sql: str, values: Sequence[Value] = ()) -> None:
        self._add(sql, values)

    def _add(self, sql: str, values: Sequence[Value]) -> list[list[Row]]:
        """Add a statement to the batch. If the batch is full, send it first, and return the rows of its statements."""
        size = sum(2 * len(value) if isinstance(value, bytes) else 4_096 for value in values) + len(sql)
        if size > self._max_bytes:
            raise Refused("too_large_to_keep")  # escaping may double the size, and a larger packet ends the connection
        full = self._batch and (self._one_by_one or self._batch_bytes + size > self._max_bytes)
        sent = self._send() if full else []
        with self._guarded(), self._raw.cursor() as cursor:
            self._batch.append(cursor.mogrify(_translated(sql), values or None))
        self._batch_bytes += size
        return sent

    def commit(self) -> None:
        self.run("COMMIT")
        self._send()
        self._begun = False

    def roll_back(self) -> None:
        self._batch, self._batch_bytes = [], 0
        if not self._begun or self._failed:
            return
        self._begun = False
        with suppress(ServerConnectionLost, SerializationConflict):
            self.rows("ROLLBACK")

    def close(self) -> None:
        self._failed = True
        _cut(self._raw)

    def _send(self) -> list[list[Row]]:
        """Send the statements of the batch and return the rows of each statement."""
        statements, self._batch, self._batch_bytes = "; ".join(self._batch), [], 0
        with self._guarded(), self._raw.cursor() as cursor:
            cursor.execute(statements)
            tables = [list(cursor.fetchall())]
            while cursor.nextset():
                tables.append(list(cursor.fetchall()))
            return tables

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (pymysql.Error, OSError) as error:
            meant = meaning(error)
            self._failed = self._failed or isinstance(meant, ServerConnectionLost)
            raise meant from None
        except BaseException:  # for example an interrupt while reading a reply
            self._failed = True
            raise


class MariadbDialect(Dialect):
    """Dialect that connects to MariaDB. With several hosts, it connects to the first host that can be reached.

    Hosts that could not be reached before are tried last.
    """

    name = "mariadb"
    now_us = "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"

    def __init__(self, hosts: Sequence[tuple[str, int]], login: dict[str, Any], options: ServerOptions) -> None:
        super().__init__(options)
        self._hosts = list(hosts)
        self._login = login
        self._tls = _tls_context(login)

    def connect(self) -> MariadbConnection:
        refusal: Exception = ServerConnectionLost("the database server cannot be reached")
        for host, port in list(self._hosts):
            try:
                return self._connect_to(host, port)
            except ServerConnectionLost as error:
                refusal = error
                if len(self._hosts) > 1:
                    self._hosts = [*(one for one in self._hosts if one != (host, port)), (host, port)]
        raise refusal

    def _connect_to(self, host: str, port: int) -> MariadbConnection:
        answer_s = max(self.timeout_s / 3, 1.0)  # a third of the timeout leaves time for a retry
        try:
            raw = _RawConnection(
                self._tls,
                host=host,
                port=port,
                charset="utf8mb4",
                conv=_CONVERSIONS,
                autocommit=True,
                client_flag=CLIENT.MULTI_STATEMENTS,
                connect_timeout=max(int(answer_s / 2), 1),
                read_timeout=answer_s,
                write_timeout=answer_s,
                max_allowed_packet=1 << 30,
                **self._login,
            )
        except (pymysql.Error, OSError) as error:
            raise _unreachable(error) from None
        try:
            return MariadbConnection(raw, answer_s * 0.8)
        except BaseException:
            _cut(raw)
            raise

    @contextmanager
    def schema_locked(self, connection: ServerConnection) -> Iterator[None]:
        if connection.rows("SELECT GET_LOCK(?, ?)", (_SCHEMA_LOCK, int(self.timeout_s / 4)))[0][0] != 1:
            raise SerializationConflict("another process is changing the schema")
        try:
            yield
        finally:  # the lock belongs to the connection, not to the transaction
            with suppress(ServerConnectionLost):
                connection.rows("SELECT RELEASE_LOCK(?)", (_SCHEMA_LOCK,))


def _tls_context(options: Mapping[str, str]) -> ssl.SSLContext:
    """Return the TLS context for `options`. With `ssl_ca`, the certificate of the server must be signed by this CA.

    Without options, the connection is encrypted if the server supports it, and the certificate is not checked.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED if "ssl_ca" in options else ssl.CERT_NONE
    try:
        if "ssl_ca" in options:
            context.load_verify_locations(options["ssl_ca"])
        if "ssl_cert" in options:
            context.load_cert_chain(options["ssl_cert"], options.get("ssl_key"))
    except OSError:
        raise InvalidInput("a certificate or key that the options `ssl_` name cannot be read") from None
    return context


def _cut(raw: Any) -> None:
    """Close the socket. PyMySQL's `close()` would first send a message to the server, which may not respond."""
    with suppress(pymysql.Error, OSError):
        raw._force_close()  # noqa: SLF001 - no public equivalent


def open_mariadb(rest: str, *, clock: Clock, new_id: NewId, check: bool = True) -> ServerBackend:
    """Open the backend at the URL `mariadb://` + `rest`, where `rest` is `user:password@host:port,host:port/database`.

    If `check` is true, the schema is checked. If the database is empty, the check creates the tables.
    """
    address, options, given = split_options(rest)
    for name in given:
        if name not in _TLS_OPTIONS:
            known = ", ".join(("timeout_s", "connections", *_TLS_OPTIONS))
            raise InvalidInput(f"unknown option {name!r} in the URL; the known options are {known}")
    login, separator, place = address.rpartition("@")
    hosts, slash, database = place.partition("/")
    if not separator or not slash or not database:
        raise InvalidInput("the URL of a MariaDB database must be mariadb://user:password@host:port/database")
    user, _, password = login.partition(":")
    named = {"user": user, "password": password, "database": database}
    access = {name: urllib.parse.unquote(value) for name, value in named.items()} | given
    dialect = MariadbDialect([_host(one) for one in hosts.split(",")], access, options)
    backend = ServerBackend(dialect, clock=clock, new_id=new_id)
    if check:
        backend.check_schema()
    return backend


def _host(text: str) -> tuple[str, int]:
    name, colon, port = text.rpartition(":")
    if not colon:
        return text, DEFAULT_PORT
    if not port.isdecimal() or not name:
        raise InvalidInput("each host in the URL must have the form name:port")
    return name.strip("[]"), int(port)


@cache
def _translated(sql: str) -> str:
    return sql.replace("?", "%s")


def _code(error: BaseException) -> int:
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


def _unreachable(error: BaseException) -> Exception:
    """Return the exception of this library that reports a failed attempt to connect.

    The error text of the driver is left out, because it contains names of hosts and users.
    """
    code = _code(error)
    if code in {ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, 1698}:
        return PermissionDenied("the database server refuses this user or password; check both in the URL")
    if code == ER.BAD_DB_ERROR:
        return InvalidInput("there is no such database on the server; create it first")
    return unreachable(str(error))


_CHECKREAD, _DISK_FULL, _KILLED, _WSREP_UNREADY = 1020, 1021, 1927, 1047
_CONFLICTS = {ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, ER.DUP_ENTRY, _CHECKREAD}
_FULL = {_DISK_FULL, ER.RECORD_FILE_FULL, 1041}
_TOO_LARGE = {ER.NET_PACKET_TOO_LARGE, ER.TOO_BIG_ROWSIZE, ER.DATA_TOO_LONG}
_DENIED = {ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR}
_NOT_THERE = {ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR}
_LOST = {
    0,  # PyMySQL's code for a connection that the other side closed
    CR.CR_SERVER_GONE_ERROR,
    CR.CR_SERVER_LOST,
    CR.CR_COMMANDS_OUT_OF_SYNC,
    ER.SERVER_SHUTDOWN,
    ER.QUERY_INTERRUPTED,
    ER.OPTION_PREVENTS_STATEMENT,  # the server runs with --read-only: a replica
    _KILLED,
    _WSREP_UNREADY,
    1158, 1159, 1160, 1161,  # network failure within a packet
}  # fmt: skip


def meaning(error: BaseException) -> Exception:
    """Convert an error of MariaDB to the corresponding exception of this library.

    An error that only a bug can cause is returned unchanged.
    """
    code = _code(error)
    kinds: tuple[tuple[set[int], Callable[[], Exception]], ...] = (
        (_CONFLICTS, lambda: SerializationConflict("a concurrent transaction changed the same rows")),
        (_FULL, lambda: StoreFull("no space is left on the database server")),
        (_TOO_LARGE, lambda: Refused("too_large_to_keep")),
        (_DENIED, lambda: PermissionDenied("the database user lacks a permission that retentive needs")),
        (_NOT_THERE, lambda: Damaged("a table of the database is missing or damaged")),
    )
    for codes, meant in kinds:
        if code in codes:
            return meant()
    if code in _LOST or isinstance(error, (OSError, pymysql.InterfaceError)):
        return ServerConnectionLost("the connection to the database server was lost")
    return cast("Exception", error)
