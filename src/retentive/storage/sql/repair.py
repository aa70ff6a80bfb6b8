"""Repair of memory stores in a SQL database.

A repair corrects only values that can be derived from other stored values. It deletes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import cast

from retentive.errors import NotFound
from retentive.storage.sql.connection import Connection, Row, Value
from retentive.storage.sql.snapshot import StoreHead, select_head
from retentive.values.paths import ancestors
from retentive.values.records import HIGHEST_COUNTER, time_in_id

_OF_ANOTHER_AGE = (  # memories with a correct newest version, if no history was pruned (see `history/expiry.py`)
    "SELECT m.path, v.id, v.created_at, v.revision FROM memories m JOIN versions v ON v.store = m.store AND v.id ="
    " (SELECT min(o.id) FROM versions o WHERE o.store = m.store AND o.memory = m.id)"
    " WHERE m.store = ? AND m.created_at <> v.created_at AND v.operation = 'created' AND EXISTS"
    " (SELECT 1 FROM versions w WHERE w.store = m.store AND w.id = m.version AND w.memory = m.id AND w.path = m.path)"
    " AND NOT EXISTS"
    " (SELECT 1 FROM records r WHERE r.store = m.store AND r.kind = 'history' AND r.name = 'pruned_until')"
)
_VERSION = "id, memory, operation, path, size_bytes, sha256, created_at, revision, text_of, redacted_at"
_MEMORY = "id, path, version, text_of, size_bytes, sha256, updated_at"


@dataclass(slots=True)
class _Version:
    id: str
    memory: str
    operation: str
    path: str
    size: int | None
    sha256: str | None
    at: int
    revision: int
    text_of: str | None
    redacted_at: int | None

    @property
    def has_text(self) -> bool:
        return self.operation != "deleted" and self.redacted_at is None

    @property
    def is_on_time(self) -> bool:
        """False if the id contains a time that differs from `at`. True if the id contains no time."""
        return time_in_id(self.id) in {None, self.at}


@dataclass(slots=True)
class _Memory:
    id: str
    path: str
    version: str
    text_of: str
    size: int
    sha256: str
    at: int


def repair_store(connection: Connection, store_id: str, *, lock: str) -> None:
    """Correct a store: its pointers to texts, lost rows of memories, counters and times. The caller commits.

    `lock` is the SQL clause that locks the row of the store.
    """
    with suppress(NotFound):  # the store was erased meanwhile
        head = select_head(connection, store_id, lock=lock)
        _repair_times(connection, head.no)
        repair = _StoreRepair(connection, head)
        if head.seal is None:  # the hashes of encrypted texts are in their seals
            repair.rebuild()
        repair.count()
        _repair_ages(connection, head.no)


class _StoreRepair:
    """Repair of one memory store. It first reads all versions and memories of the store."""

    def __init__(self, connection: Connection, head: StoreHead) -> None:
        self._connection, self._head, self._store = connection, head, head.no
        self._read()

    def _read(self) -> None:
        sql = f"SELECT {_VERSION} FROM versions WHERE store = ? ORDER BY id"
        self._versions = [_Version(*row) for row in self._rows(sql)]  # type: ignore[arg-type] # columns of the schema
        sql = f"SELECT {_MEMORY} FROM memories WHERE store = ? ORDER BY path"
        self._memories = [_Memory(*row) for row in self._rows(sql)]  # type: ignore[arg-type] # columns of the schema
        self._newest = {version.memory: version for version in self._versions}

    def _rows(self, sql: str, *values: Value) -> list[Row]:
        return self._connection.rows(sql, (self._store, *values))

    def _set(self, table: str, where: str, key: str, **values: Value) -> None:
        columns = ", ".join(f"{name} = ?" for name in values)
        self._connection.run(
            f"UPDATE {table} SET {columns} WHERE store = ? AND {where} = ?", (*values.values(), self._store, key)
        )

    def _text(self, version_id: str | None) -> bytes | None:
        found = self._rows("SELECT text FROM versions WHERE store = ? AND id = ?", version_id) if version_id else []
        return cast("bytes | None", found[0][0]) if len(found) == 1 else None

    def _fits(self, holder: str | None, record: _Version | _Memory) -> bool:
        """Return True if the text in the row of the version `holder` has the size and hash in `record`."""
        return fits(self._text(holder), record.size, record.sha256)

    def rebuild(self) -> None:
        """Repair texts, versions and memories of the store.

        First, missing and wrong texts are restored. Then memories that differ from their newest version are corrected,
        and memories that are missing are created again from their newest version.
        """
        for version in self._versions:
            if version.has_text and not self._fits(version.text_of, version):
                self._find_text(version)
        for memory in self._memories:
            newest = self._newest.get(memory.id)
            if newest is not None and newest.has_text and newest.path == memory.path:
                self._compare(memory, newest)
        self._read()
        self._restore_lost()
        self._read()

    def _find_text(self, version: _Version) -> None:
        """Repair a version whose text is missing or does not match its hash.

        `text_of` names the row that has the text. If another row of the same memory has the right text, `text_of` is
        corrected. Otherwise a text with the same hash is copied from another row of the store.

        Nothing is changed if the id of the version itself may be damaged. This is assumed if the time in the id differs
        from the time of the version, or if `text_of` is an unknown id with the same time as the version.
        """
        ids = {each.id for each in self._versions}
        same_time = version.text_of is not None and time_in_id(version.text_of) == version.at
        if not version.is_on_time or (same_time and version.text_of not in ids):
            return
        own = [each.id for each in self._versions if each.memory == version.memory and each.id <= version.id]
        holder = next((each for each in reversed(own) if self._text(each) is not None), None)
        if self._fits(holder, version):
            version.text_of = holder
            self._set("versions", "id", version.id, text_of=holder)
            return
        if version.text_of not in own or not version.sha256 or not self._is_text_wrong(version):
            return
        for (text,) in self._rows("SELECT text FROM versions WHERE store = ? AND sha256 = ?", version.sha256):
            if fits(text, version.size, version.sha256):
                self._set("versions", "id", str(version.text_of), text=text)
                return

    def _is_text_wrong(self, version: _Version) -> bool:
        """Return True if the text of a version is missing or damaged. Return False if the hash may be damaged instead.

        A text that does not match its hash counts as damaged if its size is wrong too, or if another row refers to this
        text with the same hash.
        """
        text, expected = self._text(version.text_of), (version.text_of, version.sha256)
        if (
            text is None
            or len(text) != version.size
            or any((one.text_of, one.sha256) == expected for one in self._memories)
        ):
            return True
        return any((one.text_of, one.sha256) == expected for one in self._versions if one.id != version.id)

    def _compare(self, memory: _Memory, newest: _Version) -> None:
        """Correct the row of a memory, or the row of its newest version, if the two rows differ.

        The hash of the text and the time in the version id show which of the two rows is wrong.
        """
        known = newest.is_on_time and self._fits(newest.text_of, newest)
        same_text = (memory.text_of, memory.size, memory.sha256) == (newest.text_of, newest.size, newest.sha256)
        if memory.version != newest.id:
            if known and same_text and memory.at == newest.at:
                self._set("memories", "path", memory.path, version=newest.id)
        elif known and not same_text:
            text = {"text_of": newest.text_of, "size_bytes": newest.size, "sha256": newest.sha256}
            self._set("memories", "path", memory.path, **text)
        elif not same_text and memory.text_of == newest.text_of and self._fits(memory.text_of, memory):
            self._set("versions", "id", newest.id, size_bytes=memory.size, sha256=memory.sha256)
        if memory.version == newest.id and memory.at != newest.at:
            if newest.is_on_time:
                self._set("memories", "path", memory.path, updated_at=newest.at)
            elif time_in_id(newest.id) == memory.at:
                self._set("versions", "id", newest.id, created_at=memory.at)

    def _lost(self) -> list[_Version]:
        """Return the newest versions of memories that were not deleted, but have no row in the table of memories."""
        if self._is_pruned():
            return []
        present = {memory.id for memory in self._memories}
        return [each for each in self._newest.values() if each.has_text and each.memory not in present]

    def _restore_lost(self) -> None:
        """Restore lost rows of memories if the counters of the store prove that the memories were present.

        Without this proof, the memories may have been deleted, and the versions of their deletions may be lost.
        """
        lost, head = self._lost(), self._head
        memories = len(self._memories) + len(lost)
        size_bytes = sum(each.size for each in self._memories) + sum(each.size or 0 for each in lost)
        if (head.memories, head.size_bytes) != (memories, size_bytes) or not all(map(self._is_whole, lost)):
            return
        taken = {memory.path for memory in self._memories} | {each.path for each in lost}
        if len(taken) != memories or any(above in taken for path in taken for above in ancestors(path)):
            return
        for each in lost:
            first = next(version for version in self._versions if version.memory == each.memory)
            self._connection.run(
                "INSERT INTO memories"
                " (store, path, id, version, text_of, size_bytes, sha256, created_at, updated_at, seal,"
                " provenance)"
                " SELECT store, path, memory, id, text_of, size_bytes, sha256, ?, created_at, seal, provenance"
                " FROM versions WHERE store = ? AND id = ?",
                (first.at, self._store, each.id),
            )

    def _is_whole(self, version: _Version) -> bool:
        return version.is_on_time and self._fits(version.text_of, version)

    def _is_pruned(self) -> bool:
        sql = "SELECT 1 FROM records WHERE store = ? AND kind = 'history' AND name = 'pruned_until'"
        return bool(self._rows(sql))

    def count(self) -> None:
        """Correct the counters of the store.

        If a memory is lost or damaged, the numbers of memories and bytes are not changed, because they may prove what
        was lost.
        """
        head = self._head
        in_order = list(_in_order(self._versions))
        head.revision = max([_plausible(head.revision), *(each.revision for each in in_order)])
        # One more than necessary: other processes may have cached directory listings under the old counters.
        head.last_at = max([_plausible(head.last_at), *(each.at for each in in_order)]) + 1
        is_sealed = head.seal is not None
        if not self._lost() and all(is_sealed or self._fits(each.text_of, each) for each in self._memories):
            head.memories, head.size_bytes = len(self._memories), sum(each.size for each in self._memories)
        self._connection.run(
            "UPDATE stores SET revision = ?, memories = ?, size_bytes = ?, last_at = ? WHERE no = ?",
            (head.revision, head.memories, head.size_bytes, head.last_at, head.no),
        )


def _plausible(counter: int) -> int:
    """Return a counter of a store, or 0 if the counter is too high to be correct."""
    return counter if counter < HIGHEST_COUNTER else 0


def _in_order(versions: Sequence[_Version]) -> Iterator[_Version]:
    """Yield the versions, newest first, without those whose time or revision is too high.

    A time or revision is too high if it does not fit below those of the versions with higher ids.
    """
    at = revision = HIGHEST_COUNTER
    for version in reversed(versions):
        if version.is_on_time and version.at < at and version.revision <= revision:
            at, revision = version.at, version.revision
            yield version


def fits(data: object, size_bytes: int | None, digest: str | None) -> bool:
    """Return True if stored bytes have this size and this sha256."""
    return isinstance(data, bytes) and len(data) == size_bytes and sha256(data).hexdigest() == digest


def _repair_times(connection: Connection, store: int) -> None:
    """Replace impossible times of versions with the times in their ids. An impossible time makes every listing fail."""
    sql = "SELECT id FROM versions WHERE store = ? AND (created_at < 0 OR created_at >= ?)"
    for (version,) in connection.rows(sql, (store, HIGHEST_COUNTER)):
        at = time_in_id(str(version))
        if at is not None and at < HIGHEST_COUNTER:
            connection.run("UPDATE versions SET created_at = ? WHERE store = ? AND id = ?", (at, store, version))


def _repair_ages(connection: Connection, store: int) -> None:
    """Set the creation time of each memory to the time of its first version.

    A memory is left unchanged if its earliest versions may be missing.
    """
    revisions = "SELECT count(DISTINCT revision) FROM versions WHERE store = ? AND revision <= ?"
    right = [
        (born, store, path)
        for path, version, born, revision in connection.rows(_OF_ANOTHER_AGE, (store,))
        if time_in_id(str(version)) == born  # the id and the row of the version agree
        and connection.rows(revisions, (store, revision))[0][0] == revision
    ]
    connection.run_many("UPDATE memories SET created_at = ? WHERE store = ? AND path = ?", right)
