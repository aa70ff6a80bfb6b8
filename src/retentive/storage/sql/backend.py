"""Base class of the SQL backends. Subclasses add connections, write transactions and retries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar, Unpack, cast

from retentive.errors import Damaged, PermissionDenied, RetentiveError, StorageReadOnly, StoreFull, Unavailable
from retentive.storage.capabilities import Maintained
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
    now_us,
)
from retentive.storage.findings import Finding
from retentive.storage.queue import SharedTransaction, StoreJob
from retentive.storage.sql import check, stores
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.schema import Schema
from retentive.storage.sql.snapshot import SqlSnapshot, StoreHead
from retentive.storage.sql.transaction import SqlTransaction
from retentive.values.records import to_us

T = TypeVar("T")
_STORAGE_ERRORS = (StoreFull, Unavailable, Damaged, PermissionDenied, StorageReadOnly)


class SqlBatch(SharedTransaction[SqlTransaction]):
    """Open database transaction that the jobs of a batch share. All jobs on one store share its head.

    There are no savepoints: each would cost about 10 us on SQLite, and round trips on a database server. If a job fails
    after it has changed something, or because of the storage, the whole transaction is undone, and each job runs again
    alone.
    """

    def __init__(
        self,
        transaction: Callable[[StoreJob, StoreHead | None], SqlTransaction],
        commit: Callable[[Sequence[SqlTransaction]], None],
    ) -> None:
        self._transaction = transaction
        self._commit = commit
        self._heads: dict[str, StoreHead] = {}

    def start(self, job: StoreJob) -> SqlTransaction:
        transaction = self._transaction(job, self._heads.get(job.store_id))
        transaction.first_path = job.first_path
        return transaction

    def finish(self, transaction: SqlTransaction) -> None:
        self._heads[transaction.store_id] = transaction.head  # `head` raises `NotFound` if there is no store
        transaction.finish()

    def undo(self, transaction: SqlTransaction | None, error: Exception) -> None:
        has_changed = transaction is not None and transaction.changed
        if has_changed or not isinstance(error, RetentiveError) or isinstance(error, _STORAGE_ERRORS):
            raise error

    def commit(self, changed: Sequence[SqlTransaction], errors: Sequence[Exception | None]) -> None:
        if changed:
            self._commit(changed)


class SqlBackend(Backend, Maintained):
    """Backend that keeps memory stores in the tables of `schema`.

    `lock` is the SQL clause that makes a query lock the rows that it reads, such as ` FOR UPDATE`. It is empty for
    SQLite.
    """

    lock = ""

    def __init__(self, schema: Schema, clock: Clock, new_id: NewId) -> None:
        self.schema = schema
        self.clock = clock
        self.new_id = new_id

    @abstractmethod
    def look(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one consistent state of the database and return its result. The work must only read."""

    @abstractmethod
    def transact(self, work: Callable[[Connection], T], *, may_use_reserve: bool = False) -> T:
        """Run `work` in a transaction, commit, and return the result. The work must not change memories.

        If the reply to the commit is lost, `work` may run again. `may_use_reserve` is for work that only deletes.
        """

    def snapshot(self, connection: Connection, store_id: str) -> SqlSnapshot:
        """Return a new snapshot of one store. Any thread may call this method."""
        return SqlSnapshot(connection, store_id)

    def read(self, store_id: str, work: Callable[[Snapshot], T], *, first_path: str | None = None) -> T:
        def look(connection: Connection) -> T:
            snapshot = self.snapshot(connection, store_id)
            snapshot.first_path = first_path
            result = work(snapshot)
            _ = snapshot.head  # raises `NotFound`, even if the work read nothing
            return result

        return self.look(look)

    def create_store(self, **new: Unpack[NewStore]) -> StoreInfo:
        created_at = new.get("created_at")
        at = now_us(self.clock) if created_at is None else to_us(created_at)
        store_id = new.get("store_id") or self.new_id("memstore_", at)
        return self.transact(partial(stores.create_store, store_id=store_id, at=at, new=new))

    def get_store(self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo | None:
        return self.look(lambda connection: stores.select_store(connection, id_or_key, workspace))

    def list_stores(self, **chosen: Unpack[StoreSelection]) -> list[StoreInfo]:
        return self.look(lambda connection: stores.select_stores(connection, chosen))

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        self.transact(partial(self._erase, store_id=store_id, actor=actor), may_use_reserve=True)

    def _erase(self, connection: Connection, store_id: str, actor: Actor | None) -> None:
        """Remove all data of a store except its id."""
        for row in connection.rows(f"SELECT no FROM stores WHERE id = ? AND erased_at IS NULL{self.lock}", (store_id,)):
            number = cast("int", row[0])
            stores.remove_versions(connection, number, "memory <> ''")
            for table in ("memories", "records"):
                connection.run(f"DELETE FROM {table} WHERE store = ?", (number,))
            connection.run(
                "UPDATE stores SET store_key = NULL, name = '', seal = NULL, settings = NULL, properties = NULL,"
                " erased_at = ?, erased_by = ? WHERE no = ?",
                (now_us(self.clock), None if actor is None else str(actor), number),
            )

    def check(self, *, quick: bool = False) -> Iterator[Finding]:
        yield from self.look(lambda connection: list(self._examine(connection, quick=quick)))

    def _examine(self, connection: Connection, *, quick: bool) -> Iterator[Finding]:
        return check.examine(connection, self.schema, quick=quick)

    def rebuild(self) -> None:
        self.transact(check.rebuild)
