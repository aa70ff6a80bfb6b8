"""Directory of memories without the bookkeeping of retentive. The SDK's local tool creates such directories.

A read creates nothing in the directory: its files become versions in a temporary database. The first change copies the
database into the directory, so the ids that this process has read stay valid.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, Unpack

from retentive.errors import RetentiveError
from retentive.storage.contract import (
    DEFAULT_WORKSPACE,
    Actor,
    Backend,
    Clock,
    NewId,
    NewStore,
    Snapshot,
    StoreInfo,
    StoreSelection,
    Transaction,
    WriteMode,
    sortable_id,
)
from retentive.storage.disk import os_error, sync_directory
from retentive.storage.files.backend import DirectoryBackend
from retentive.storage.files.tree import DEFAULT_KEY, PRIVATE, temporary_folder
from retentive.values.paths import ROOT

T = TypeVar("T")


class ForeignDirectory(Backend):
    """Backend on a directory that has no bookkeeping folder yet.

    The bookkeeping is in a temporary directory until the first change.
    """

    inner: DirectoryBackend

    def __init__(self, root: str, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> None:
        self._root = os.path.abspath(root)
        self._clock, self._new_id = clock, new_id
        self._lock = threading.RLock()
        self._copy = DirectoryBackend(self._root, clock=clock, new_id=new_id, temporary=temporary_folder())
        self.inner = self._copy
        store = self.inner.create_store(key=DEFAULT_KEY, name=DEFAULT_KEY)
        with suppress(RetentiveError):  # a file that cannot be read; the command that reads it reports the error
            self.inner.read(store.id, lambda snapshot: snapshot.list(ROOT))

    def _adopted(self) -> DirectoryBackend:
        """Copy the bookkeeping into the directory of the memories if this was not done before.

        Returns the backend for writes. Reads in progress end with the other one.
        """
        with self._lock:
            if self.inner is self._copy:
                try:
                    with self._copy.exclusive():
                        _adopt(self._copy.private, self._root)
                except OSError as error:
                    raise os_error(error) from None
                self.inner = DirectoryBackend(self._root, clock=self._clock, new_id=self._new_id)
            return self.inner

    def create_store(self, **new: Unpack[NewStore]) -> StoreInfo:
        return self._adopted().create_store(**new)

    def get_store(self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo | None:
        return self.inner.get_store(id_or_key, workspace=workspace)

    def list_stores(self, **chosen: Unpack[StoreSelection]) -> list[StoreInfo]:
        return self.inner.list_stores(**chosen)

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        self._adopted().erase_store(store_id, actor)

    def read(self, store_id: str, work: Callable[[Snapshot], T], *, first_path: str | None = None) -> T:
        return self.inner.read(store_id, work, first_path=first_path)

    def write(self, store_id: str, work: Callable[[Transaction], T], **mode: Unpack[WriteMode]) -> T:
        backend = self._adopted() if mode.get("wait", True) else self.inner  # a view that notes its time adopts nothing
        return backend.write(store_id, work, **mode)

    def close(self) -> None:
        with self._lock:
            self.inner.close()
            self._copy.close()


def _adopt(temporary: str, root: str) -> None:
    """Copy the bookkeeping durably from the directory `temporary` into `root`. No process may write meanwhile.

    Raises OSError, for example if the directory already has a bookkeeping folder.
    """
    part = os.path.join(root, f"{PRIVATE}.{secrets.token_hex(4)}.part")
    try:
        shutil.copytree(temporary, part, ignore=shutil.ignore_patterns("*-shm"))
        for folder, _, names in os.walk(part):
            for path in (os.path.join(folder, name) for name in names):
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
            sync_directory(folder)
        os.rename(part, os.path.join(root, PRIVATE))
        sync_directory(root)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        raise
