"""Read-only access to the memory stores in a SQLite file. It does not write, create or recover anything.

SQLite needs a writable index beside the log, even for reading. Where nothing can be written (a read-only mount, a
snapshot, a full disk, files of another user), a database that no process has open is read without locks and log
(`immutable=1`). If its log has content, that content is part of the acknowledged changes. Without an index, a private
copy of both files is read then.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from tempfile import TemporaryDirectory
from typing import Never, TypeVar

from retentive.errors import Closed, Damaged, NotFound, RetentiveError, StorageReadOnly, Unavailable, UnknownSchema
from retentive.storage import forking
from retentive.storage.contract import sortable_id
from retentive.storage.disk import can_write, free_bytes, need_readable, os_error
from retentive.storage.findings import Finding
from retentive.storage.sql.backend import SqlBackend
from retentive.storage.sqlite.connection import IMMUTABLE, READ_ONLY, SqliteConnection
from retentive.storage.sqlite.format import LOG_SUFFIX, check_format, integrity, log_findings, size_of

T = TypeVar("T")
_INDEX_BYTES = 64 * 1024  # SQLite's index of the log, and a page of the log
_MOST_ATTEMPTS = 10
_Stamp = tuple[int, int, int, int, bool]


class ReadOnlyBackend(SqlBackend):
    """Backend for reading the SQLite file at `path`. Methods that write raise `StorageReadOnly`.

    Raises `NotFound` if there is no file, and `PermissionDenied` if this process may not read it.
    """

    def __init__(self, path: str) -> None:
        super().__init__(time.time, sortable_id)
        self._path = os.path.abspath(path)
        self._connection: SqliteConnection | None = None
        self._stamp: _Stamp | None = None
        self._opened = ExitStack()  # the connection, and a private copy
        self._closed = False
        self.renew_after_fork()
        if not os.path.exists(path):
            raise NotFound("there is no database at this location; restore it from a backup")
        need_readable(path)
        try:
            check_format(path)
        except RetentiveError as error:
            if isinstance(error, UnknownSchema):  # a damaged file can still be opened
                raise
        self._look_up()
        forking.watch(self)

    def renew_after_fork(self) -> None:
        """Replace the lock in a forked child, where the thread that holds it does not exist."""
        self._lock = threading.RLock()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep the file closed during the context, so that the process can fork."""
        with self._lock:
            self._drop()
            yield

    def _look_up(self) -> SqliteConnection:
        """Return a connection to the present state of the file."""
        if self._closed:
            raise Closed("the location is closed; open it again")
        stamp = _stamp(self._path)
        if self._connection is None or self._stamp not in {None, stamp}:
            self._drop()
            self._connection = self._opened.enter_context(closing(self._connected(stamp)))
        return self._connection

    def _connected(self, stamp: _Stamp) -> SqliteConnection:
        path, has_log, has_index = self._path, stamp[3] > 0, stamp[4]
        if has_index or (can_write(path) and free_bytes(path) >= _INDEX_BYTES):
            self._stamp = None  # SQLite finds the changes of a file that it reads with locks
            return SqliteConnection(path, mode=READ_ONLY)
        self._stamp = stamp
        if not has_log:
            return SqliteConnection(path, mode=IMMUTABLE)
        try:
            copy = os.path.join(self._opened.enter_context(TemporaryDirectory(prefix="retentive-")), "memory.db")
            for suffix in ("", LOG_SUFFIX):
                shutil.copyfile(path + suffix, copy + suffix)
        except OSError as error:
            raise os_error(error) from None
        return SqliteConnection(copy, mode=READ_ONLY)

    def look(self, work: Callable[[SqliteConnection], T]) -> T:
        """Return the result of `work`. If the file changes while it is read without locks, `work` runs again."""
        with self._lock:
            for _ in range(_MOST_ATTEMPTS):
                connection = self._look_up()
                try:
                    connection.run("BEGIN")
                    result = work(connection)
                except Damaged:
                    if self._is_steady():
                        raise
                else:
                    if self._is_steady():
                        return result
                finally:
                    connection.roll_back()
        raise Unavailable("the database was changed each time while it was read")

    def _is_steady(self) -> bool:
        return self._stamp in {None, _stamp(self._path)}

    def check(self, *, quick: bool = False) -> Iterator[Finding]:
        with self._lock:  # yields each finding at once: if the file is damaged, the next statement may fail
            yield from log_findings(self._path)
            yield from integrity(self._look_up(), quick=quick)
            yield from self._examine(self._look_up(), quick=quick)

    def write(self, *_: object, **options: object) -> Never:
        raise StorageReadOnly("the location was opened read-only, because its files cannot be written")

    transact = write

    def _drop(self) -> None:
        self._connection = None
        self._opened.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()


def _stamp(path: str) -> _Stamp:
    """Return what changes if another process opens or writes the database."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise os_error(error) from None
    log_bytes = size_of(path + LOG_SUFFIX)
    return found.st_ino, found.st_size, found.st_mtime_ns, log_bytes, os.path.exists(path + "-shm")
