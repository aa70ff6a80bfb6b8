"""Transaction that the jobs of one batch share on a database server. Most batches need two round trips.

The first round trip locks the row of the store. It also reads the entry that each job will read first, if the path of
this entry is known. The second round trip sends all write statements together with the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from retentive.errors import Damaged, PermissionDenied, StoreFull, Unavailable
from retentive.storage.contract import Actor, Change, Entry, Memory, Recorded
from retentive.storage.queue import Ran, StoreJob
from retentive.storage.server.dialect import SerializationConflict, ServerConnection
from retentive.storage.server.snapshot import ServerTransaction
from retentive.storage.sql.connection import Connection, Row, Value
from retentive.storage.sql.snapshot import StoreHead, entry_with_head, select_head

if TYPE_CHECKING:
    from retentive.storage.server.backend import ServerBackend

MAX_AHEAD = 32  # number of entries that are read together, which limits the memory for their texts
Query = tuple[str, Sequence[Value]]
# These errors undo the whole transaction.
_STORAGE_ERRORS = (StoreFull, Unavailable, Damaged, PermissionDenied, SerializationConflict)


class ServerSharedTransaction:
    """Transaction that the jobs of a batch share. It locks the row of one store.

    There are no savepoints, because each savepoint costs round trips. If a job fails after it has changed something,
    the changes of all jobs are undone.
    """

    def __init__(self, backend: ServerBackend, connection: ServerConnection, jobs: Sequence[StoreJob]) -> None:
        self._backend = backend
        self._connection = connection
        self._store_id = jobs[0].store_id
        connection.begin_write()
        named = dict.fromkeys(path for job in jobs if (path := first_path(job.work)) is not None)
        self._head, self._ahead = self._look_ahead(list(named)[:MAX_AHEAD])

    def _look_ahead(self, chosen: Sequence[str]) -> tuple[StoreHead, dict[str, list[Row]]]:
        """Lock and read the row of the store, and read the entries at the paths `chosen` in the same round trip.

        Returns the row of the store, and a mapping from each path to the rows that the query for its entry returned.
        The queries run after the row is locked, so the entries include all earlier commits.
        """
        store_id = self._store_id
        asked = [_query(partial(select_head, store_id=store_id, lock=self._backend.lock))]
        asked += [_query(partial(entry_with_head, store_id=store_id, path=path)) for path in chosen]
        head, *entries = self._connection.rows_of_all(asked)
        return select_head(_Answered(head), store_id), dict(zip(chosen, entries, strict=True))

    def start(self, job: StoreJob) -> BatchTransaction:
        transaction = BatchTransaction(
            self._connection, self._store_id, self._head, clock=self._backend.clock, new_id=self._backend.new_id
        )
        transaction.ahead = self._ahead
        return transaction

    def finish(self, transaction: BatchTransaction) -> None:
        """Do nothing. The row of the store is written once for the whole batch, with the commit."""

    def undo(self, transaction: BatchTransaction | None, error: Exception) -> bool:
        if transaction is None or transaction.changed or isinstance(error, _STORAGE_ERRORS):
            raise error
        return True

    def commit(self, ran: Sequence[Ran[BatchTransaction]], changed: Sequence[BatchTransaction]) -> None:
        """Write the row of the store and commit.

        If the connection is lost, the newest version that the batch wrote shows whether the commit succeeded.
        """
        for earlier, later in pairwise(changed):
            later.newest = later.newest or earlier.newest
            later.untraced = later.untraced or earlier.untraced
        if changed:
            changed[-1].write_head()
            self._backend.commit_for(self._connection, changed[-1])


class BatchTransaction(ServerTransaction):
    """Transaction of one job in a batch.

    `ahead` maps each path to the rows of its entry. These rows were read together for the whole batch. The
    transactions of a batch share `ahead`. Each transaction removes from `ahead` the entries that it changes.
    """

    ahead: dict[str, list[Row]]

    def get(self, path: str) -> Entry:
        rows = self.ahead.get(path)
        return super().get(path) if rows is None else entry_with_head(_Answered(rows), self.store_id, path)[1]

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        for change in changes:
            if change.origin is not None:
                self.ahead.clear()
            for path in (change.path, None if change.before is None else change.before.path):
                if path is not None and self.ahead:
                    self._forget(path)
        return super().record(changes, actor)

    def _forget(self, changed: str) -> None:
        """Remove entries from `ahead` that a change affects: the entries at, above and below the path `changed`."""
        self.ahead.pop(changed, None)
        for path in tuple(self.ahead):
            if path.startswith(f"{changed}/") or changed.startswith(f"{path}/"):
                del self.ahead[path]

    def drop(self, memories: Sequence[Memory]) -> None:
        self.ahead.clear()
        super().drop(memories)

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        self.ahead.clear()
        super().redact(version_ids, actor)

    def prune(self, version_ids: Sequence[str]) -> None:
        self.ahead.clear()
        super().prune(version_ids)


def first_path(work: Callable[..., object]) -> str | None:
    """Return the path of the entry that `work` will read first, or None if it is unknown.

    The path is the attribute `first_path` of `work`. If `work` is a `partial` with arguments, the attribute of the
    first argument is used.
    """
    named = work.args[0] if isinstance(work, partial) and work.args else work
    found: object = getattr(named, "first_path", None)
    return found if isinstance(found, str) else None


class _Asked(Exception):
    """Stops a function at its first query."""


class _Noted:
    """Connection that records the first query of a function instead of sending it."""

    query: Query

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        self.query = sql, values
        raise _Asked

    def run(self, sql: str, values: Sequence[Value] = ()) -> None:
        raise NotImplementedError

    def run_many(self, sql: str, values: Sequence[Sequence[Value]]) -> None:
        raise NotImplementedError


class _Answered(_Noted):
    """Connection for a function that makes a single query. The connection returns rows that were read before."""

    def __init__(self, found: list[Row]) -> None:
        self._found = found

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        return self._found


def _query(ask: Callable[[Connection], object]) -> Query:
    noted = _Noted()
    try:
        ask(noted)
    except _Asked:
        return noted.query
    raise AssertionError("the function made no query")
