"""Memory stores as plain files a person can open and edit, with the guarantees of the SQLite backend behind them.

`{root}/memories/...` is the default store, laid out as the official SDK's local tool does; the others lie in
`{root}/stores/{key}/memories/...`. `{root}/.retentive/` holds metadata, history and texts in SQLite.

A command commits to the database first, where its versions say which files are to follow; then the files do, all under
one lock. The text rests durably in the database, so files need no sync inside the command, and an
error on a file after the commit does not change the reply. What is found in a file that was to be written: missing,
empty, a prefix of, or equal to a recorded version of its path is stale and rewritten; any other text is a person's,
and becomes a version.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TypeVar, cast

from retentive.errors import InvalidInput, RetentiveError, Unavailable
from retentive.storage.capabilities import PlainFiles
from retentive.storage.contract import (
    Actor,
    Change,
    Clock,
    NewId,
    Snapshot,
    StoreInfo,
    Transaction,
    now_us,
    sortable_id,
)
from retentive.storage.disk import DIRECTORY_MODE, make_directory, os_error
from retentive.storage.files.check import examine_files, lower_synced
from retentive.storage.files.external_edits import (
    HandEdit,
    Seen,
    Unsynced,
    WatchedSnapshot,
    WatchedTransaction,
    keep_numbering,
    mark_text,
)
from retentive.storage.files.folders import parts_of
from retentive.storage.files.journal import Ledger, LiveFile, LockFile, sync_file_system
from retentive.storage.files.quarantine import MendedTree, count_damaged
from retentive.storage.files.sync import changed_since, follow, settle
from retentive.storage.files.temporary import Scratch
from retentive.storage.findings import Finding
from retentive.storage.sql import stores as sql_stores
from retentive.storage.sql.transaction import SqlTransaction
from retentive.storage.sqlite.backend import SqliteBackend
from retentive.storage.sqlite.connection import SqliteConnection
from retentive.values.paths import ROOT

T = TypeVar("T")
CLEAR_AFTER = 512  # versions; a sync of the file system then costs each command some 20 microseconds
_PRIVATE = ".retentive"


class DirectoryBackend(SqliteBackend, PlainFiles):
    """Memory stores as files below the directory `root`. Linux and macOS."""

    def __init__(self, root: str, *, clock: Clock = time.time, new_id: NewId = sortable_id) -> None:
        self.root = os.path.abspath(root)
        self._stores: dict[str, Seen] = {}
        self._ledger = Ledger()
        self._newest = 0
        self._plans: list[WatchedTransaction] = []
        private = os.path.join(self.root, _PRIVATE)
        try:
            make_directory(self.root)
            self._base = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for name in (_PRIVATE, "memories"):
                _own_directory(name, self._base)
            _refuse_links(private)
            self._scratch = _open_scratch(os.path.join(private, "tmp"))
            self._folds = _folds(private)
            self._lock = LockFile(os.path.join(private, "lock"))
            self._live = LiveFile(os.path.join(private, "live"))
        except OSError as error:
            raise os_error(error) from None
        try:
            super().__init__(os.path.join(private, "memory.db"), clock=clock, new_id=new_id)
            self._recover()
        except BaseException:
            self._let_go()
            raise

    def directory_of(self, store: StoreInfo) -> str:
        return os.path.join(self.root, *parts_of(store))

    def quarantined(self) -> int:
        self._check_open()
        return count_damaged(self._base)

    def create_store(
        self,
        *,
        key: str | None,
        name: str,
        seal: str | None = None,
        store_id: str | None = None,
        created_at: datetime | None = None,
    ) -> StoreInfo:
        made = super().create_store(key=key, name=name, seal=seal, store_id=store_id, created_at=created_at)
        try:
            self._tree(made).make()
        except OSError as error:
            raise os_error(error) from None
        return made

    def read(self, store_id: str, work: Callable[[Snapshot], T]) -> T:
        try:
            return super().read(store_id, work)
        except HandEdit:  # what a person did is recorded first, which is a write
            return self.write(store_id, work)

    def write(self, store_id: str, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        try:
            return super().write(store_id, work, may_use_reserve=may_use_reserve)
        except Unsynced:
            self._sync()
        try:
            return super().write(store_id, work, may_use_reserve=may_use_reserve)
        except Unsynced:
            raise Unavailable("the files of the memory store could not be made durable") from None

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        info = self.get_store(store_id)
        if info is None or info.erased_at is not None:
            return
        erased = False
        while not erased:  # until nobody wrote in between: a file that stayed would be taken for a person's
            self.write(store_id, lambda tx: _delete_all(tx, actor), may_use_reserve=True)
            self._sync()
            erased = self._alone(lambda connection: self._erased(connection, store_id, actor))
        self._stores.pop(store_id, None)

    def _erased(self, connection: SqliteConnection, store_id: str, actor: Actor | None) -> bool:
        """Erase a store that is empty; whether it was."""
        if connection.rows("SELECT 1 FROM stores WHERE id = ? AND memories > 0", (store_id,)):
            return False
        keep_numbering(connection)
        by = None if actor is None else str(actor)
        sql_stores.erase_store(connection, store_id, at=now_us(self.clock), by=by)
        return True

    def check(self) -> Iterator[Finding]:
        yield from super().check()
        with self._reading() as connection:
            yield from list(examine_files(connection, self._base))

    def repair(self) -> None:
        super().repair()
        with self._queue.paused(), self._exclusive() as connection:
            self._clear(connection)
            lower_synced(connection)
            self._lock.write(Ledger())  # the next command starts from what the database knows
        for store in self.list_stores():
            self.read(store.id, _look_at_all)
            with self._queue.paused(), self._exclusive():
                self._tree(store).prune(ROOT)

    def _sync(self) -> None:
        with self._queue.paused(), self._exclusive() as connection:
            self._clear(connection)

    def forget_threads(self) -> None:
        super().forget_threads()
        if self._closed:
            return
        lock, live = self._lock, self._live
        private = os.path.join(self.root, _PRIVATE)
        # The parent's locks are shared with its open files; new ones come first, so that the life is not broken.
        self._lock, self._live = LockFile(os.path.join(private, "lock")), LiveFile(os.path.join(private, "live"))
        lock.close()
        live.close()

    def _leave(self) -> None:
        with suppress(RetentiveError), self._exclusive() as connection:
            if self._ledger.applied > self._ledger.cleared or any(seen.unsaved for seen in self._stores.values()):
                self._clear(connection)

    def _drop_all(self) -> None:
        super()._drop_all()
        self._let_go()

    def _let_go(self) -> None:
        self._closed = True
        self._lock.close()
        self._live.close()
        self._scratch.close()
        with suppress(OSError):
            os.close(self._base)

    # -- one store's files -----------------------------------------------------------------------------------

    def _tree(self, store: StoreInfo) -> MendedTree:
        return MendedTree(self._base, parts_of(store), self._scratch)

    def _seen(self, connection: SqliteConnection, store_id: str) -> Seen:
        seen = self._stores.get(store_id)
        if seen is None:
            info = sql_stores.find_store(connection, store_id)
            seen = self._stores.setdefault(store_id, Seen(self._tree(info), folds=self._folds))
        return seen

    def _snapshot(self, connection: SqliteConnection, store_id: str) -> Snapshot:
        return WatchedSnapshot(connection, store_id, self._seen(connection, store_id))

    def _transaction(self, connection: SqliteConnection, store_id: str) -> WatchedTransaction:
        seen = self._seen(connection, store_id)
        return WatchedTransaction(connection, store_id, seen, clock=self.clock, new_id=self.new_id)

    # -- from the commit to the files ------------------------------------------------------------------------

    @contextmanager
    def _exclusive(self) -> Iterator[SqliteConnection]:
        self._check_open()
        with self._lock.held(), super()._exclusive() as connection:
            try:
                self._ledger = self._lock.read()
                if self._ledger.busy:
                    self._roll_forward(connection)
            except OSError as error:
                raise os_error(error) from None
            try:
                yield connection
            finally:
                for seen in self._stores.values():
                    seen.in_flight = frozenset()

    def _job_done(self, transaction: SqlTransaction) -> None:
        if isinstance(transaction, WatchedTransaction) and transaction.plan:
            transaction.seen.in_flight |= transaction.plan.keys()

    def _before_commit(self, connection: SqliteConnection, changed: Sequence[SqlTransaction]) -> None:
        self._plans = _merged(cast("Sequence[WatchedTransaction]", changed))
        newest = cast("int | None", connection.rows("SELECT max(seq) FROM versions")[0][0])
        self._newest = newest or 0  # a new store may be given its seal before it has a version
        try:
            self._lock.write(Ledger(self._ledger.applied, self._ledger.cleared, busy=True))
        except OSError as error:
            raise os_error(error) from None

    def _after_commit(self, connection: SqliteConnection, changed: Sequence[SqlTransaction]) -> None:
        with suppress(OSError, RetentiveError):  # committed is committed; what is not done is found and done again
            whole = [follow(connection, merged) for merged in self._plans]
            if all(whole) and not self._ledger.busy:
                self._ledger = Ledger(self._newest, self._ledger.cleared, busy=False)
                self._lock.write(self._ledger)
            if self._newest - self._ledger.cleared >= CLEAR_AFTER:
                self._clear(connection)

    def _recover(self) -> None:
        """Carry out what a process that is no more had begun, unless another has the directory open and will."""
        try:
            if self._live.alone:
                with self._lock.held():
                    self._scratch.clean()
                    self._lock.write(Ledger())
                with suppress(RetentiveError), self._exclusive() as connection:
                    if not self._ledger.busy and self._ledger.applied > self._ledger.cleared:
                        self._clear(connection)
            self._live.share()
        except OSError as error:
            raise os_error(error) from None

    def _roll_forward(self, connection: SqliteConnection) -> None:
        """Write the files of commits whose process was killed, or could not write them."""
        synced = cast("int", connection.rows("SELECT seq FROM synced")[0][0])
        since = max(self._ledger.applied, synced)
        whole = True
        for store_id, paths in changed_since(connection, since).items():
            whole &= settle(connection, self._seen(connection, store_id), store_id, list(paths))
        newest = cast("int | None", connection.rows("SELECT max(seq) FROM versions")[0][0])
        if whole:
            self._ledger = Ledger(newest or 0, synced, busy=False)
            self._lock.write(self._ledger)

    def _clear(self, connection: SqliteConnection) -> None:
        """Make the files durable, and note that they are. A failure leaves it for later."""
        applied = self._ledger.applied
        with suppress(OSError, RetentiveError):
            sync_file_system(self._base)
            self._commits.begin(connection)
            try:
                connection.run("UPDATE synced SET seq = ?", (applied,))
                for store_id, seen in self._stores.items():
                    unsaved = seen.unsaved.items()
                    marks = [(mark_text(mark), store_id, path, version) for path, (version, mark) in unsaved]
                    connection.run_many(
                        "UPDATE memories SET mark = ? WHERE store = (SELECT no FROM stores WHERE id = ?)"
                        " AND path = ? AND version = ?",
                        marks,
                    )
                self._commits.commit(connection)
            finally:
                connection.roll_back()
            for seen in self._stores.values():
                seen.unsaved = {}
            self._ledger = Ledger(applied, applied, busy=self._ledger.busy)
            self._lock.write(self._ledger)


def _delete_all(tx: Transaction, actor: Actor | None) -> None:
    tx.record([Change(memory, None) for memory in tx.memories(ROOT)], actor)


def _look_at_all(found: Snapshot) -> None:
    """Look at every file, so that what is not as recorded is recorded, or mended in a sealed store."""
    for memory in found.memories(ROOT):
        found.get(memory.path)


def _merged(changed: Sequence[WatchedTransaction]) -> list[WatchedTransaction]:
    """What the transactions of a batch come to, one for each store."""
    stores: dict[str, WatchedTransaction] = {}
    for transaction in changed:
        first = stores.setdefault(transaction.store_id, transaction)
        if first is not transaction:
            first.absorb(transaction)
    return list(stores.values())


def _own_directory(name: str, base: int) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, DIRECTORY_MODE, dir_fd=base)
        os.fsync(base)
    try:
        os.close(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=base))
    except NotADirectoryError:
        raise InvalidInput(f"{name} in the memory directory must be a directory, not a link or a file") from None


def _refuse_links(private: str) -> None:
    with os.scandir(private) as entries:
        if any(entry.is_symlink() for entry in entries):
            raise InvalidInput(f"{_PRIVATE} in the memory directory must hold no links")


def _open_scratch(path: str) -> Scratch:
    make_directory(path)
    return Scratch(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))


def _folds(private: str) -> bool:
    """Whether the file system takes names of another case or form for the same."""
    return os.path.exists(os.path.join(os.path.dirname(private), _PRIVATE.upper()))
