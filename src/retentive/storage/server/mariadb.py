"""MariaDB and Galera (clusters of MariaDB) through PyMySQL: connections and error mapping.

Galera does not lock rows across nodes. If two transactions change the same row on different nodes, the second
transaction fails at its commit and is retried. With `wsrep_sync_wait`, every read waits until the node has applied all
earlier commits of the cluster.
"""

from __future__ import annotations

import ssl
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

import pymysql
from pymysql.constants import CLIENT, CR, ER, FIELD_TYPE
from pymysql.converters import conversions

from retentive.errors import InvalidInput
from retentive.storage.contract import Clock, NewId, sortable_id
from retentive.storage.server.backend import (
    FAILURES,
    ServerBackend,
    ServerConnection,
    ServerConnectionLost,
    split_options,
    unreachable,
)
from retentive.storage.sql.connection import Row, Value

DEFAULT_PORT = 3306
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


class _RawConnection(pymysql.Connection):
    """Connection of PyMySQL that does not make a TLS context of its own, which takes up to 0.1 s."""

    def __init__(self, tls: ssl.SSLContext, **options: Any) -> None:
        self._tls = tls
        super().__init__(**options)

    def _create_ssl_ctx(self, _: object) -> ssl.SSLContext:
        return self._tls


class MariadbConnection(ServerConnection):
    """Connection to MariaDB. Its methods raise the errors of `retentive.errors` and `SerializationConflict`.

    Statements that return no rows are sent together with the next query or the commit. If the server is a node of a
    cluster, however, each statement is sent alone, because a node can roll back a transaction between two statements of
    one packet. The node would then run the remaining statements outside the transaction and commit half of a change
    (seen on Galera 4 with MariaDB 10.11).
    """

    begin_write = "BEGIN"
    begin_read = "START TRANSACTION READ ONLY"

    def __init__(self, raw: Any, wait_s: float) -> None:
        super().__init__()
        self._raw = raw
        self._batch = bytearray()
        self._max_bytes = 1 << 20
        self._one_by_one = False
        limits = {"innodb_lock_wait_timeout": wait_s, "idle_transaction_timeout": 2 * wait_s}  # then locks are released
        try:
            for statement in (*_SETTINGS, *(f"SET SESSION {name} = {max(int(s), 1)}" for name, s in limits.items())):
                self.run(statement)
            max_bytes, in_cluster = cast("tuple[int, int]", self.rows("SELECT @@max_allowed_packet, @@wsrep_on")[0])
        except BaseException:
            self.close()
            raise
        self._max_bytes, self._one_by_one = max_bytes - 1, bool(in_cluster)

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        self.run(sql, values)
        return self._send()

    def run(self, sql: str, values: Sequence[Value] = ()) -> None:
        with self._guarded(), self._raw.cursor() as cursor:
            statement = cursor.mogrify(sql.replace("?", "%s"), values or None).encode(errors="surrogateescape")
        if len(statement) > self._max_bytes:
            raise FAILURES["too large"]()  # a larger packet ends the connection
        if self._batch and (self._one_by_one or len(self._batch) + len(statement) + 2 > self._max_bytes):
            self._send()
        self._batch += (b"; " if self._batch else b"") + statement

    def roll_back(self) -> None:
        self._batch = bytearray()
        super().roll_back()

    def close(self) -> None:
        self.usable = False
        with suppress(pymysql.Error, OSError):
            # PyMySQL's `close()` would first send a message to the server, which may not respond.
            self._raw._force_close()  # noqa: SLF001

    def _send(self) -> list[Row]:
        """Send the statements of the batch and return the rows of the last one."""
        statements, self._batch = bytes(self._batch), bytearray()
        with self._guarded(), self._raw.cursor() as cursor:
            cursor.execute(statements)
            while cursor.nextset():
                pass
            return list(cursor.fetchall())

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (pymysql.Error, OSError) as error:
            meant = meaning(error)
            self.usable = self.usable and not isinstance(meant, ServerConnectionLost)
            raise meant from None
        except BaseException:  # for example an interrupt while reading a reply
            self.usable = False
            raise


class MariadbBackend(ServerBackend):
    """Backend in the MariaDB database at the URL `mariadb://` + `rest`.

    `rest` is `user:password@host:port,host:port/database`. With several hosts, it connects to the first host that can
    be reached; hosts that could not be reached before are tried last.
    """

    dialect = "mariadb"

    def __init__(self, rest: str, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> None:
        address, timeout_s, connections, given = split_options(rest)
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
        self._login = {name: urllib.parse.unquote(value) for name, value in named.items()} | given
        self._hosts = [_host(text) for text in hosts.split(",")]
        self._tls = _tls_context(given)
        super().__init__(timeout_s, connections, clock, new_id)

    def connect(self) -> MariadbConnection:
        hosts = list(self._hosts)
        while True:
            host, port = hosts.pop(0)
            try:
                return self._connect_to(host, port)
            except ServerConnectionLost:
                self._hosts = [*(other for other in self._hosts if other != (host, port)), (host, port)]
                if not hosts:
                    raise

    def _connect_to(self, host: str, port: int) -> MariadbConnection:
        answer_s = self.answer_s
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
        return MariadbConnection(raw, answer_s * 0.8)


def _host(text: str) -> tuple[str, int]:
    name, colon, port = text.rpartition(":")
    if not colon:
        return text, DEFAULT_PORT
    if not port.isdecimal() or not name:
        raise InvalidInput("each host in the URL must have the form name:port")
    return name.strip("[]"), int(port)


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


def _code(error: BaseException) -> int:
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


def _unreachable(error: BaseException) -> Exception:
    """Return the exception that reports a failed attempt to connect, without names of hosts and users."""
    code = _code(error)
    if code in {ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, 1698}:
        return FAILURES["wrong login"]()
    return FAILURES["no database"]() if code == ER.BAD_DB_ERROR else unreachable(str(error))


_CODES = {
    "conflict": (ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, ER.DUP_ENTRY, 1020),  # 1020: a row changed since it was read
    "full": (1021, ER.RECORD_FILE_FULL, 1041),  # the disk, a table, memory
    "too large": (ER.NET_PACKET_TOO_LARGE, ER.TOO_BIG_ROWSIZE, ER.DATA_TOO_LONG),
    "no permission": (
        ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR,
    ),
    "no table": (ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR),
    "lost": (
        0,  # PyMySQL's code for a connection that the other side closed
        CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_COMMANDS_OUT_OF_SYNC,
        ER.SERVER_SHUTDOWN, ER.QUERY_INTERRUPTED, 1927,  # 1927: killed
        ER.OPTION_PREVENTS_STATEMENT,  # the server runs with --read-only: a replica
        1047,  # a node that left its cluster
        1158, 1159, 1160, 1161,  # network failure within a packet
    ),
}  # fmt: skip
_MEANINGS = {code: failure for failure, codes in _CODES.items() for code in codes}


def meaning(error: BaseException) -> Exception:
    """Convert an error of MariaDB to the corresponding exception of this library.

    An error that only a bug can cause is returned unchanged.
    """
    failure = _MEANINGS.get(_code(error))
    if failure is None and isinstance(error, (OSError, pymysql.InterfaceError)):
        failure = "lost"
    return cast("Exception", error) if failure is None else FAILURES[failure]()
