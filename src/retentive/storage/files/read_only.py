"""Directory whose files cannot be written, such as one on a read-only mount or in a snapshot."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from retentive.errors import NotFound
from retentive.storage.contract import Snapshot, StoreInfo
from retentive.storage.disk import Scratch, os_error
from retentive.storage.files.backend import DirectoryBackend
from retentive.storage.files.check import examine_files
from retentive.storage.files.transaction import DirectorySnapshot, ExternalEdit
from retentive.storage.files.tree import (
    DATABASE,
    PRIVATE,
    FileTree,
    check_private,
    not_a_directory,
    parts_of,
    temporary_folder,
)
from retentive.storage.sql.backend import find_store
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.storage.sqlite.read_only import ReadOnlyBackend

if TYPE_CHECKING:
    from retentive.storage.findings import Finding

T = TypeVar("T")


class ReadOnlyDirectory(ReadOnlyBackend):
    """Backend for reading a directory without writing, creating or recovering anything in it.

    By default, the records are read, for example to examine a directory that may be damaged. With `compares`, files are
    compared with their records, as in every read. A file that a person edited cannot be recorded here, so such a
    directory is read through a temporary copy of its database, in which the edit is recorded. Raises `NotFound` if the
    directory has no database.
    """

    def __init__(self, root: str, *, compares: bool = False) -> None:
        self.root = os.path.abspath(root)
        self._compares = compares
        self._recorded: DirectoryBackend | None = None
        private = os.path.join(self.root, PRIVATE)
        for name in (PRIVATE, "memories"):
            path = os.path.join(self.root, name)
            if os.path.islink(path) or (os.path.exists(path) and not os.path.isdir(path)):
                raise not_a_directory(name)
        try:
            check_private(private)
        except FileNotFoundError:
            raise NotFound("the directory has no database in .retentive, so there is no record of its files") from None
        except OSError as error:
            raise os_error(error) from None
        super().__init__(os.path.join(private, DATABASE))
        try:
            self._base = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            super().close()
            raise os_error(error) from None

    def directory_of(self, store: StoreInfo) -> str | None:
        parts = parts_of(store)
        return None if parts is None else os.path.join(self.root, *parts)

    def check(self, *, quick: bool = False) -> Iterator[Finding]:
        yield from super().check(quick=quick)
        with self._lock:  # without a transaction, because it may have to see the state after a wait
            yield from list(examine_files(self._look_up(), self._base))

    def close(self) -> None:
        super().close()
        if self._base >= 0:
            os.close(self._base)
            self._base = -1

    def snapshot(self, connection: Connection, store_id: str) -> SqlSnapshot:
        parts = parts_of(find_store(connection, store_id)) if self._compares else None
        if parts is None:
            return super().snapshot(connection, store_id)
        return DirectorySnapshot(connection, store_id, FileTree(self._base, parts, Scratch(-1)), wants_stamps=False)

    def read(self, store_id: str, work: Callable[[Snapshot], T], *, first_path: str | None = None) -> T:
        try:
            return super().read(store_id, work, first_path=first_path)
        except ExternalEdit:
            with self._lock:
                if self._recorded is None or not self._is_steady():
                    self._drop()
                    self._look_up()
                    self._recorded = self._copied()
                return self._recorded.read(store_id, work)

    def _copied(self) -> DirectoryBackend:
        private = temporary_folder()
        try:
            for name in ("journal", DATABASE, f"{DATABASE}-wal"):
                with suppress(FileNotFoundError):
                    shutil.copyfile(os.path.join(self.root, PRIVATE, name), os.path.join(private, name))
        except OSError as error:
            shutil.rmtree(private, ignore_errors=True)
            raise os_error(error) from None
        return DirectoryBackend(self.root, temporary=private)

    def _drop(self) -> None:
        recorded, self._recorded = self._recorded, None
        if recorded is not None:
            recorded.close()
        super()._drop()
