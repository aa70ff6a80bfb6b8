"""Connection that sends statements to PostgreSQL in batches, with the pipeline mode of libpq.

A statement without a result stays in libpq's buffer until the next query or the commit, so a batch of edits takes two
round trips. psycopg's cursors send each statement separately, so an edit took twice as long with them.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import NoReturn, TypeAlias

from psycopg import errors
from psycopg.pq import ConnStatus, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from retentive.storage.sql.connection import Row, Value

_INT8, _BYTEA, _INFERRED = 20, 17, 0
_INTEGERS = {20, 21, 23, 26}  # types int8, int2, int4, oid
_TEXT, _BINARY = int(Format.TEXT), int(Format.BINARY)
_MAX_PREPARED = 200
_FIRST_PLANS = 256
"""Number of statements after which a connection discards its plans for the first time.

PostgreSQL keeps the plan of a prepared statement. A plan that was made for an almost empty table may use an unsuitable
index, which reads all versions of a store when the table has grown. The server makes new plans only after the next
ANALYZE, up to a minute later. So the connection discards them after 256 statements, 512, 1,024, and so on.
"""
_Statement: TypeAlias = tuple[bytes, tuple[int, ...]]  # SQL, and the types of the values


class NoAnswer(Exception):
    """The database server did not reply in time, or closed the connection."""


class Wire:
    """Connection to PostgreSQL in pipeline mode.

    Only one thread at a time may use it. After `NoAnswer`, it cannot be used again.
    """

    def __init__(self, pgconn: PGconn, *, answer_s: float) -> None:
        self._pgconn = pgconn
        self._answer_s = answer_s
        self._poll = select.poll()
        self._pending: deque[bool] = deque()  # one item for each request that has no reply yet; true for a sync
        self._prepared: dict[_Statement, bytes] = {}
        self._doubtful: list[_Statement] = []  # prepared in the current batch; lost if the batch fails
        self._names = 0
        self._sent, self._keeps_plans_until = 0, _FIRST_PLANS
        self._tables: list[list[Row]] = []  # rows of the queries of the last batch
        self.done = b""  # command tag of the last completed command
        self.prepares = False  # a pooler may share the session, so names of prepared statements could clash
        pgconn.enter_pipeline_mode()

    @property
    def idle(self) -> bool:
        """True if no transaction is open."""
        return self._pgconn.transaction_status == TransactionStatus.IDLE

    def send(self, sql: str, values: Sequence[Value] = ()) -> None:
        """Add a statement to the batch. It is sent with the next `ask`, `ask_all` or `sync`."""
        text = _numbered(sql)
        types, given, formats = _encoded(values)
        try:
            if not self.prepares:
                self._pgconn.send_query_params(text, given, types, formats, Format.BINARY)
            else:
                self._sent += 1
                if self._sent > self._keeps_plans_until and not sql.startswith("BEGIN "):  # it must be the first
                    self._discard_plans()
                name = self._prepared.get((text, types)) or self._prepare(text, types)
                self._pgconn.send_query_prepared(name, given, formats, Format.BINARY)
        except errors.Error:
            self._broken()
        self._pending.append(False)

    def _discard_plans(self) -> None:
        self._keeps_plans_until *= 2
        self._pgconn.send_query_params(b"DISCARD PLANS", [])
        self._pending.append(False)

    def _prepare(self, text: bytes, types: tuple[int, ...]) -> bytes:
        if self._names >= _MAX_PREPARED:
            self._pgconn.send_prepare(b"", text, types)
            self._pending.append(False)
            return b""
        self._names += 1
        name = b"c%d" % self._names
        self._pgconn.send_prepare(name, text, types)
        self._pending.append(False)
        self._prepared[text, types] = name
        self._doubtful.append((text, types))
        return name

    def ask(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Send the batch together with one more query, and return the rows of this query.

        Raises the first error of the batch as `psycopg.Error`. The batch ends with a sync instead of a flush, because
        the server starts its idle timeout at a sync. After this timeout, the server releases the locks of a client that
        has disappeared.
        """
        return self.ask_all([(sql, values)])[-1]

    def ask_all(self, queries: Sequence[tuple[str, Sequence[Value]]]) -> list[list[Row]]:
        """Send the batch together with `queries`, and return the rows of each query."""
        for sql, values in queries:
            self.send(sql, values)
        return self.sync()[-len(queries) :]

    def sync(self) -> list[list[Row]]:
        """Send the batch and return the rows of its queries.

        Raises the first error of the batch as `psycopg.Error`. After an error, the server skips the rest of the batch.
        It runs the next batch normally.
        """
        try:
            self._pgconn.pipeline_sync()
        except errors.Error:
            self._broken()
        self._pending.append(True)
        self._tables = []
        self._collect()
        return self._tables

    def _collect(self) -> None:
        """Receive the replies to all pending requests."""
        deadline = time.monotonic() + self._answer_s
        failure: errors.Error | None = None
        self._flush(deadline)
        while self._pending:
            result = self._result(deadline)
            if result is None:
                if not self._pending[0]:
                    self._pending.popleft()
            elif result.status == ExecStatus.PIPELINE_SYNC:
                self._pending.popleft()
            elif result.status == ExecStatus.FATAL_ERROR:
                failure = failure or errors.error_from_result(result)
            else:
                self._take(result)
        doubtful, self._doubtful = self._doubtful, []
        if failure is not None:
            for statement in doubtful:
                del self._prepared[statement]
            raise failure

    def _take(self, result: PGresult) -> None:
        if result.status == ExecStatus.TUPLES_OK:
            self._tables.append(_rows(result))
        elif result.status == ExecStatus.COMMAND_OK:
            self.done = result.command_status or self.done

    def _flush(self, deadline: float) -> None:
        try:
            while self._pgconn.flush():
                self._wait(select.POLLIN | select.POLLOUT, deadline)
                self._pgconn.consume_input()  # the server may stop reading until the client reads its output
        except errors.Error:
            self._broken()

    def _result(self, deadline: float) -> PGresult | None:
        try:
            while self._pgconn.is_busy():
                self._wait(select.POLLIN, deadline)
                self._pgconn.consume_input()
            result = self._pgconn.get_result()
        except errors.Error:
            self._broken()
        if result is None and self._pgconn.status == ConnStatus.BAD:  # no further reply will arrive
            self._broken()
        return result

    def _wait(self, events: int, deadline: float) -> None:
        socket = self._pgconn.socket
        self._poll.register(socket, events)
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not self._poll.poll(left_s * 1_000):
            raise NoAnswer

    def _broken(self) -> NoReturn:
        raise NoAnswer from None


@cache
def _numbered(sql: str) -> bytes:
    """Replace each placeholder `?` with a placeholder of PostgreSQL: `$1`, `$2` and so on."""
    first, *rest = sql.split("?")
    return "".join([first, *(f"${number}{part}" for number, part in enumerate(rest, start=1))]).encode()


def _encoded(values: Sequence[Value]) -> tuple[tuple[int, ...], list[bytes | None], list[int]]:
    """Return the types, encoded values and formats of `values`.

    An edit has about fifty values. For speed, one loop builds all three lists.
    """
    types: list[int] = []
    given: list[bytes | None] = []
    formats: list[int] = []
    for value in values:
        if isinstance(value, str):
            types.append(_INFERRED)
            given.append(value.encode())
            formats.append(_TEXT)
        elif value is None:
            types.append(_INFERRED)
            given.append(None)
            formats.append(_TEXT)
        elif isinstance(value, int):
            types.append(_INT8)
            given.append(b"%d" % value)
            formats.append(_TEXT)
        else:
            types.append(_BYTEA)
            given.append(value)
            formats.append(_BINARY)
    return tuple(types), given, formats


def _rows(result: PGresult) -> list[Row]:
    if not result.ntuples:
        return []
    decoders = [_DECODERS.get(result.ftype(column), bytes.decode) for column in range(result.nfields)]
    return [
        tuple(
            [
                None if (data := result.get_value(row, column)) is None else decode(data)
                for column, decode in enumerate(decoders)
            ]
        )
        for row in range(result.ntuples)
    ]


def _integer(data: bytes) -> int:
    return int.from_bytes(data, signed=True)


def _bytes(data: bytes) -> bytes:
    return data


_DECODERS: dict[int, Callable[[bytes], Value]] = {**dict.fromkeys(_INTEGERS, _integer), _BYTEA: _bytes}
