"""Directory whose files cannot be written, such as one on a read-only mount or in a snapshot."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from retentive.storage.contract import Snapshot
from retentive.storage.disk import os_error
from retentive.storage.exchange import Scratch
from retentive.storage.files.backend import DirectoryBackend, ReadOnlyDirectory
from retentive.storage.files.known import KnownFiles
from retentive.storage.files.layout import PRIVATE, parts_of
from retentive.storage.files.transaction import DirectorySnapshot, ExternalEdit
from retentive.storage.files.tree import FileTree
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import select_head
from retentive.storage.sql.stores import find_store

T = TypeVar("T")


class UnwritableDirectory(ReadOnlyDirectory):
    """Backend for reading the memories of a directory that cannot be written.

    Files are compared with their records, as in every read. A file that a person edited cannot be recorded here. Such
    a directory is therefore read through a temporary copy of its database, in which the edit is recorded.
    """

    def __init__(self, root: str) -> None:
        self._known: dict[str, KnownFiles] = {}
        self._recorded: DirectoryBackend | None = None
        super().__init__(root)

    def _snapshot(self, connection: Connection, store_id: str) -> Snapshot:
        if store_id not in self._known:
            tree = FileTree(self._base, parts_of(find_store(connection, store_id)), Scratch(-1))
            self._known[store_id] = KnownFiles(tree, folds=False)
        return DirectorySnapshot(connection, store_id, select_head(connection, store_id), self._known[store_id])

    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        try:
            return super().read(store_id, work)
        except ExternalEdit:
            with self._lock:
                if self._recorded is None or not self._is_steady():
                    self._drop()
                    self._look_up()
                    self._recorded = self._copied()
                return self._recorded.read(store_id, work)

    def _copied(self) -> DirectoryBackend:
        private = tempfile.mkdtemp(prefix="retentive-")
        try:
            for name in ("format", "journal", "memory.db", "memory.db-wal"):
                with suppress(FileNotFoundError):
                    shutil.copyfile(os.path.join(self.root, PRIVATE, name), os.path.join(private, name))
            return DirectoryBackend(self.root, private=private)
        except OSError as error:
            shutil.rmtree(private, ignore_errors=True)
            raise os_error(error) from None

    def _drop(self) -> None:
        recorded, self._recorded = self._recorded, None
        if recorded is not None:
            recorded.close()
            shutil.rmtree(recorded.private, ignore_errors=True)
        super()._drop()
