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
from retentive.storage.contract import Clock, NewId, StoreInfo
from retentive.storage.disk import os_error
from retentive.storage.exchange import Scratch
from retentive.storage.files.journal import UNKNOWN, Journal, digest_of, read_journal, sync_file_system, write_journal
from retentive.storage.files.layout import parts_of
from retentive.storage.files.transaction import DirectorySnapshot, DirectoryTransaction
from retentive.storage.files.tree import FileTree
from retentive.storage.files.writing import (
    FilePlan,
    StaleFiles,
    hash_of,
    newest_number,
    paths_changed_since,
    stale_files,
    synced_number,
    unfinished,
    write_files,
)
from retentive.storage.lock_file import LockFile
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot, StoreHead
from retentive.storage.sql.stores import find_store
from retentive.storage.sql.transaction import SqlTransaction
from retentive.storage.sqlite.backend import CommitObserver
from retentive.storage.sqlite.connection import SqliteConnection
from retentive.storage.sqlite.writer import Writer

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
        self._trees: dict[str, FileTree] = {}  # by store id
        self._journal = Journal()
        self._plans: dict[str, FilePlan] = {}  # by store id: files that are not written yet
        self._newest = 0  # number of the newest version
        self._has_doubts = False  # true if files may be out of date after a power cut
        self._unsynced_since: float | None = None
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
        """True if this process has written files since the last sync."""
        return self._unsynced_since is not None

    def start(self, exclusive: Callable[[], AbstractContextManager[Writer]]) -> None:
        """Prepare for the first command, and complete the work of a killed process.

        If another process has the directory open, that process has already completed this work.
        """
        try:
            if self._is_alone:
                with self._lock.held():
                    self._scratch.clean()
                    applied, mount = read_journal(self._lock.descriptor)
                    if not self._is_comparable or mount != self._mount:
                        write_journal(self._lock.descriptor, Journal(applied, UNKNOWN))
                with suppress(RetentiveError), exclusive() as writer:  # begins, and so recovers
                    if self._journal.applied > synced_number(writer.connection):
                        self.make_durable(writer)
            self._live.acquire(shared=True)  # now other processes can open the directory
        except OSError as error:
            raise os_error(error) from None

    def tree(self, store: StoreInfo) -> FileTree:
        """Return the file tree of a store."""
        return FileTree(self._base, parts_of(store), self._scratch, folds=self._folds)

    def _tree(self, connection: Connection, store_id: str) -> FileTree:
        if store_id not in self._trees:
            self._trees[store_id] = self.tree(find_store(connection, store_id))
        return self._trees[store_id]

    def snapshot(self, connection: Connection, store_id: str) -> SqlSnapshot:
        return DirectorySnapshot(connection, store_id, self._tree(connection, store_id))

    def transaction(
        self, connection: Connection, store_id: str, head: StoreHead | None, clock: Clock, new_id: NewId
    ) -> SqlTransaction:
        tree, plan = self._tree(connection, store_id), self._plans.setdefault(store_id, FilePlan())
        return DirectoryTransaction(connection, store_id, head, tree, plan, clock=clock, new_id=new_id)

    def begin(self, writer: Writer) -> None:
        self._plans = {}
        try:
            self._journal = read_journal(self._lock.descriptor)
            self._newest = newest_number(writer.connection)
            if self._journal.mount == UNKNOWN:
                self._recover(writer)
            elif self._journal.applied < self._newest:
                self._complete(writer.connection)
            elif self._journal.applied > self._newest:  # an older database was put in place
                self._note(self._newest)
        except OSError as error:
            raise os_error(error) from None

    def before_commit(self, writer: Writer, batch: Sequence[SqlTransaction]) -> None:
        self._newest = newest_number(writer.connection)

    def after_commit(self, writer: Writer) -> None:
        with suppress(OSError, RetentiveError):  # the commit is durable, and recovery writes the missing files
            before = self._journal
            self._write_files(writer.connection)
            if self._journal == before:  # records have no files
                return
            now = time.monotonic()
            if self._unsynced_since is None:
                self._unsynced_since = now
            elif now - self._unsynced_since >= SYNC_AFTER_S:
                self.make_durable(writer)

    def _write_files(self, connection: Connection) -> None:
        done = [
            write_files(SqlSnapshot(connection, store_id), self._tree(connection, store_id), plan)
            for store_id, plan in self._plans.items()
        ]
        if all(done) and not self._has_doubts:
            self._plans = {}
            self._note(self._newest)

    def _note(self, applied: int) -> None:
        """Write into the journal that the files of all versions up to `applied` are written. Raises OSError."""
        if (applied, self._mount) != self._journal:
            self._journal = Journal(applied, self._mount)
            write_journal(self._lock.descriptor, self._journal)

    def _complete(self, connection: Connection) -> None:
        """Write the files that a process did not write after its commit, because it was killed or had an error."""
        since = self._journal.applied
        for store_id, paths in paths_changed_since(connection, since).items():
            tree = self._tree(connection, store_id)
            self._plans[store_id] = unfinished(SqlSnapshot(connection, store_id), tree, paths, since)
        self._write_files(connection)

    def _recover(self, writer: Writer) -> None:
        """Bring the files to the recorded state after a power cut, which may have taken files since the last sync.

        What the files contain becomes versions first. In an encrypted store nobody edits files, so nothing is recorded.
        """
        connection, self._has_doubts = writer.connection, False
        for store_id, paths in paths_changed_since(connection, synced_number(connection)).items():
            records, tree, plan = SqlSnapshot(connection, store_id), self._tree(connection, store_id), FilePlan()
            stale = stale_files(records, tree, paths)
            try:
                if stale and records.head.seal is None:
                    writer.transact(partial(self._keep, store_id=store_id, stale=stale))
                    self._newest = newest_number(connection)
            except RetentiveError:  # for example on a full disk; tried again by the next command
                self._has_doubts, stale = True, {}
                for path in paths:
                    plan.add(path, is_gone=False)
            for path, (entry, text) in stale.items():
                plan.add(path, hash_of(text), is_gone=entry.memory is None)
            self._plans[store_id] = plan
        self._write_files(connection)

    def _keep(self, connection: SqliteConnection, store_id: str, stale: StaleFiles) -> None:
        tree = self._tree(connection, store_id)
        new = DirectoryTransaction(connection, store_id, None, tree, FilePlan(), clock=self._clock, new_id=self._new_id)
        new.recover(stale)

    def make_durable(self, writer: Writer) -> None:
        """Sync the files, and record in the database that they are durable. Ignores errors.

        If an error has occurred, a later call tries again.
        """
        applied = self._journal.applied
        with suppress(OSError, RetentiveError):
            sync_file_system(self._base)
            writer.transact(
                lambda connection: connection.run("UPDATE synced SET seq = max(seq, ?)", (applied,)),
                may_use_reserve=True,
            )
            self._unsynced_since = None
