"""Directory of memories without the bookkeeping of retentive. The SDK's local tool creates such directories.

A read creates nothing in the directory. When the directory is opened, its files become versions in a temporary
database. Each version has the time of its file, and an id that is computed from the path and the text. Therefore every
process sees the same history until the first change.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import TypeVar, Unpack

from retentive.errors import RetentiveError
from retentive.storage.contract import (
    DEFAULT_WORKSPACE,
    EXTERNAL,
    Actor,
    Backend,
    Clock,
    Imported,
    NewId,
    NewStore,
    Snapshot,
    StoreInfo,
    StoreSelection,
    Transaction,
    Version,
    now_us,
    sortable_id,
    to_datetime,
)
from retentive.storage.disk import os_error, sync_directory
from retentive.storage.files.backend import DirectoryBackend
from retentive.storage.files.layout import DEFAULT_KEY, PRIVATE
from retentive.storage.files.transaction import DirectoryTransaction
from retentive.storage.files.tree import hash_of
from retentive.storage.sql.transaction import SqlTransaction
from retentive.values.paths import ROOT

T = TypeVar("T")


class ForeignDirectory(Backend):
    """Backend on a directory that has no bookkeeping folder yet.

    The bookkeeping (database and locks) is in a temporary directory. The first change copies it into the directory of
    the memories. Ids that were read before the first change stay valid.
    """

    inner: DirectoryBackend

    def __init__(self, root: str, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> None:
        self._root = os.path.abspath(root)
        self._clock, self._new_id = clock, new_id
        self._lock = threading.RLock()
        try:
            self._temporary = tempfile.mkdtemp(prefix="retentive-")
            self._finalizer = weakref.finalize(self, _remove, self._temporary, os.getpid())
            oldest_us = _oldest_us(self._root)
        except OSError as error:
            raise os_error(error) from None
        self._copy = self.inner = DirectoryBackend(self._root, clock=clock, new_id=new_id, private=self._temporary)
        created_us = min(oldest_us or now_us(clock), now_us(clock)) - 1  # versions are later than their store
        store_id, created_at = _id("memstore_", created_us, self._root, b""), to_datetime(created_us)
        self.inner.create_store(key=DEFAULT_KEY, name=DEFAULT_KEY, created_at=created_at, store_id=store_id)
        with suppress(RetentiveError):  # a file that cannot be read; the command that reads it reports the error
            self.inner.write(store_id, self._import)

    def _import(self, tx: Transaction) -> None:
        """Record all files as versions, oldest first. Their times and ids depend only on the files."""
        assert isinstance(tx, DirectoryTransaction)
        files, now, versions = tx.tree.scan(ROOT), now_us(self._clock), []
        for edit in tx.external_edits(ROOT):
            path, data = str(edit.path), edit.data or b""
            at = min(_time_us(files[path]), now) if path in files else now  # no time in the future
            version = Version(
                _id("memver_", at, path, data), _id("mem_", at, path, data), "created", path, len(data), hash_of(data),
                EXTERNAL, to_datetime(at), revision=1, provenance_text=edit.provenance_text,
            )  # fmt: skip
            versions.append((version, data))
        versions.sort(key=lambda item: item[0].id)
        changes = [Imported(version, None, data) for version, data in versions]
        SqlTransaction.record(tx, changes, EXTERNAL)

    def _adopted(self) -> DirectoryBackend:
        """Copy the bookkeeping into the directory of the memories if this was not done before.

        Returns the backend for writes. Reads in progress end with the other one.
        """
        with self._lock:
            if self.inner is self._copy:
                try:
                    with self._copy.exclusive():
                        _adopt(self._temporary, self._root)
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

    def write(
        self,
        store_id: str,
        work: Callable[[Transaction], T],
        *,
        may_use_reserve: bool = False,
        first_path: str | None = None,
    ) -> T:
        return self._adopted().write(store_id, work, may_use_reserve=may_use_reserve, first_path=first_path)

    def put_side_records(
        self, store_id: str, kind: str, values: Mapping[str, str | None], *, wait: bool = True
    ) -> None:
        self.inner.put_side_records(store_id, kind, values, wait=wait)

    def side_records(
        self, store_id: str, kind: str, *, after: str = "", limit: int | None = None
    ) -> Iterator[tuple[str, str]]:
        return self.inner.side_records(store_id, kind, after=after, limit=limit)

    def close(self) -> None:
        with self._lock:
            self.inner.close()
            self._copy.close()
            self._finalizer()


def _time_us(file: os.stat_result) -> int:
    return max(file.st_mtime_ns // 1_000, 2)


def _oldest_us(root: str) -> int | None:
    folders = os.walk(os.path.join(root, "memories"))
    files = (os.path.join(folder, name) for folder, _, names in folders for name in names)
    return min((_time_us(os.lstat(file)) for file in files), default=None)


def _id(prefix: str, at_us: int, path: str, data: bytes) -> str:
    """Return an id in the form of `sortable_id`, with a digest of path and text instead of random digits."""
    name = path.encode("utf-8", "surrogateescape") + b"\0" + sha256(data).digest()
    return f"{prefix}{at_us:014x}{sha256(prefix.encode() + name).hexdigest()[:18]}"


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


def _remove(temporary: str, creator: int) -> None:
    """Remove the directory `temporary`. Does nothing in a forked child of the process `creator`."""
    if os.getpid() == creator:
        shutil.rmtree(temporary, ignore_errors=True)
