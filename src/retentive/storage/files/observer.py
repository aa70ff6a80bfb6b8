"""Observer that writes plain files after the commits of a SQLite backend.

A command first commits its versions to the database, and then writes the files while it still holds the lock. The texts
are durable in the database. The command therefore does not sync the files, and succeeds even if a file cannot be
written. The new versions in the database show which files must still be written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial

from retentive.errors import RetentiveError
from retentive.storage import forking
from retentive.storage.contract import Clock, NewId, Snapshot, StoreInfo
from retentive.storage.disk import os_error
from retentive.storage.exchange import Scratch
from retentive.storage.files.journal import Journal, digest_of, read_journal, sync_file_system, write_journal
from retentive.storage.files.known import KnownFiles, mark_text
from retentive.storage.files.layout import parts_of
from retentive.storage.files.numbering import newest_number, paths_changed_since, synced_number
from retentive.storage.files.sync import SyncPlan, complete, rewrite, sync
from retentive.storage.files.transaction import DirectorySnapshot, DirectoryTransaction
from retentive.storage.files.tree import FileTree
from retentive.storage.lock_file import LockFile
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import StoreHead, select_head
from retentive.storage.sql.stores import find_store
from retentive.storage.sql.transaction import SqlTransaction
from retentive.storage.sqlite.backend import CommitObserver
from retentive.storage.sqlite.commit import Writer
from retentive.storage.sqlite.connection import SqliteConnection

SYNC_AFTER_S = 1.0  # the first commit this long after an unsynced one syncs the files


class FilesObserver(CommitObserver):
    """Observer that writes files below the directory with the descriptor `base`.

    The bookkeeping is in the directory `private`. It is also the lock: unlike a lock file, nobody removes it while it
    is in use. `folds` is true if the file system ignores case or changes the Unicode form of names. `mount` is the name
    of the boot and the mount, or None if it is unknown.
    """

    def __init__(
        self, private: str, base: int, scratch: Scratch, *, clock: Clock, new_id: NewId, folds: bool, mount: str | None
    ) -> None:
        self._private = private
        self._base = base
        self._scratch = scratch
        self._clock, self._new_id = clock, new_id
        self._folds = folds
        self._is_comparable, self._mount = mount is not None, digest_of(mount or "")
        self._stores: dict[str, KnownFiles] = {}  # readers may add stores at any time, so iterate over copies
        self._journal = Journal()
        self._newest = 0
        self._unsynced_since: float | None = None
        self._plans: dict[str, SyncPlan] = {}
        self._closed = False
        self.lock_file = self._lock = LockFile(private, flags=os.O_RDONLY | os.O_DIRECTORY)
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
            self._lock.renew_after_fork()
            live = self._live
            self._open_live()  # before the old file is closed, so that the directory stays open without a gap
            live.close()

    def close(self) -> None:
        """Close the lock files."""
        self._closed = True
        self._lock.close()
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
                with self._lock.held():
                    self._scratch.clean()
                    if not self._is_comparable or read_journal(self._lock.descriptor).mount != self._mount:
                        self.restart()
                with suppress(RetentiveError), exclusive() as writer:
                    newest = newest_number(writer.connection)
                    if self._journal.applied > newest:  # an older database was put in place
                        self._note(newest, newest)
                    if not self._journal.busy and self._journal.applied > self._journal.synced:
                        self.make_durable(writer)
            self._live.acquire(shared=True)  # now other processes can open the directory
        except OSError as error:
            raise os_error(error) from None

    def restart(self) -> None:
        """Reset the journal, as if the power had been cut since the last sync. Raises OSError."""
        write_journal(self._lock.descriptor, Journal())

    def tree(self, store: StoreInfo) -> FileTree:
        """Return the file tree of a store."""
        return FileTree(self._base, parts_of(store), self._scratch)

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
        try:
            self._journal = read_journal(self._lock.descriptor)
        except OSError as error:
            raise os_error(error) from None
        if self._journal.busy:
            self._recover(writer)

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
            journal = Journal(self._journal.applied, self._journal.synced, busy=True, mount=self._journal.mount)
            write_journal(self._lock.descriptor, journal)
        except OSError as error:
            raise os_error(error) from None

    def after_commit(self, writer: Writer) -> None:
        with suppress(OSError, RetentiveError):  # the commit is durable, and recovery writes the missing files
            if self._write_files(writer.connection) and not self._journal.busy:
                self._note(self._newest, self._journal.synced)
            now = time.monotonic()
            if self._unsynced_since is None:
                self._unsynced_since = now
            elif now - self._unsynced_since >= SYNC_AFTER_S:
                self.make_durable(writer)

    def _note(self, applied: int, synced: int) -> None:
        """Write into the journal that the files of all versions up to `applied` are written."""
        self._journal = Journal(applied, synced, busy=False, mount=self._mount)
        write_journal(self._lock.descriptor, self._journal)

    def _write_files(self, connection: Connection) -> bool:
        """Write the files of the last commit. Returns True if every step succeeded."""
        whole = [
            sync(connection, self._stores[store_id], store_id, plan, self._journal.applied)
            for store_id, plan in self._plans.items()
        ]
        return all(whole)

    def _recover(self, writer: Writer) -> None:
        """Complete the writes after a commit if a process was killed, or had an error, before it wrote all files.

        If a power cut may have taken files, all versions since the last sync are doubtful, otherwise only those of the
        unfinished commits.
        """
        connection, synced = writer.connection, synced_number(writer.connection)
        careful = self._journal.may_lack_files
        since = synced if careful else min(max(self._journal.applied, synced), newest_number(connection))
        whole = True
        for store_id, paths in paths_changed_since(connection, since).items():
            known = self._known(connection, store_id)
            if careful and select_head(connection, store_id).seal is None:
                whole &= self._recover_store(writer, known, store_id, list(paths))
            elif careful:
                whole &= rewrite(connection, known, store_id, list(paths))
            else:
                whole &= complete(connection, known, store_id, list(paths), since)
        if whole:
            self._note(newest_number(connection), synced)

    def _recover_store(self, writer: Writer, known: KnownFiles, store_id: str, paths: Sequence[str]) -> bool:
        since = newest_number(writer.connection)
        try:
            plan = writer.transact(partial(self._recorded, store_id=store_id, paths=paths))
        except RetentiveError:  # for example on a full disk
            known.unwritten |= set(paths)
            return False
        finally:
            self.end()
        return sync(writer.connection, known, store_id, plan, since)

    def _recorded(self, connection: SqliteConnection, store_id: str, paths: Sequence[str]) -> SyncPlan:
        known = self._known(connection, store_id)
        transaction = DirectoryTransaction(connection, store_id, None, known, clock=self._clock, new_id=self._new_id)
        transaction.recover(paths)
        transaction.finish()
        if transaction.changed:
            transaction.write_head()
        return transaction.plan

    def make_durable(self, writer: Writer) -> None:
        """Sync the files, and record in the database that they are durable. Ignores errors.

        If an error has occurred, a later call tries again.
        """
        applied = self._journal.applied
        with suppress(OSError, RetentiveError):
            sync_file_system(self._base)
            writer.transact(lambda connection: self._note_durable(connection, applied), may_use_reserve=True)
            for known in tuple(self._stores.values()):
                known.unsaved = {}
            self._unsynced_since = None
            self._journal = Journal(applied, applied, busy=self._journal.busy, mount=self._journal.mount)
            write_journal(self._lock.descriptor, self._journal)

    def _note_durable(self, connection: SqliteConnection, applied: int) -> None:
        connection.run("UPDATE synced SET seq = max(seq, ?)", (applied,))
        for store_id, known in tuple(self._stores.items()):
            marks = [(mark_text(mark), store_id, path, version) for path, (version, mark) in known.unsaved.items()]
            connection.run_many(
                "UPDATE memories SET mark = ? WHERE store = (SELECT no FROM stores WHERE id = ?)"
                " AND path = ? AND version = ?",
                marks,
            )
