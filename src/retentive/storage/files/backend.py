"""Directory backend: stores memories as plain files that people can edit. Has the guarantees of the SQLite backend.

`{root}/memories/...` contains the default store, in the layout of the official SDK's local tool. Other stores are in
`{root}/stores/{key}/memories/...`. `{root}/.retentive/` contains a SQLite database with metadata, history and texts.

A command first commits its versions to the database, and then writes the files while it still holds the lock. The texts
are durable in the database. The command therefore does not sync the files, and succeeds even if a file cannot be
written. If a process was killed before it wrote its files, the next one writes them (`following.py`).

Every other difference between the files and the database is an external edit and becomes a version. Only after a power
cut, files since the last sync may be stale. Then too, a difference becomes a version first. After that, a file is
changed back to the recorded text if a power cut can have left what it contains.

An encrypted memory store has no files, because nobody could read or edit them. It is only in the database.
"""

from __future__ import annotations

import os
import shutil
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar, Unpack, cast

from retentive.errors import RetentiveError
from retentive.storage import forking
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
from retentive.storage.disk import DIRECTORY_MODE, Scratch, make_directory, os_error
from retentive.storage.files.check import examine_files
from retentive.storage.files.following import (
    UNKNOWN,
    Journal,
    MountId,
    changed_since,
    mount_id,
    newest_number,
    read_journal,
    stale_files,
    sync_file_system,
    synced_number,
    write_files,
    write_journal,
)
from retentive.storage.files.transaction import (
    DirectorySnapshot,
    DirectoryTransaction,
    ExternalEdit,
    StaleFiles,
    Unwritten,
)
from retentive.storage.files.tree import DATABASE, PRIVATE, FileTree, check_private, not_a_directory, parts_of
from retentive.storage.lock_file import LockFile
from retentive.storage.sql.backend import find_store
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot, StoreHead
from retentive.storage.sql.transaction import SqlTransaction
from retentive.storage.sqlite.backend import SqliteBackend
from retentive.storage.sqlite.writer import Writer
from retentive.values.paths import ROOT

if TYPE_CHECKING:
    from retentive.storage.findings import Finding

T = TypeVar("T")
SYNC_AFTER_S = 1.0  # the first commit this long after an unsynced one syncs the files
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class DirectoryBackend(SqliteBackend):
    """Backend that keeps memories as files below the directory `root`. Linux and macOS.

    `temporary` is a directory that is used for the bookkeeping instead of `.retentive`, until the backend is closed.
    `mount_id` returns a name of the boot of the machine and of the mount of a file system.
    """

    def __init__(
        self,
        root: str,
        *,
        clock: Clock = time.time,
        new_id: NewId = sortable_id,
        temporary: str | None = None,
        mount_id: MountId = mount_id,
    ) -> None:
        self.root = os.path.abspath(root)
        self.private = temporary or os.path.join(self.root, PRIVATE)
        self._trees: dict[str, FileTree | None] = {}  # by store id; an encrypted store has no files
        self._unwritten: dict[str, Unwritten] = {}  # by store id
        self._journal = Journal()
        self._unsynced_since: float | None = None
        self._opened = ExitStack()
        if temporary is not None:
            self._opened.callback(weakref.finalize(self, _remove, temporary, os.getpid()))
        try:
            self._open_files(mount_id)
            super().__init__(os.path.join(self.private, DATABASE), clock=clock, new_id=new_id)
            self._recover_from_crash()
        except OSError as error:
            self._opened.close()
            raise os_error(error) from None
        except BaseException:
            self._opened.close()
            raise

    def _open_files(self, mount_id: MountId) -> None:
        """Create missing directories, and open those that are used all the time. Raises OSError."""
        make_directory(self.root)
        self._base = self._open(self.root, os.O_RDONLY)  # the location may be a link
        if self.private == os.path.join(self.root, PRIVATE):
            _own_directory(PRIVATE, self._base)
        check_private(self.private)
        _own_directory("memories", self._base)
        make_directory(os.path.join(self.private, "tmp"))
        self._private = self._open(self.private)
        self._scratch = Scratch(self._open(os.path.join(self.private, "tmp")))
        self._folds, mount = _folds(self.root), mount_id(self._base)
        self._has_mount, self._mount = mount is not None, sha256((mount or "").encode()).digest()
        self._live = LockFile(os.path.join(self.private, "live"))  # shared by each process that has the directory open
        self._opened.callback(self._live.close)
        self._is_first = self._live.try_to_acquire()
        if not self._is_first:
            self._live.acquire(shared=True)  # waits while the first process recovers

    def _open(self, path: str, flags: int = os.O_NOFOLLOW) -> int:
        descriptor = os.open(path, _DIRECTORY | flags)
        self._opened.callback(os.close, descriptor)
        return descriptor

    def _open_lock(self) -> LockFile:
        """Return the lock on the bookkeeping folder: unlike a lock file, nobody removes it while it is in use."""
        lock = LockFile(self.private, flags=_DIRECTORY)
        forking.watch(lock)
        return lock

    def _recover_from_crash(self) -> None:
        """Complete what a killed process has left, and compare the files after a power cut. Raises OSError.

        While another process has the directory open, that process has done this, and no power was cut.
        """
        if self._is_first and self._lock is not None:
            with self._lock.held():
                self._scratch.clean()
                journal = read_journal(self._private)
                if not self._has_mount or journal.mount != self._mount:
                    write_journal(self._private, Journal(journal.applied))
            with suppress(RetentiveError), self.exclusive() as writer:  # prepares a batch, and so recovers
                if self._journal.applied > synced_number(writer.connection):
                    self._make_durable(writer)
        self._live.acquire(shared=True)  # now other processes can open the directory

    def prepare_batch(self, writer: Writer) -> None:
        try:
            self._journal = read_journal(self._private)
            if self._journal.mount == UNKNOWN:
                self._recover(writer)
            self._catch_up(writer.connection, None)
        except OSError as error:
            raise os_error(error) from None

    def follow_commit(self, writer: Writer) -> None:
        with suppress(OSError, RetentiveError):  # the commit is durable, and the next batch writes the missing files
            applied, now = self._journal.applied, time.monotonic()
            self._catch_up(writer.connection, self._unwritten)
            if self._journal.applied == applied:  # records have no files
                return
            if self._unsynced_since is None:
                self._unsynced_since = now
            elif now - self._unsynced_since >= SYNC_AFTER_S:
                self._make_durable(writer)

    def _catch_up(self, connection: Connection, own: dict[str, Unwritten] | None) -> None:
        """Write the files of the versions after the number in the journal. If all are written, note it there.

        `own` is as in `write_files`, by store id. Raises OSError.
        """
        applied, newest, self._unwritten = self._journal.applied, newest_number(connection), {}
        for store_id, changes in (changed_since(connection, applied) if newest > applied else {}).items():
            known = None if own is None else own.get(store_id, Unwritten())
            tree = self._tree(connection, store_id)
            failed = tree is not None and write_files(SqlSnapshot(connection, store_id), tree, changes, known)
            if failed:
                self._unwritten[store_id] = Unwritten(failed)
        if not self._unwritten:
            self._note(newest)

    def _note(self, applied: int) -> None:
        if self._journal != (applied, self._mount):
            self._journal = Journal(applied, self._mount)
            write_journal(self._private, self._journal)

    def _recover(self, writer: Writer) -> None:
        """Bring the files to the recorded state after a power cut, which may have taken files since the last sync.

        What the files contain becomes versions first. Raises OSError.
        """
        connection, newest = writer.connection, newest_number(writer.connection)
        for store_id, changes in changed_since(connection, synced_number(connection)).items():
            if (tree := self._tree(connection, store_id)) is not None:
                stale = stale_files(SqlSnapshot(connection, store_id), tree, changes)
                writer.transact(partial(self._keep, store_id=store_id, stale=stale), may_use_reserve=True)
        self._note(newest)

    def _keep(self, connection: Connection, store_id: str, stale: StaleFiles) -> None:
        cast("DirectoryTransaction", self.transaction(connection, store_id, {})).recover(stale)

    def _make_durable(self, writer: Writer) -> None:
        """Sync the files, and record in the database that they are durable.

        Ignores errors. If an error has occurred, a later call tries again.
        """
        with suppress(RetentiveError):
            writer.transact(self._sync, may_use_reserve=True)
            self._unsynced_since = None

    def _sync(self, connection: Connection) -> None:
        try:
            sync_file_system(self._base)
        except OSError as error:
            raise os_error(error) from None
        connection.run("UPDATE synced SET seq = max(seq, ?)", (self._journal.applied,))

    def _tree(self, connection: Connection, store_id: str) -> FileTree | None:
        if store_id not in self._trees:
            parts = parts_of(find_store(connection, store_id))
            tree = None if parts is None else FileTree(self._base, parts, self._scratch, folds=self._folds)
            self._trees[store_id] = tree
        return self._trees[store_id]

    def snapshot(self, connection: Connection, store_id: str) -> SqlSnapshot:
        tree = self._tree(connection, store_id)
        return super().snapshot(connection, store_id) if tree is None else DirectorySnapshot(connection, store_id, tree)

    def transaction(self, connection: Connection, store_id: str, heads: dict[str, StoreHead]) -> SqlTransaction:
        tree, unwritten = self._tree(connection, store_id), self._unwritten.setdefault(store_id, Unwritten())
        if tree is None:
            return super().transaction(connection, store_id, heads)
        return DirectoryTransaction(
            connection,
            store_id,
            heads,
            tree,
            unwritten=unwritten,
            sync=self._sync,
            clock=self.clock,
            new_id=self.new_id,
        )

    def create_store(self, **new: Unpack[NewStore]) -> StoreInfo:
        made = super().create_store(**new)
        try:
            if (parts := parts_of(made)) is not None:
                FileTree(self._base, parts, self._scratch).make()
        except OSError as error:
            raise os_error(error) from None
        return made

    def directory_of(self, store: StoreInfo) -> str | None:
        parts = parts_of(store)
        return None if parts is None else os.path.join(self.root, *parts)

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        def delete_all(tx: Transaction) -> None:
            tx.record([Deleted(memory) for memory, _ in tx.list(ROOT)], actor)

        info = self.get_store(store_id)
        erased = info is None or info.erased_at is not None
        while not erased:  # repeated after a concurrent write, because a remaining file would count as an external edit
            self.write(store_id, delete_all, may_use_reserve=True)
            erase = partial(self._erase_if_empty, store_id=store_id, actor=actor)
            erased = self.transact(erase, may_use_reserve=True)

    def _erase_if_empty(self, connection: Connection, store_id: str, actor: Actor | None) -> bool:
        number = SqlSnapshot(connection, store_id).store
        if connection.rows("SELECT 1 FROM memories WHERE store = ? LIMIT 1", (number,)):
            return False
        self._sync(connection)  # recovery needs the versions as long as their files are not durable
        connection.run("DELETE FROM files WHERE store = ?", (number,))
        self._erase(connection, store_id, actor)
        return True

    def read(self, store_id: str, work: Callable[[Snapshot], T], *, first_path: str | None = None) -> T:
        try:
            return super().read(store_id, work, first_path=first_path)
        except ExternalEdit:  # recording the edit needs a write transaction; on a full disk, views still work
            return self.write(store_id, work, may_use_reserve=True, first_path=first_path)

    def check(self, *, quick: bool = False) -> Iterator[Finding]:
        yield from super().check(quick=quick)
        yield from self.with_reader(lambda connection: list(examine_files(connection, self._base)))

    def rebuild(self) -> None:
        super().rebuild()
        self.transact(lambda connection: connection.run("DELETE FROM files"))
        with self.exclusive() as writer:
            self._make_durable(writer)
        for store in self.list_stores():
            self.read(store.id, lambda snapshot: snapshot.list(ROOT))  # records external edits

    def close(self) -> None:
        with suppress(RetentiveError):  # already closed, or the next process completes the sync
            if self._unsynced_since is not None:
                with self.exclusive() as writer:
                    self._make_durable(writer)
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


def _remove(temporary: str, creator: int) -> None:
    if os.getpid() == creator:  # not in a forked child
        shutil.rmtree(temporary, ignore_errors=True)


def _own_directory(name: str, base: int) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, DIRECTORY_MODE, dir_fd=base)
        os.fsync(base)
    try:
        os.close(os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=base))
    except NotADirectoryError:
        raise not_a_directory(name) from None
