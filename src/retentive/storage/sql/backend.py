"""Base class of the SQL backends. Subclasses add connections, write transactions and retries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar, TypeVar, Unpack, cast

from retentive.errors import Damaged, InvalidInput, Locked, UnknownSchema
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
from retentive.storage.findings import Finding, found
from retentive.storage.packs import plain_packing
from retentive.storage.queue import StoreJob, run_together
from retentive.storage.sql.connection import Connection, Row, Value
from retentive.storage.sql.schema import TABLES_OF_STORES, is_current
from retentive.storage.sql.snapshot import OF_STORE, SqlSnapshot, StoreHead, as_bound, no_store
from retentive.storage.sql.transaction import SqlTransaction, remove_versions
from retentive.values.paths import visible
from retentive.values.properties import damaged_store
from retentive.values.records import name_of, to_datetime, to_us

T = TypeVar("T")
_STORE = (
    "s.id, s.store_key, s.name, s.created_at, CASE WHEN s.erased_at IS NULL THEN n.memories END, n.total_bytes, s.seal,"
    " s.erased_at, s.workspace, s.properties"
)
_BY_KEY = "s.workspace = ? AND s.store_key = ?"
_MOST = 1_000  # maximum number of findings of each code
_LIVING = "SELECT no FROM stores WHERE erased_at IS NULL"
_IS_NEWEST = (  # the newest version of a memory that exists
    "v.memory <> '' AND (v.operation <> 'deleted' OR v.sha256 <> '') AND v.redacted_at IS NULL AND NOT EXISTS"
    " (SELECT 1 FROM versions w WHERE w.store = v.store AND w.memory = v.memory AND w.id > v.id)"
)
_TEXTS_LEFT = (
    "SELECT s.id, v.id FROM versions v JOIN stores s ON s.no = v.store WHERE v.text IS NOT NULL"
    " AND (v.redacted_at IS NOT NULL OR v.text_of IS NOT NULL OR v.operation = 'deleted') AND NOT"
    " EXISTS (SELECT 1 FROM versions r WHERE r.store = v.store AND r.text_of = v.id)"
)
_CURRENT_BYTES = (
    "SELECT sum(length(t.text)) FROM memories m JOIN versions v ON v.store = m.store AND v.id = m.newest"
    " JOIN versions t ON t.store = v.store AND t.id = COALESCE(v.text_of, v.id) WHERE m.store = ?"
)
_TOTALS = (
    "SELECT count(*), sum(v.size_bytes) FROM memories m JOIN versions v ON v.store = m.store AND v.id = m.newest"
    " WHERE m.store = ?"
)


class SqlBackend(Backend):
    """Backend that keeps memory stores in the tables of the SQL dialect `dialect`.

    `lock` is the SQL clause that makes a query lock the rows that it reads, such as ` FOR UPDATE`. It is empty for
    SQLite.
    """

    dialect: ClassVar[str] = "sqlite"
    lock = ""

    def __init__(self, clock: Clock, new_id: NewId) -> None:
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

    def transaction(self, connection: Connection, store_id: str, heads: dict[str, StoreHead]) -> SqlTransaction:
        """Return a new transaction for one job. `heads` has the heads of stores that earlier jobs have read."""
        return SqlTransaction(connection, store_id, heads, clock=self.clock, new_id=self.new_id)

    def run_jobs(
        self, connection: Connection, jobs: Sequence[StoreJob], commit: Callable[[dict[str, StoreHead]], None]
    ) -> Sequence[SqlTransaction]:
        """Run jobs in the open transaction, and set their outcomes. `commit` is called if they have changed anything.

        Returns the transactions that changed something, or none if the outcome of the commit is unknown.
        """
        heads: dict[str, StoreHead] = {}

        def start(job: StoreJob, _: object) -> SqlTransaction:
            transaction = self.transaction(connection, job.store_id, heads)
            transaction.first_path, transaction.packing_of = job.first_path, self.packing
            return transaction

        return run_together(jobs, start, lambda changed, _: commit(heads) if changed else None)

    def read(self, store_id: str, work: Callable[[Snapshot], T], *, first_path: str | None = None) -> T:
        def look(connection: Connection) -> T:
            snapshot = self.snapshot(connection, store_id)
            snapshot.first_path, snapshot.packing_of = first_path, self.packing
            result = work(snapshot)
            _ = snapshot.head  # raises `NotFound`, even if the work read nothing
            return result

        return self.look(look)

    def create_store(self, **new: Unpack[NewStore]) -> StoreInfo:
        created_at = new.get("created_at")
        at = now_us(self.clock) if created_at is None else to_us(created_at)
        store_id = new.get("store_id") or self.new_id("memstore_", at)
        key, workspace = new["key"], new.get("workspace", DEFAULT_WORKSPACE)

        def create(connection: Connection) -> StoreInfo:
            by_key = None if key is None else _select(connection, _BY_KEY, workspace, key)
            if (found := by_key or _select(connection, "s.id = ?", store_id)) is not None:
                return found  # the id of an erased store remains in use
            connection.run(
                "INSERT INTO stores (id, workspace, store_key, name, created_at, seal, properties)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (store_id, workspace, key, new["name"], at, new.get("seal"), new.get("properties")),
            )
            return find_store(connection, store_id)

        return self.transact(create)

    def get_store(self, id_or_key: str, *, workspace: str = DEFAULT_WORKSPACE) -> StoreInfo | None:
        if "\0" in id_or_key or id_or_key.encode(errors="replace").decode() != id_or_key:
            return None  # no database can store a NUL or a lone surrogate

        def select(connection: Connection) -> StoreInfo | None:
            by_id = _select(connection, "s.id = ?", id_or_key) if id_or_key.startswith("memstore_") else None
            return by_id or _select(connection, _BY_KEY, workspace, id_or_key)

        return self.look(select)

    def list_stores(self, **chosen: Unpack[StoreSelection]) -> list[StoreInfo]:
        return self.look(lambda connection: select_stores(connection, chosen))

    def erase_store(self, store_id: str, actor: Actor | None) -> None:
        self.transact(partial(self._erase, store_id=store_id, actor=actor), may_use_reserve=True)

    def _erase(self, connection: Connection, store_id: str, actor: Actor | None) -> None:
        """Remove all data of a store except its id."""
        for row in connection.rows(f"SELECT no FROM stores WHERE id = ? AND erased_at IS NULL{self.lock}", (store_id,)):
            number = cast("int", row[0])
            remove_versions(connection, number, "memory <> ''")
            for table in ("memories", "packs", "records"):
                connection.run(f"DELETE FROM {table} WHERE store = ?", (number,))
            connection.run(
                "UPDATE stores SET store_key = NULL, name = '', seal = NULL, settings = NULL, properties = NULL,"
                " erased_at = ?, erased_by = ? WHERE no = ?",
                (now_us(self.clock), name_of(actor), number),
            )

    def check(self, *, quick: bool = False) -> Iterator[Finding]:
        yield from self.look(lambda connection: list(self._examine(connection, quick=quick)))

    def _examine(self, connection: Connection, *, quick: bool) -> Iterator[Finding]:
        """Yield a finding for each violated rule. With `quick`, rows with texts are not searched."""
        if not is_current(connection, self.dialect):
            raise Damaged("the database is empty; everything in it was lost")
        for table in TABLES_OF_STORES:
            kept = " AND memory <> ''" if table == "versions" else ""
            left = f"FROM {table} WHERE store NOT IN ({_LIVING}){kept}"
            for row in connection.rows(f"SELECT store, count(*) {left} GROUP BY store LIMIT {_MOST}"):
                yield found("rows_left", None, f"{row[0]!s} ({row[1]!s} rows of {table})")
        if not quick:
            for store_id, version_id in connection.rows(f"{_TEXTS_LEFT} LIMIT {_MOST}"):
                yield found("text_left", str(store_id), visible(str(version_id)))
            yield from self._examine_packs(connection)

    def _examine_packs(self, connection: Connection) -> Iterator[Finding]:
        """Yield a finding for each pack that cannot be opened, or has texts that no version needs."""
        packs = "SELECT p.store, p.id, s.id, s.seal FROM packs p JOIN stores s ON s.no = p.store ORDER BY p.store, p.id"
        for store, number, store_id, seal in cast("list[tuple[int, str, str, str | None]]", connection.rows(packs)):
            if seal is not None and self.packing is plain_packing:  # the location was opened without keys
                continue
            snapshot = self.snapshot(connection, store_id)
            snapshot.packing_of = self.packing
            try:
                ids = list(snapshot.texts_in(number))
            except (InvalidInput, Locked, UnknownSchema):  # reported by the check of the store
                continue
            except Damaged:
                ids = [""]
            known = "SELECT count(*) FROM versions WHERE store = ? AND pack = ? AND id IN"
            if connection.rows(f"{known} ({', '.join('?' * len(ids))})", (store, number, *ids))[0][0] != len(ids):
                yield found("pack_wrong", store_id, visible(number))

    def history_bytes(self, store_id: str) -> int:
        def work(connection: Connection) -> int:
            store = self.snapshot(connection, store_id).store
            packs = "SELECT sum(length(data)) FROM packs WHERE store = ?"
            texts = "SELECT sum(length(text)) FROM versions WHERE store = ?"
            rows = [connection.rows(sql, (store,))[0][0] for sql in (packs, texts, _CURRENT_BYTES)]
            in_packs, in_versions, current = (int(size or 0) for size in rows)
            return in_packs + in_versions - current

        return self.look(work)

    def rebuild(self) -> None:
        self.transact(_rebuild)


def _rebuild(connection: Connection) -> None:
    """Rebuild the table of memories and the totals of each store."""
    connection.run("DELETE FROM memories")
    connection.run(
        "INSERT INTO memories (store, path, newest) SELECT v.store, v.path, max(v.id) FROM versions v"
        f" WHERE v.store IN ({_LIVING}) AND {_IS_NEWEST} GROUP BY v.store, v.path"
    )
    for (number,) in connection.rows(_LIVING):
        newest = connection.rows("SELECT max(id) FROM versions WHERE store = ?", (number,))[0][0]
        memories, total = cast("tuple[int, int | None]", connection.rows(_TOTALS, (number,))[0])
        sql = "UPDATE versions SET memories = ?, total_bytes = ? WHERE store = ? AND id = ?"
        connection.run(sql, (memories, int(total or 0), number, newest))


def find_store(connection: Connection, store_id: str) -> StoreInfo:
    """Return the store with this id. Raises `NotFound`."""
    found = _select(connection, "s.id = ?", store_id)
    if found is None:
        raise no_store(store_id)
    return found


def select_stores(connection: Connection, chosen: StoreSelection) -> list[StoreInfo]:
    """Return the stores that are not erased and meet the conditions in `chosen`, in order of their ids.

    A store whose row cannot be read is returned with `StoreInfo.damage`.
    """
    after, before = chosen.get("after"), chosen.get("before")
    clauses = (
        ("s.id > ?", None if after is None else as_bound(after)),
        ("s.id < ?", None if before is None else as_bound(before)),
        ("s.workspace = ?", chosen.get("workspace")),
    )
    sql, values = f"{OF_STORE} WHERE s.erased_at IS NULL", list[Value]()
    for clause, value in clauses:
        if value is not None:
            sql, values = f"{sql} AND {clause}", [*values, value]
    sql += " ORDER BY s.id DESC" if chosen.get("newest_first") else " ORDER BY s.id"
    if (limit := chosen.get("limit")) is not None:
        sql, values = sql + " LIMIT ?", [*values, limit]
    try:
        return [_store(row) for row in connection.rows(f"SELECT {_STORE} {sql}", values)]
    except Damaged:
        found = []
    for (number,) in connection.rows(f"SELECT s.no {sql}", values):
        store_id = f"memstore_{number!s}"
        try:
            store_id = str(connection.rows("SELECT id FROM stores WHERE no = ?", (number,))[0][0])
            found.append(_store(connection.rows(f"SELECT {_STORE} {OF_STORE} WHERE s.no = ?", (number,))[0]))
        except Damaged as error:
            found.append(damaged_store(visible(store_id), error))
    return found


def _select(connection: Connection, clause: str, *values: str) -> StoreInfo | None:
    found = connection.rows(f"SELECT {_STORE} {OF_STORE} WHERE {clause}", values)
    return _store(found[0]) if found else None


def _store(row: Row) -> StoreInfo:
    """Return the store in a row. SQLite returns values of any type, and a damaged text with lone surrogates."""
    id_, key, name, created, memories, total_bytes, seal, erased, workspace, properties = cast(
        "tuple[str, str | None, str, int, int | None, int | None, str | None, int | None, str, str | None]", row
    )
    try:
        for text in (id_, name, workspace, *(text for text in (key, seal, properties) if text is not None)):
            str.encode(text)
        created_at, erased_at = to_datetime(created), None if erased is None else to_datetime(erased)
        count, size = (int.__index__(memories), int.__index__(total_bytes or 0)) if memories else (0, 0)
    except (Damaged, TypeError, UnicodeEncodeError):
        raise Damaged(f"the row of memory store {visible(str(id_))} cannot be read") from None
    return StoreInfo(id_, key, name, created_at, count, size, seal, erased_at, workspace, properties)
