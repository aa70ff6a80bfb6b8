"""Transaction on a memory store in a SQL database: writes changes as rows, and redacts and prunes versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias, Unpack, cast

from retentive.errors import (
    Damaged,
    InvalidInput,
    PermissionDenied,
    RetentiveError,
    StorageReadOnly,
    StoreFull,
    Unavailable,
)
from retentive.storage.contract import (
    Actor,
    Change,
    Clock,
    Created,
    Imported,
    Metadata,
    NewId,
    Recorded,
    kept,
    now_us,
    verified,
)
from retentive.storage.packs import FULL_BYTES, filled, is_full
from retentive.storage.queue import BatchTransaction
from retentive.storage.sql.connection import Connection, Row, Value
from retentive.storage.sql.snapshot import SqlSnapshot, StoreHead
from retentive.values.records import HIGHEST_COUNTER, name_of, to_us

Stored: TypeAlias = "tuple[int | None, str | None, str | None]"
"""Size and hash of a text, and the version whose row has it (None: the version itself)."""
_Loose: TypeAlias = "tuple[str, str, str, bytes | None, str | None, bytes | None]"
_AT_ONCE = 200  # maximum number of ids in one statement
_COLUMNS = (
    "store, id, memory, operation, path, actor, created_at, revision, memories, total_bytes, seal, provenance,"
    " redacted_at, redacted_by, size_bytes, sha256, text_of, text"
)
_INSERT = f"INSERT INTO versions ({_COLUMNS}) VALUES (?{', ?' * 17})"
_IS_PRESENT = (
    "SELECT 1 FROM memories m WHERE m.store = versions.store AND m.path = versions.path AND m.newest = versions.id"
)
_IS_SHARED = "SELECT 1 FROM versions r WHERE r.store = versions.store AND r.text_of = versions.id"
_OLDER = (
    "SELECT 1 FROM versions r WHERE r.store = versions.store AND r.memory = versions.memory AND r.id < versions.id"
    " AND r.operation <> 'deleted'"
)
_NEW_DATA = "UPDATE packs SET data = ? WHERE store = ? AND id = ?"
_EMPTIED = "path = '', size_bytes = NULL, sha256 = NULL, seal = NULL, text_of = NULL, provenance = NULL"


_STORAGE_ERRORS = (StoreFull, Unavailable, Damaged, PermissionDenied, StorageReadOnly)


class SqlTransaction(SqlSnapshot, BatchTransaction):
    """Transaction on a memory store. The caller holds the lock for writers, and commits if `changed`.

    `head` is the head of the store. If one commit has several transactions on the same store, pass the same `head` to
    each of them, so that each continues with the counters of the previous one.
    """

    def __init__(
        self, connection: Connection, store_id: str, heads: dict[str, StoreHead], *, clock: Clock, new_id: NewId
    ) -> None:
        super().__init__(connection, store_id, heads)
        self._clock = clock
        self._new_id = new_id
        self._revision: int | None = None
        self.changed = False

    def finish(self) -> bool:
        _ = self.head  # raises `NotFound`, even if the job read nothing
        return self.changed

    def undo(self, error: Exception) -> None:
        if self.changed or not isinstance(error, RetentiveError) or isinstance(error, _STORAGE_ERRORS):
            raise error

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        moved = [change.before.version_id for change in changes if change.before and change.path and not change.data]
        texts: dict[str, Stored] = {}
        for start in range(0, len(moved), _AT_ONCE):
            ids = moved[start : start + _AT_ONCE]
            sql = "SELECT id, size_bytes, sha256, COALESCE(text_of, id) FROM versions WHERE store = ? AND id IN"
            rows = self.connection.rows(f"{sql} ({', '.join('?' * len(ids))})", (self.store, *ids))
            texts |= {cast("str", row[0]): cast("Stored", row[1:]) for row in rows}
        return [self._record(change, actor, texts) for change in changes]

    def _record(self, change: Change, actor: Actor | None, texts: dict[str, Stored]) -> Recorded:
        """Record a change. `texts` has the texts of versions that changes may move, by version id."""
        before, path, head = change.before, change.path, self.head
        self._ahead = None
        version, at = self._next_version(change), head.last_at
        who, redacted_at, redacted_by = actor, None, None
        match change:
            case Imported(origin):
                memory, who, last_path, at = origin.memory_id, origin.actor, origin.path, to_us(origin.created_at)
                redacted_at, redacted_by = origin.redacted_at, origin.redacted_by
            case Created(last_path, again=again):
                memory = self._new_id("mem_", at) if again is None else again.id
            case _:
                memory, last_path = change.before.id, change.before.path
        form = kept(change, memory, version)
        stored: Stored = form.size_bytes, form.sha256, None
        if path is not None and form.data is None:
            if before is None or before.version_id not in texts:
                raise InvalidInput("a memory needs a text, its own or that of an existing version")
            stored = texts[before.version_id]
        texts[version] = stored[0], stored[1], stored[2] or version
        head.memories += (path is not None) - (before is not None)
        head.size_bytes += (stored[0] or 0) - (0 if before is None else before.size_bytes)
        values: tuple[Value, ...] = (head.no, version, memory, change.operation, path or last_path, name_of(who))
        values += (at, self._revision, head.memories, head.size_bytes, form.seal, form.provenance)
        values += (None if redacted_at is None else to_us(redacted_at), name_of(redacted_by))
        self.connection.run(_INSERT, (*values, *stored, form.data))
        self._point(None if before is None else before.path, path, version)
        return Recorded(memory, version)

    def _point(self, before: str | None, path: str | None, version: str) -> None:
        """Let the index of memories name the newest version of the memory that was at `before` and is now at `path`."""
        store, run = self.head.no, self.connection.run
        if before is not None and before == path:
            run("UPDATE memories SET newest = ? WHERE store = ? AND path = ?", (version, store, path))
            return
        if before is not None:
            run("DELETE FROM memories WHERE store = ? AND path = ?", (store, before))
        if path is not None:
            run("INSERT INTO memories (store, path, newest) VALUES (?, ?, ?)", (store, path, version))

    def _next_version(self, change: Change) -> str:
        """Return the id of the next version, and advance the head to its time and revision.

        The time is the current time. If the clock went back, it is that of the previous version plus one microsecond.
        """
        head, origin = self.head, change.version if isinstance(change, Imported) else None
        self.changed = True
        if self._revision is None or origin is not None:
            self._revision = head.revision + 1 if origin is None else origin.revision
        at = max(now_us(self._clock), head.last_at + 1) if origin is None else to_us(origin.created_at)
        if at >= HIGHEST_COUNTER:  # versions with such a time could not be read
            raise Damaged("the time of the newest version is damaged; restore the memory store from a backup")
        version = self._new_id("memver_", at) if origin is None else origin.id
        if version <= head.newest:
            raise InvalidInput("imported versions must be later than all existing versions")
        head.newest, head.last_at, head.revision = version, max(at, head.last_at), max(self._revision, head.revision)
        return version

    def set_metadata(self, **metadata: Unpack[Metadata]) -> None:
        self.changed, head = True, self.head
        for name, value in metadata.items():
            setattr(head, name, value)
        sql = "UPDATE stores SET settings = ?, seal = ?, properties = ? WHERE no = ?"
        self.connection.run(sql, (head.settings, head.seal, head.properties, head.no))

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self.changed, place, run = True, (self.store, kind, key), self.connection.run
        run("DELETE FROM records WHERE store = ? AND kind = ? AND name = ?", place)  # there is no common "upsert"
        if value is not None:
            run("INSERT INTO records (store, kind, name, value) VALUES (?, ?, ?, ?)", (*place, value))

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        self.changed = True
        at, store = now_us(self._clock), self.store
        for start in range(0, len(version_ids), _AT_ONCE):
            chosen = version_ids[start : start + _AT_ONCE]
            places = ", ".join("?" * len(chosen))
            shared = self.connection.rows(
                f"SELECT DISTINCT text_of FROM versions WHERE store = ? AND id IN ({places}) AND text_of IS NOT NULL",
                (store, *chosen),
            )
            self.connection.run(
                f"UPDATE versions SET {_EMPTIED}, redacted_at = ?, redacted_by = ? WHERE store = ?"
                f" AND id IN ({places}) AND redacted_at IS NULL AND memory <> '' AND NOT EXISTS ({_IS_PRESENT})",
                (at, name_of(actor), store, *chosen),
            )
            # A text is kept until the last version that has it is redacted.
            places, ids = ", ".join("?" * (len(chosen) + len(shared))), (*chosen, *(row[0] for row in shared))
            where = f"id IN ({places}) AND redacted_at IS NOT NULL AND NOT EXISTS ({_IS_SHARED})"
            self._take_out(where, ids, version_ids)
            self.connection.run(
                f"UPDATE versions SET text = NULL, pack = NULL WHERE store = ? AND {where}", (store, *ids)
            )

    def prune(self, version_ids: Sequence[str]) -> None:
        self.changed, store = True, self.store
        newest_first = sorted(version_ids, reverse=True)  # a text is stored in the row of its oldest version
        # Deletions go last: without its deletion, an older version would look current.
        for may_go in ("operation <> 'deleted'", f"operation = 'deleted' AND NOT EXISTS ({_OLDER})"):
            for start in range(0, len(newest_first), _AT_ONCE):
                ids: list[Value] = [*newest_first[start : start + _AT_ONCE]]
                places = ", ".join("?" * len(ids))
                sql = f"SELECT id FROM versions WHERE store = ? AND id IN ({places}) AND {may_go} AND NOT EXISTS"
                ids = [row[0] for row in self.connection.rows(f"{sql} ({_IS_PRESENT})", (store, *ids))]
                places = ", ".join("?" * len(ids))
                if ids:
                    where = f"id IN ({places}) AND NOT EXISTS ({_IS_SHARED} AND r.id NOT IN ({places}))"
                    self._take_out(where, ids * 2, version_ids)
                    remove_versions(self.connection, store, where, ids * 2)

    def pack(self, version_ids: Sequence[str]) -> None:
        for start in range(0, len(version_ids), _AT_ONCE):
            ids = version_ids[start : start + _AT_ONCE]
            rows = self.connection.rows(
                f"SELECT memory, id, sha256, seal, pack, text FROM versions WHERE store = ? AND size_bytes <= ?"
                f" AND id IN ({', '.join('?' * len(ids))}) AND redacted_at IS NULL"
                " AND (text IS NOT NULL OR pack IS NOT NULL)",
                (self.store, FULL_BYTES, *ids),
            )
            # Sorted here, because a database would copy the texts.
            for memory, of_memory in groupby(sorted(rows, key=itemgetter(0, 1)), key=itemgetter(0)):
                self._pack(str(memory), list(of_memory))

    def _pack(self, memory: str, rows: Sequence[Row]) -> None:
        """Pack the texts of versions of one memory. `rows` has their ids, hashes, seals, packs and texts.

        Damaged texts and packs are left as they are, so that a sweep goes on.
        """
        newest = "SELECT COALESCE(text_of, id) FROM versions WHERE store = ? AND memory = ? ORDER BY id DESC LIMIT 1"
        current, packing = self.connection.rows(newest, (self.store, memory))[0][0], self.packing
        loose, open_ones = dict[str, bytes](), dict[str, Mapping[str, bytes]]()
        for _, id_, sha256, seal, pack, text in cast("list[_Loose]", rows):
            if pack is None and id_ != current:
                with suppress(Damaged):
                    loose[id_] = packing.opened(id_, verified(text, sha256, seal, id_))
        for pack in sorted({str(row[4]) for row in rows if row[4] is not None}):
            with suppress(Damaged):
                if not is_full(texts := self.texts_in(pack)):
                    open_ones[pack] = texts
        if not loose and len(open_ones) < 2:
            return
        self.changed = True
        for pack in open_ones:
            self._put_pack(pack, {})
        merged = {version_id: text for each in (*open_ones.values(), loose) for version_id, text in each.items()}
        for full in filled(merged):
            ids = list(full)
            self._put_pack(ids[0], full, is_new=True)
            sql = f"UPDATE versions SET text = NULL, pack = ? WHERE store = ? AND id IN ({', '.join('?' * len(ids))})"
            self.connection.run(sql, (ids[0], self.store, *ids))
            self.close_gaps(ids)

    def close_gaps(self, version_ids: Sequence[str]) -> None:
        """Free the space that the removed texts of versions have left, if the database does not do so itself."""

    def _put_pack(self, number: str, texts: Mapping[str, bytes], *, is_new: bool = False) -> None:
        """Write a pack, or write it again with other texts. Without texts, it is deleted."""
        self._opened = "", {}
        data = self.packing.encode(texts) if texts else None
        if data is None:
            self.connection.run("DELETE FROM packs WHERE store = ? AND id = ?", (self.store, number))
        else:
            sql = "INSERT INTO packs (data, store, id) VALUES (?, ?, ?)" if is_new else _NEW_DATA
            self.connection.run(sql, (data, self.store, number))

    def _take_out(self, where: str, values: Sequence[Value], going: Sequence[str]) -> None:
        """Take the texts of the versions that match `where` out of their packs. They are some of those in `going`.

        A damaged pack cannot be written again, so it must not have the text of another version. Raises `Damaged`.
        """
        chosen = f"FROM versions WHERE store = ? AND pack IS NOT NULL AND {where}"
        rows = self.connection.rows(f"SELECT pack, id {chosen} ORDER BY pack", (self.store, *values))
        for number, members in groupby(cast("list[tuple[str, str]]", rows), key=itemgetter(0)):
            ids = {version_id for _, version_id in members}
            try:
                texts = {each: text for each, text in self.texts_in(number).items() if each not in ids}
            except Damaged:
                others = self.connection.rows(
                    "SELECT id FROM versions WHERE store = ? AND pack = ?", (self.store, number)
                )
                if not {row[0] for row in others} <= set(going):
                    raise
                texts = {}
            self._put_pack(number, texts)


def remove_versions(connection: Connection, number: int, where: str, values: Sequence[Value] = ()) -> None:
    """Delete versions of a store. `where` is a condition with the placeholders for `values`.

    The newest version of a store stays, because revision, totals and the next id follow from it. All its other columns
    are emptied. From then on it belongs to no memory, and is not listed as a version.
    """
    newest = connection.rows("SELECT max(id) FROM versions WHERE store = ?", (number,))[0][0]
    connection.run(
        "UPDATE versions SET memory = '', operation = '', path = '', size_bytes = NULL, sha256 = NULL, actor = NULL,"
        " seal = NULL, redacted_at = NULL, redacted_by = NULL, provenance = NULL, text_of = NULL, pack = NULL,"
        " text = NULL"
        f" WHERE store = ? AND id = ? AND {where}",
        (number, newest, *values),
    )
    connection.run(f"DELETE FROM versions WHERE store = ? AND id < ? AND {where}", (number, newest, *values))
    connection.run("DELETE FROM versions WHERE store = ? AND id < ? AND memory = ''", (number, newest))
