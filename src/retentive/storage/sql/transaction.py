"""Transaction on a memory store in a SQL database: writes changes as rows, and redacts and prunes versions."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from hashlib import sha256
from os import urandom

from retentive.errors import Damaged, InvalidInput
from retentive.storage.contract import UNCHANGED, Actor, Change, Clock, Memory, Metadata, NewId, Transaction, Version
from retentive.storage.sql import stores
from retentive.storage.sql.connection import Connection, Value
from retentive.storage.sql.snapshot import SqlSnapshot, StoreHead, select_head
from retentive.storage.sql.versions import VERSION
from retentive.values.records import HIGHEST_COUNTER, Kept, Operation, Recorded, now_us, sortable_id, to_us

_AT_ONCE = 200  # maximum number of ids in one statement


class SqlTransaction(SqlSnapshot, Transaction):
    """Transaction on a memory store. The caller holds the lock for writers.

    At the end the caller calls `finish`, then `write_head` if anything changed, and commits. `head` is the row of the
    store with its counters. If one commit has several transactions on the same store, pass the same `head` to each of
    them, so that each continues with the counters of the previous one. Then call `write_head` only on the last of them.
    """

    def __init__(
        self, connection: Connection, store_id: str, head: StoreHead | None = None, *, clock: Clock, new_id: NewId
    ) -> None:
        super().__init__(connection, store_id, head)
        self._clock = clock
        self._new_id = new_id
        self._revision_before: int | None = None
        self.changed = False
        self.untraced = False  # true after a change that leaves no trace in a version or in the row of the store
        self.newest: str | None = None  # id of the latest version

    @property
    def listing_key(self) -> Hashable:
        return None  # the changes may still be rolled back

    @property
    def outlasts_refusal(self) -> bool:
        """True if the changes must be committed even if the command is refused with `Refused`."""
        return False

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        if not changes:
            return []
        self._changes_memories()
        moves: list[Sequence[Value]] = []
        recorded: list[Recorded] = []
        name = None if actor is None else str(actor)
        for change in changes:
            who = name if change.origin is None else _name(change.origin.actor)
            is_redacted = change.origin is not None and change.origin.redacted_at is not None
            keeps_bytes = change.data is None and change.size_bytes is None and not is_redacted
            if keeps_bytes and change.before is not None and change.path is not None:
                moves.append(self._move(change.before, change, change.path, who))
                recorded.append(Recorded(change.before.id, str(self.newest)))
                continue
            if moves:
                self._carry_out(moves)  # this change may use the old path of a queued rename, or change its new path
            recorded.append(self._record_one(change, who))
        self._carry_out(moves)
        return recorded

    def _record_one(self, change: Change, who: str | None) -> Recorded:
        """Record a change that is not a rename."""
        before, origin, head = change.before, change.origin, self.head
        size = change.size_bytes if change.data is None or change.sealing is not None else len(change.data)
        if origin is not None and origin.redacted_at is not None:
            redacted = to_us(origin.redacted_at), _name(origin.redacted_by)
            return self._put_bare(change, origin.memory_id, origin.operation, "", who, redacted=redacted)
        head.memories += (before is None) - (change.path is None)
        if change.path is None and before is not None:
            head.size_bytes -= before.size_bytes
            recorded = self._put_bare(change, before.id, "deleted", before.path, who)
            self.connection.run("DELETE FROM memories WHERE store = ? AND path = ?", (self.store, before.path))
            return recorded
        if change.path is None and origin is not None:  # a deletion that has no earlier version
            return self._put_bare(change, origin.memory_id, "deleted", origin.path, who)
        if change.path is None or size is None:
            raise InvalidInput("a new memory needs a path and a text")
        head.size_bytes += size - (before.size_bytes if before is not None else 0)
        return self._put(change, change.path, size, who)

    def _carry_out(self, moves: list[Sequence[Value]]) -> None:
        """Write the queued renames in one batch, and empty the queue."""
        if moves:
            self.connection.run_many(
                "UPDATE memories SET path = ?, version = ?, updated_at = ?, seal = ?, provenance = ?,"
                " mark = NULL WHERE store = ? AND path = ?",
                moves,
            )
            moves.clear()

    def drop(self, memories: Sequence[Memory]) -> None:
        self._changes_memories()
        _forget_departures(self.store_id)
        for memory in memories:
            self.head.memories -= 1
            self.head.size_bytes -= memory.size_bytes
        gone = [(self.store, memory.path) for memory in memories]
        self.connection.run_many("DELETE FROM memories WHERE store = ? AND path = ?", gone)

    def earlier(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version] | None:
        if self.changed:  # changes that may be rolled back must not enter the cache of departures
            return None
        return super().earlier(before, under, start=start, limit=limit, one_level=one_level)

    def set_metadata(
        self, *, settings: Metadata = UNCHANGED, seal: Metadata = UNCHANGED, properties: Metadata = UNCHANGED
    ) -> None:
        self.changed = True
        if properties is not UNCHANGED:
            self.head.properties = properties
        if settings is not UNCHANGED:
            self.head.settings = settings
        if seal is not UNCHANGED:
            self.head.seal = seal

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self.changed = self.untraced = True
        stores.write_records(self.connection, self.store, kind, {key: value})

    def tick(self) -> int:
        self.changed = self.untraced = True
        self.head.last_at = max(now_us(self._clock), self.head.last_at + 1)
        return self.head.last_at

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        self._changes_memories()
        self.untraced = True
        who, at = _name(actor), now_us(self._clock)
        for start in range(0, len(version_ids), _AT_ONCE):
            chosen = version_ids[start : start + _AT_ONCE]
            places = ", ".join("?" * len(chosen))
            found = self.connection.rows(
                f"SELECT DISTINCT text_of FROM versions WHERE store = ? AND id IN ({places}) AND text_of IS NOT NULL",
                (self.store, *chosen),
            )
            self.connection.run(
                "UPDATE versions SET path = '', size_bytes = NULL, sha256 = NULL, seal = NULL, text_of = NULL,"
                " provenance = NULL, redacted_at = ?, redacted_by = ? WHERE store = ?"
                f" AND id IN ({places}) AND redacted_at IS NULL AND NOT EXISTS ({_IS_PRESENT})",
                (at, who, self.store, *chosen),
            )
            self.connection.run_many(
                "UPDATE versions SET text = NULL WHERE store = ? AND id = ? AND NOT EXISTS"
                " (SELECT 1 FROM versions r WHERE r.store = versions.store AND r.memory = versions.memory"
                " AND r.text_of = versions.id)",
                [(self.store, holder[0]) for holder in found],
            )

    def prune(self, version_ids: Sequence[str]) -> None:
        self._changes_memories()
        _forget_departures(self.store_id)
        self.untraced = True
        newest_first = sorted(version_ids, reverse=True)  # a text is stored in the row of its oldest version
        for start in range(0, len(newest_first), _AT_ONCE):
            chosen = self._without_present(newest_first[start : start + _AT_ONCE])
            places = ", ".join("?" * len(chosen))
            if chosen:
                self.connection.run(
                    f"DELETE FROM versions WHERE store = ? AND id IN ({places})"
                    " AND NOT EXISTS (SELECT 1 FROM versions r WHERE r.store = versions.store"
                    f" AND r.memory = versions.memory AND r.text_of = versions.id AND r.id NOT IN ({places}))",
                    (self.store, *chosen, *chosen),
                )

    def _without_present(self, version_ids: Sequence[str]) -> list[str]:
        """Return `version_ids` without the newest version of each existing memory."""
        places = ", ".join("?" * len(version_ids))
        found = self.connection.rows(
            f"SELECT id FROM versions WHERE store = ? AND id IN ({places}) AND EXISTS ({_IS_PRESENT})",
            (self.store, *version_ids),
        )
        present = {row[0] for row in found}
        return [each for each in version_ids if each not in present]

    def _changes_memories(self) -> None:
        """Increase the revision of the store when this transaction first changes memories or the history."""
        self.changed, self._ahead, head = True, None, self.head
        if self._revision_before is None:
            self._revision_before = head.revision
        head.revision = max(head.revision, self._revision_before + 1)

    def finish(self) -> None:
        """End this transaction, before the next transaction of the same commit begins. Subclasses override it."""

    def write_head(self) -> None:
        """Write the row of the store with its counters.

        If several transactions of a commit share one `head`, this is called once, on the last of them.
        """
        head = self.head
        counters = head.revision, head.memories, head.size_bytes, head.last_at
        self.connection.run(
            "UPDATE stores SET revision = ?, memories = ?, size_bytes = ?, last_at = ?, seal = ?, settings = ?,"
            " properties = ? WHERE no = ?",
            (*counters, head.seal, head.settings, head.properties, head.no),
        )

    def _put(self, change: Change, path: str, size: int, who: str | None) -> Recorded:
        before, head = change.before, self.head
        store = head.no
        at, version = self._tick(change, head)
        memory = self._memory_id(change, at)
        born = at if change.again is None else to_us(change.again.created_at)
        if change.sealing is None and change.data is not None and change.origin is None:
            kept = Kept(change.data, sha256(change.data).hexdigest(), None, change.provenance_text)
        else:
            kept = change.kept(memory, version)
        origin, usual = change.origin, "created" if before is None else "modified"
        operation, revision = (usual, head.revision) if origin is None else (origin.operation, origin.revision)
        values = (store, version, memory, operation, path, size, kept.sha256, who, at, revision)
        if kept.seal is None:  # without the columns that are None: sqlite3 takes 0.3 us for each
            self.connection.run(_NEW_PLAIN_VERSION, (*values, kept.provenance, version, kept.data))
        else:
            sealed = kept.seal, None, None, kept.provenance, version, kept.data
            self.connection.run(_NEW_VERSION, (*values, *sealed))
        if before is not None:
            self.connection.run(
                "UPDATE memories SET version = ?, text_of = ?, size_bytes = ?, sha256 = ?, updated_at = ?, seal = ?,"
                " provenance = ?, mark = NULL WHERE store = ? AND path = ?",
                (version, version, size, kept.sha256, at, kept.seal, kept.provenance, store, before.path),
            )
            if path != before.path:  # otherwise not updated, since updating a key column rewrites the row
                self.connection.run(
                    "UPDATE memories SET path = ? WHERE store = ? AND path = ?", (path, self.store, before.path)
                )
            return Recorded(memory, version)
        self.connection.run(
            "INSERT INTO memories (store, path, id, version, text_of, size_bytes, sha256, created_at, updated_at, seal,"
            " provenance) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (store, path, memory, version, version, size, kept.sha256, born, at, kept.seal, kept.provenance),
        )
        return Recorded(memory, version)

    def _move(self, before: Memory, change: Change, path: str, who: str | None) -> Sequence[Value]:
        at, version = self._tick(change, self.head)
        kept = change.kept(before.id, version)
        self.connection.run(
            f"INSERT INTO versions (store, {VERSION}, text_of, text)"
            " SELECT store, ?, id, 'modified', ?, size_bytes, sha256, ?, ?, ?, ?, NULL, NULL, ?, text_of, NULL"
            " FROM memories WHERE store = ? AND path = ?",
            (version, path, who, at, self._revision(change), kept.seal, kept.provenance, self.store, before.path),
        )
        return (path, version, at, kept.seal, kept.provenance, self.store, before.path)

    def _put_bare(
        self,
        change: Change,
        memory: str,
        operation: Operation,
        path: str,
        who: str | None,
        *,
        redacted: tuple[int | None, str | None] = (None, None),
    ) -> Recorded:
        """Insert a version without text."""
        at, version = self._tick(change, self.head)
        kept = change.kept(memory, version) if redacted[0] is None else Kept(None, None, None)
        values = (version, memory, operation, path, None, None, who, at, self._revision(change), kept.seal, *redacted)
        self.connection.run(_NEW_VERSION, (self.store, *values, kept.provenance, None, None))
        return Recorded(memory, version)

    def _memory_id(self, change: Change, at: int) -> str:
        if change.before is not None:
            return change.before.id
        if change.again is not None:
            return change.again.id
        if change.origin is not None:
            return change.origin.memory_id
        return f"mem_{at:014x}{urandom(9).hex()}" if self._new_id is sortable_id else self._new_id("mem_", at)

    def _revision(self, change: Change) -> int:
        return self.head.revision if change.origin is None else change.origin.revision

    def _tick(self, change: Change, head: StoreHead) -> tuple[int, str]:
        """Return the time and the id of the next version.

        The time is the current time. If the clock went back, the time is that of the previous version plus one
        microsecond.
        """
        if change.origin is None:
            head.last_at = at = max(int(self._clock() * 1_000_000), head.last_at + 1)
            if at >= HIGHEST_COUNTER:  # versions with such a time could not be read
                raise Damaged("the time of the newest version is damaged; run `retentive doctor --repair`")
            # Same result as `sortable_id`, without a function call for each version.
            is_usual = self._new_id is sortable_id
            self.newest = f"memver_{at:014x}{urandom(9).hex()}" if is_usual else self._new_id("memver_", at)
            return at, self.newest
        at = to_us(change.origin.created_at)
        if at <= head.last_at:
            raise InvalidInput("imported versions must be later than all existing versions")
        head.last_at, self.newest = at, change.origin.id
        head.revision = max(head.revision, change.origin.revision)
        return at, change.origin.id


def _forget_departures(store_id: str) -> None:
    from retentive.storage.sql.departures import DEPARTURES  # noqa: PLC0415 - rarely needed

    DEPARTURES.forget(store_id)


def _name(actor: Actor | None) -> str | None:
    return None if actor is None else str(actor)


_NEW_VERSION = f"INSERT INTO versions (store, {VERSION}, text_of, text) VALUES (?{', ?' * 15})"
_NEW_PLAIN_VERSION = (
    "INSERT INTO versions (store, id, memory, operation, path, size_bytes, sha256, actor, created_at, revision,"
    f" provenance, text_of, text) VALUES (?{', ?' * 12})"
)
_IS_PRESENT = (
    "SELECT 1 FROM memories m WHERE m.store = versions.store AND m.path = versions.path AND m.version = versions.id"
)


def was_committed(connection: Connection, changed: SqlTransaction, *, lock: str) -> bool:
    """Return True if the changes of a transaction were committed although the reply to the commit was lost.

    Locks the row of the store. The caller commits. If the transaction contained only records, the result is False,
    because it does no harm to write records twice.
    """
    head = select_head(connection, changed.store_id, lock=lock)
    if changed.newest is not None:
        sql = "SELECT 1 FROM versions WHERE store = ? AND id = ?"
        landed = bool(connection.rows(sql, (head.no, changed.newest)))
    else:
        held = changed.head.seal, changed.head.settings, changed.head.properties
        landed = not changed.untraced and (head.seal, head.settings, head.properties) == held
    connection.run("UPDATE stores SET last_at = last_at + 1 WHERE no = ?", (head.no,))
    return landed
