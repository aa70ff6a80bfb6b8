"""Directory backend: stores memories as plain files that people can edit. Has the guarantees of the SQLite backend.

`{root}/memories/...` contains the default store, in the layout of the official SDK's local tool. Other stores are in
`{root}/stores/{key}/memories/...`. `{root}/.retentive/` contains a SQLite database with metadata, history and texts.

Files are written after the commit of the database (`observer.py`). If a process was killed in between, the next one
writes them. Every other difference between the files and the database is an external edit and becomes a version. Only
after a power cut, files since the last sync may be stale. Then too, a difference becomes a version first. After that, a
file is changed back to the recorded text if a power cut can have left what it contains.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar, Unpack

from retentive.errors import InvalidInput, RetentiveError, Unavailable
from retentive.storage.capabilities import PlainFiles
from retentive.storage.contract import (
    Actor,
    Clock,
    Deleted,
    NewId,
    NewStore,
    Snapshot,
    StoreInfo,
    Transaction,
    sortable_id,
)
from retentive.storage.disk import DIRECTORY_MODE, make_directory, os_error
from retentive.storage.exchange import Scratch
from retentive.storage.files.check import examine_files, restore_texts
from retentive.storage.files.journal import MountId, mount_id
from retentive.storage.files.layout import PRIVATE, check_format, parts_of, write_format
from retentive.storage.files.observer import FilesObserver
from retentive.storage.files.transaction import ExternalEdit, Unsynced
from retentive.storage.files.tree import count_quarantined
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.stores import store_number
from retentive.storage.sqlite.backend import SqliteBackend
from retentive.values.paths import ROOT

if TYPE_CHECKING:
    from retentive.storage.findings import Finding

T = TypeVar("T")


class DirectoryBackend(SqliteBackend, PlainFiles):
    """Backend that keeps memories as files below the directory `root`. Linux and macOS.

    `private` is an existing directory that is used for the bookkeeping instead of `.retentive` (`foreign.py`).
    `mount_id` returns a name of the boot of the machine and of the mount of a file system.
    """

    def __init__(
        self,
        root: str,
        *,
        clock: Clock = time.time,
        new_id: NewId = sortable_id,
        private: str | None = None,
        mount_id: MountId = mount_id,
    ) -> None:
        self.root = os.path.abspath(root)
        self._opened = ExitStack()
        try:
            self._files = self._open_files(private, clock, new_id, mount_id)
            self.private = private or os.path.join(self.root, PRIVATE)
            path = os.path.join(self.private, "memory.db")
            super().__init__(path, clock=clock, new_id=new_id, observer=self._files)
            self._files.start(self.exclusive)
        except OSError as error:
            self._opened.close()
            raise os_error(error) from None
        except BaseException:
            self._opened.close()
            raise

    def _open_files(self, private: str | None, clock: Clock, new_id: NewId, mount_id: MountId) -> FilesObserver:
        """Create missing directories, check the format, and return the observer that will write the files.

        Raises OSError.
        """
        make_directory(self.root)
        self._base = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._opened.callback(os.close, self._base)
        if private is None:
            private = os.path.join(self.root, PRIVATE)
            _own_directory(PRIVATE, self._base)
        _refuse_links(private)
        check_format(private)
        write_format(private)
        _own_directory("memories", self._base)
        temporary = os.path.join(private, "tmp")
        make_directory(temporary)
        directory = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        scratch = Scratch(directory)
        self._opened.callback(scratch.close)
        folds, mount = _folds(self.root), mount_id(self._base)
        files = FilesObserver(private, self._base, scratch, clock=clock, new_id=new_id, folds=folds, mount=mount)
        self._opened.callback(files.close)
        return files

    def create_store(self, **new: Unpack[NewStore]) -> StoreInfo:
        made = super().create_store(**new)
        try:
            self._files.tree(made).make()
        except OSError as error:
            raise os_error(error) from None
        return made

    def directory_of(self, store: StoreInfo) -> str:
        return os.path.join(self.root, *parts_of(store))

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        info = self.get_store(store_id)
        if info is None or info.erased_at is not None:
            return
        erased = False
        while not erased:  # repeated after a concurrent write, because a remaining file would count as an external edit
            self.write(store_id, lambda tx: _delete_all(tx, actor), may_use_reserve=True)
            self._make_durable()
            erase = partial(self._erase_if_empty, store_id=store_id, actor=actor)
            erased = self.transact(erase, may_use_reserve=True)

    def _erase_if_empty(self, connection: Connection, store_id: str, actor: Actor | None) -> bool:
        number = store_number(connection, store_id)
        if connection.rows("SELECT 1 FROM memories WHERE store = ? LIMIT 1", (number,)):
            return False
        connection.run("DELETE FROM files WHERE store = ?", (number,))
        self._erase(connection, store_id, actor)
        return True

    def read(self, store_id: str, work: Callable[[Snapshot], T], *, first_path: str | None = None) -> T:
        try:
            return super().read(store_id, work, first_path=first_path)
        except ExternalEdit:  # recording the edit needs a write transaction
            return self.write(store_id, work, first_path=first_path)

    def write(
        self,
        store_id: str,
        work: Callable[[Transaction], T],
        *,
        may_use_reserve: bool = False,
        first_path: str | None = None,
    ) -> T:
        try:
            return super().write(store_id, work, may_use_reserve=may_use_reserve, first_path=first_path)
        except Unsynced:
            self._make_durable()
        try:
            return super().write(store_id, work, may_use_reserve=may_use_reserve, first_path=first_path)
        except Unsynced:
            raise Unavailable("the files of the memory store could not be synced to disk") from None

    def _make_durable(self) -> None:
        with self.exclusive() as writer:
            self._files.make_durable(writer)

    def quarantined(self) -> int:
        self.check_open()
        return count_quarantined(self._base)

    def check(self, *, quick: bool = False) -> Iterator[Finding]:
        yield from super().check(quick=quick)
        with self.reading() as connection:
            yield from list(examine_files(connection, self._base))

    def rebuild(self) -> None:
        for store in self.list_stores():
            tree = self._files.tree(store)
            self.transact(partial(restore_texts, store_id=store.id, read=tree.read))
        super().rebuild()
        self.transact(lambda connection: connection.run("DELETE FROM files"))
        self._make_durable()
        for store in self.list_stores():
            self.read(store.id, lambda snapshot: snapshot.list(ROOT))  # records external edits, or reverses them
            with self.exclusive():
                self._files.tree(store).prune(ROOT)

    def close(self) -> None:
        with suppress(RetentiveError):  # already closed, or the next process completes the sync
            if self._files.is_unsynced:
                self._make_durable()
        super().close()
        self._opened.close()

    def __del__(self) -> None:
        super().__del__()
        with suppress(Exception):  # the object is partly constructed, or the interpreter is shutting down
            self._opened.close()


def _folds(root: str) -> bool:
    """Return True if the file system ignores case or Unicode form in file names.

    Inode numbers are not compared, because with FUSE a file may have a different inode number under each spelling.
    """
    return os.path.lexists(os.path.join(root, "MEMORIES")) and "MEMORIES" not in os.listdir(root)


def _delete_all(tx: Transaction, actor: Actor | None) -> None:
    tx.record([Deleted(memory) for memory, _ in tx.list(ROOT)], actor)


def _own_directory(name: str, base: int) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, DIRECTORY_MODE, dir_fd=base)
        os.fsync(base)
    try:
        os.close(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=base))
    except NotADirectoryError:
        raise not_a_directory(name) from None


def not_a_directory(name: str) -> InvalidInput:
    """Return the error for a link or file in place of the directory `name`."""
    return InvalidInput(f"{name} in the location must be a directory, not a link or a file")


def _refuse_links(private: str) -> None:
    with os.scandir(private) as entries:
        if any(entry.is_symlink() for entry in entries):
            raise InvalidInput(f"{PRIVATE} in the location must not contain symbolic links; remove them")
