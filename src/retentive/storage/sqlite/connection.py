"""Connections to a SQLite file, and the mapping of SQLite's errors."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress

from retentive.errors import Damaged, PermissionDenied, Refused, RetentiveError, StorageReadOnly, StoreFull, Unavailable
from retentive.storage.backoff import pauses, wait_until
from retentive.storage.sql.connection import Connection, Row, Value

READ_TIMEOUT_S = 30.0
_ESCAPED = str.maketrans({"%": "%25", "?": "%3f", "#": "%23"})  # Source: sqlite.org/uri.html, section 3.1
_LOOKING = (
    "PRAGMA temp_store = MEMORY",  # keeps texts out of temporary files
    "PRAGMA trusted_schema = OFF",
)
_WRITING = (
    "PRAGMA synchronous = FULL",  # each commit syncs the log, so a change is durable when the call returns
    "PRAGMA secure_delete = ON",  # overwrites deleted content
    *_LOOKING,
)
_IS_RECOVERED = "another process recovers the database; try again later"
READ_ONLY, IMMUTABLE = "mode=ro", "mode=ro&immutable=1"


class SqliteConnection(Connection):
    """Connection to the SQLite file at `path`, or to a new database in memory. Raises the errors of `retentive.errors`.

    With `use_log`, it enables the write-ahead log. With `mode`, it only reads, and also reads damaged text: invalid
    UTF-8 is decoded to lone surrogates. In the mode `IMMUTABLE`, it creates no other files, acquires no locks, and
    ignores the write-ahead log.
    """

    usable = True

    def __init__(
        self, path: str | None, *, timeout_s: float = READ_TIMEOUT_S, use_log: bool = False, mode: str | None = None
    ) -> None:
        name = ":memory:" if path is None else path
        try:
            self._raw = sqlite3.connect(
                name if mode is None else f"file:{name.translate(_ESCAPED)}?{mode}",
                timeout=timeout_s,
                isolation_level=None,
                check_same_thread=False,
                uri=mode is not None,
            )
        except sqlite3.Error as error:
            raise meaning(error) from None
        if mode is not None:
            self._raw.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        try:
            if use_log:
                wait_until(self._uses_log, "another process has locked the database; try again later")
            for pragma in _WRITING if mode is None else ("PRAGMA query_only = ON", *_LOOKING):
                self.run(pragma)
        except RetentiveError:
            self.close()
            raise

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        try:
            return self._raw.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_BUSY_RECOVERY:
                raise meaning(error) from None
        except UnicodeDecodeError:  # SQLite quotes the damaged bytes in its error message
            raise Damaged("the database file is damaged, or is not a SQLite database") from None
        # Another process recovers the log, of a new file or after a crash. A connection without a timeout gets here.
        wait_until(lambda: self._answer("PRAGMA schema_version") is not None, _IS_RECOVERED)
        return self.rows(sql, values)

    def run(self, sql: str, values: Sequence[Value] = ()) -> None:
        self.rows(sql, values)

    def begin(self, *, deadline: float | None = None) -> None:
        """Start a write transaction. If another program has SQLite's lock, wait for it until the deadline.

        The pauses between attempts are at most 2 ms; those of SQLite's own busy handler are up to 100 ms. Raises
        `Unavailable` at the deadline.
        """
        wait_until(
            lambda: self._answer("BEGIN IMMEDIATE") is not None,
            "another process has locked the memory store",
            deadline=deadline,
        )

    def rewrite_header(self, *, deadline: float | None = None) -> None:
        """Commit a change of a field in the file header that has no meaning.

        SQLite increments the field itself when the schema changes. The only effect is that other connections read the
        schema again.
        """
        try:
            self.begin(deadline=deadline)
            number = int(self.rows("PRAGMA schema_version")[0][0] or 0) % 1_000_000_000
            self.run(f"PRAGMA schema_version = {number + 1}")
            self.run("COMMIT")
        finally:
            self.roll_back()

    def _uses_log(self) -> bool:
        """Enable the write-ahead log. Returns False while another process opens the same new file.

        SQLite's busy handler does not wait in this case.
        """
        mode = self._answer("PRAGMA journal_mode = WAL")
        if mode is not None and mode != [("wal",)]:
            raise Unavailable("the file system does not support a write-ahead log")
        return mode is not None

    def _answer(self, sql: str) -> list[Row] | None:
        """Return the rows of a statement, or None if another process holds a lock."""
        try:
            return self._raw.execute(sql).fetchall()
        except sqlite3.Error as error:
            if _primary_code(error) == sqlite3.SQLITE_BUSY:
                return None
            raise meaning(error) from None

    def clear_log(self, *, wait_s: float) -> bool:
        """Checkpoint and truncate the write-ahead log.

        Returns False if a reader still uses the log after `wait_s` seconds.
        """
        retries = pauses(0.001, 0.01, deadline=time.monotonic() + wait_s)
        while self.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]:
            if not next(retries, False):
                return False
        return True

    def roll_back(self) -> None:
        """Roll back the open transaction, if there is one."""
        if self._raw.in_transaction:
            with suppress(sqlite3.Error):  # closing the connection rolls back too
                self._raw.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection. An open transaction is rolled back."""
        with suppress(sqlite3.Error):
            self._raw.close()


def meaning(error: sqlite3.Error) -> Exception:
    """Convert an error of SQLite to the corresponding exception of this library.

    An error that only a bug can cause is returned unchanged.
    """
    primary = _primary_code(error)
    if primary == sqlite3.SQLITE_TOOBIG:
        return Refused("too_large_to_keep")
    if primary == sqlite3.SQLITE_FULL or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_SHMSIZE:
        return StoreFull("no space is left for the memory store")
    # Python's module raises an error without a code for a text that is not UTF-8.
    if primary in _DAMAGED or str(error).startswith("Could not decode to UTF-8"):
        return Damaged("the database file is damaged, or is not a database")
    if primary == sqlite3.SQLITE_READONLY:
        return StorageReadOnly("the database is on a read-only file system, or this process may only read its file")
    if primary in _DENIED:
        return PermissionDenied("this process has no permission to write to the database")
    if primary in _PASSING:
        return Unavailable(f"the database failed ({error.sqlite_errorname})")
    if str(error).startswith(_NOT_THERE):  # a plain SQLITE_ERROR; only its text identifies it
        return Damaged("a table of the database is missing or damaged")
    return error


def _primary_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_DENIED = {sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_PASSING = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_SCHEMA,
}  # fmt: skip
_NOT_THERE = ("no such table", "no such column", "malformed database schema", "unsupported file format")
