"""Observer that writes plain files after the commits of a SQLite backend.

A command first commits its versions to the database, and then writes the files while it still holds the lock. The texts
are durable in the database. The command therefore does not sync the files, and succeeds even if a file cannot be
written. The new versions in the database show which files must still be written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from retentive.errors import RetentiveError
from retentive.storage import forking
from retentive.storage.contract import Clock, NewId, Snapshot, StoreInfo
from retentive.storage.disk import os_error
from retentive.storage.exchange import Scratch
from retentive.storage.files.journal import Journal, JournalFile, sync_file_system
from retentive.storage.files.known import KnownFiles, mark_text
from retentive.storage.files.layout import parts_of
from retentive.storage.files.numbering import newest_number, paths_changed_since, synced_number
from retentive.storage.files.sync import SyncPlan, recover, sync
from retentive.storage.files.transaction import DirectorySnapshot, DirectoryTransaction
from retentive.storage.files.tree import FileTree
from retentive.storage.lock_file import LockFile
from retentive.storage.spares import NOT_YET, Spares
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import StoreHead, select_head
from retentive.storage.sql.stores import find_store
from retentive.storage.sql.transaction import SqlTransaction
from retentive.storage.sqlite.backend import CommitObserver
from retentive.storage.sqlite.commit import Writer
from retentive.storage.sqlite.connection import SqliteConnection

SYNC_AFTER = 512  # versions between syncs of the file system; a sync then costs each command about 20 us on average


class FilesObserver(CommitObserver):
    """Observer that writes files below the directory with the descriptor `base`.

    The lock files are in the directory `private`. `folds` is true if the file system ignores case or changes the
    Unicode form of names.
    """

    def __init__(self, private: str, base: int, scratch: Scratch, *, folds: bool) -> None:
        self._private = private
        self._base = base
        self._scratch = scratch
        self._folds = folds
        self._stores: dict[str, KnownFiles] = {}  # readers may add stores at any time, so iterate over copies
        self._journal = Journal()
        self._newest = 0
        self._plans: dict[str, SyncPlan] = {}
        self._closed = False
        self.lock_file = self._journal_file = JournalFile(os.path.join(private, JournalFile.name))
        self._open_live()
        forking.watch(self)

    def _open_live(self) -> None:
        self._live = LockFile(os.path.join(self._private, "live"))  # shared by each process that has the directory open
        self._is_alone = self._live.try_to_acquire()
        if not self._is_alone:
            self._live.acquire(shared=True)  # waits while a process that was alone recovers

    def renew_after_fork(self) -> None:
        """Open the lock files again in a forked child, which would otherwise share the locks of its parent."""
        if not self._closed:
            self._scratch.spares.forget()
            self._journal_file.renew_after_fork()
            live = self._live
            self._open_live()  # before the old file is closed, so that the directory stays open without a gap
            live.close()

    def close(self) -> None:
        """Close the lock files."""
        self._closed = True
        self._journal_file.close()
        self._live.close()

    @property
    def is_unsynced(self) -> bool:
        """True if files were written since the last sync, or if the database lacks marks of files."""
        return self._journal.applied > self._journal.synced or any(
            known.unsaved for known in tuple(self._stores.values())
        )

    def start(self, exclusive: Callable[[], AbstractContextManager[Writer]]) -> None:
        """Prepare for the first command, and complete the work of a killed process.

        If another process has the directory open, that process has already completed this work.
        """
        try:
            if self._is_alone:
                with self._journal_file.held():
                    self._scratch.clean()
                    self._journal_file.write(Journal())
                with suppress(RetentiveError), exclusive() as writer:
                    if not self._journal.busy and self._journal.applied > self._journal.synced:
                        self.make_durable(writer)
            self._live.acquire(shared=True)  # now other processes can open the directory
        except OSError as error:
            raise os_error(error) from None

    def restart(self) -> None:
        """Reset the journal, so that the next command writes all files that may be stale. Raises OSError."""
        self._journal_file.write(Journal())

    def tree(self, store: StoreInfo) -> FileTree:
        """Return the file tree of a store."""
        return FileTree(self._base, parts_of(store), self._scratch)

    @property
    def spares(self) -> Spares:
        """Files that were replaced and are kept, so that later texts can overwrite them."""
        return self._scratch.spares

    def forget(self, store_id: str) -> None:
        """Forget the in-memory state of the files of a store."""
        self._stores.pop(store_id, None)

    def known(self, store_id: str) -> KnownFiles | None:
        """Return the in-memory state of the files of a store, or None if this process has not used the store."""
        return self._stores.get(store_id)

    def _known(self, connection: Connection, store_id: str) -> KnownFiles:
        known = self._stores.get(store_id)
        if known is None:
            info = find_store(connection, store_id)
            known = self._stores.setdefault(store_id, KnownFiles(self.tree(info), folds=self._folds))
        return known

    def snapshot(self, connection: Connection, store_id: str) -> Snapshot:
        connection.run("BEGIN")
        head = select_head(connection, store_id)
        return DirectorySnapshot(connection, store_id, head, self._known(connection, store_id))

    def transaction(
        self, connection: Connection, store_id: str, head: StoreHead | None, clock: Clock, new_id: NewId
    ) -> SqlTransaction:
        return DirectoryTransaction(
            connection, store_id, head, self._known(connection, store_id), clock=clock, new_id=new_id
        )

    def begin(self, writer: Writer) -> None:
        synced = self._journal.synced
        try:
            self._journal = self._journal_file.read()
        except OSError as error:
            raise os_error(error) from None
        if self._journal.synced != synced:  # another process has synced the files
            self._scratch.spares.synced(self._journal.synced)
        if self._journal.busy:
            self._recover(writer.connection)

    def end(self) -> None:
        for known in tuple(self._stores.values()):
            known.pending = frozenset()

    def before_commit(self, writer: Writer, batch: Sequence[SqlTransaction]) -> None:
        self._plans = {}
        for transaction in batch:
            if isinstance(transaction, DirectoryTransaction):
                first = self._plans.setdefault(transaction.store_id, transaction.plan)
                if first is not transaction.plan:
                    first.absorb(transaction.plan)
        self._newest = newest_number(writer.connection)
        try:
            self._journal_file.write(Journal(self._journal.applied, self._journal.synced, busy=True))
        except OSError as error:
            raise os_error(error) from None

    def after_commit(self, writer: Writer) -> None:
        with suppress(OSError, RetentiveError):  # the commit is durable, and recovery writes the missing files
            if self._write_files(writer.connection) and not self._journal.busy:
                self._journal = Journal(self._newest, self._journal.synced, busy=False)
                self._journal_file.write(self._journal)
            if self._newest - self._journal.synced >= SYNC_AFTER:
                self.make_durable(writer)

    def _write_files(self, connection: Connection) -> bool:
        """Write the files of the last commit. Returns True if every step succeeded."""
        spares = self._scratch.spares
        spares.at = self._newest
        try:
            whole = [sync(connection, self._stores[store_id], store_id, plan) for store_id, plan in self._plans.items()]
        finally:
            spares.at = NOT_YET
        return all(whole)

    def _recover(self, connection: SqliteConnection) -> None:
        """Complete the writes after a commit if a process was killed, or had an error, before it wrote all files."""
        synced = synced_number(connection)
        whole = True
        for store_id, paths in paths_changed_since(connection, max(self._journal.applied, synced)).items():
            whole &= recover(connection, self._known(connection, store_id), store_id, list(paths))
        if whole:
            self._journal = Journal(newest_number(connection), synced, busy=False)
            self._journal_file.write(self._journal)

    def make_durable(self, writer: Writer) -> None:
        """Sync the files, and record in the database that they are durable. Ignores errors.

        If an error has occurred, a later call tries again.
        """
        applied = self._journal.applied
        with suppress(OSError, RetentiveError):
            sync_file_system(self._base)
            self._scratch.spares.synced(NOT_YET)
            writer.transact(lambda connection: self._note_durable(connection, applied), may_use_reserve=True)
            for known in tuple(self._stores.values()):
                known.unsaved = {}
            self._journal = Journal(applied, applied, busy=self._journal.busy)
            self._journal_file.write(self._journal)

    def _note_durable(self, connection: SqliteConnection, applied: int) -> None:
        connection.run("UPDATE synced SET seq = ?", (applied,))
        for store_id, known in tuple(self._stores.items()):
            marks = [(mark_text(mark), store_id, path, version) for path, (version, mark) in known.unsaved.items()]
            connection.run_many(
                "UPDATE memories SET mark = ? WHERE store = (SELECT no FROM stores WHERE id = ?)"
                " AND path = ? AND version = ?",
                marks,
            )
