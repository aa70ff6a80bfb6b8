"""Snapshot and transaction of a memory store in a directory.

Both first compare the files with their records in the database.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress

from retentive.errors import Damaged, Refused
from retentive.storage.contract import (
    EXTERNAL,
    Actor,
    Change,
    Clock,
    Entry,
    Memory,
    NewId,
    Recorded,
)
from retentive.storage.files.comparison import Comparison, VerifiedFiles
from retentive.storage.files.folding import Spellings
from retentive.storage.files.known import KnownFiles, MemoryRow
from retentive.storage.files.numbering import are_synced, keep_numbering
from retentive.storage.files.sync import SyncPlan, could_be_stale
from retentive.storage.files.tree import NO_FILE, FileKind
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot, StoreHead
from retentive.storage.sql.transaction import SqlTransaction
from retentive.values.records import RECOVERY, Again


class ExternalEdit(Exception):
    """A read found a file that differs from its record. The read is repeated in a transaction that records the edit."""


class Unsynced(Exception):
    """Versions cannot be removed yet: their files may not be durable, so recovery may still need the versions."""


class DirectorySnapshot(SqlSnapshot):
    """Snapshot that compares files with their records in the database before it answers a query.

    Methods raise `ExternalEdit` if a file differs.
    """

    def __init__(self, connection: Connection, store_id: str, head: StoreHead, known: KnownFiles) -> None:
        super().__init__(connection, store_id, head)
        self._comparison = Comparison(self, known, _raise)

    @property
    def listing_key(self) -> Hashable:
        return None  # the files must be compared

    def get(self, path: str) -> Entry:
        return self._comparison.get(path)

    def memories(self, under: str) -> Iterator[Memory]:
        self._comparison.rows_checked(under)
        return super().memories(under)

    def walk(
        self, under: str, *, start: str = "", limit: int | None = None, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        self._comparison.rows_checked(under)
        return super().walk(under, start=start, limit=limit, texts=texts)

    def walk_naming(
        self, under: str, names: Sequence[str] | None, *, start: str = "", limit: int
    ) -> tuple[list[Memory], str | None]:
        self._comparison.rows_checked(under)
        return super().walk_naming(under, names, start=start, limit=limit)

    def one_level(self, under: str, *, start: str = "", limit: int | None = None) -> Iterator[Memory]:
        self._comparison.rows_checked(under)
        return super().one_level(under, start=start, limit=limit)

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return iter([(row[0], row[2]) for row in self._comparison.rows_checked(under)])


def _raise(path: str) -> None:
    raise ExternalEdit(path)


class DirectoryTransaction(SqlTransaction):
    """Transaction that records external edits, and plans which files to write after the commit.

    Files are compared with their records until the transaction makes its first change. From then on, the files are
    older than the records and are not compared.
    """

    def __init__(
        self,
        connection: Connection,
        store_id: str,
        head: StoreHead | None,
        known: KnownFiles,
        *,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        super().__init__(connection, store_id, head, clock=clock, new_id=new_id)
        self.known = known
        self._verified = VerifiedFiles()
        self._comparison = Comparison(self, known, self._differs, self._verified)
        self.plan = SyncPlan(expected=self._verified.files)
        self._has_external_edits = False
        self._spellings = Spellings()

    @property
    def outlasts_refusal(self) -> bool:
        """True if the transaction has recorded external edits and nothing else.

        External edits are committed even if the command is refused.
        """
        return self._has_external_edits and not self.plan.changes

    def finish(self) -> None:
        """Mark the paths of the planned files as pending.

        The files are written only after the commit. Until then, later jobs must not mistake the old files for external
        edits.
        """
        super().finish()
        if self.plan.changes:
            self.known.pending |= self.plan.changes.keys()

    def get(self, path: str) -> Entry:
        return super().get(path) if self.plan.changes else self._comparison.get(path)

    def memories(self, under: str) -> Iterator[Memory]:
        self._rows(under)
        return super().memories(under)

    def walk(
        self, under: str, *, start: str = "", limit: int | None = None, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        self._rows(under)
        return super().walk(under, start=start, limit=limit, texts=texts)

    def walk_naming(
        self, under: str, names: Sequence[str] | None, *, start: str = "", limit: int
    ) -> tuple[list[Memory], str | None]:
        self._rows(under)
        return super().walk_naming(under, names, start=start, limit=limit)

    def one_level(self, under: str, *, start: str = "", limit: int | None = None) -> Iterator[Memory]:
        self._rows(under)
        return super().one_level(under, start=start, limit=limit)

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return iter([(row[0], row[2]) for row in self._rows(under)])

    def _rows(self, under: str) -> list[MemoryRow]:
        return self._comparison.rows(under) if self.plan.changes else self._comparison.rows_checked(under)

    def _differs(self, path: str) -> None:
        """Record the external edits at, above and below a path. In an encrypted store, reverse them instead."""
        if self.seal is not None:
            self._comparison.repair(path)
            return
        self.record_external(self._comparison.external_edits(path))

    def external_edits(self, path: str) -> list[Change]:
        """Return the changes that make the records match the files at, above and below a path."""
        return self._comparison.external_edits(path)

    def record_external(self, changes: Sequence[Change]) -> None:
        """Record changes that were made to the files from outside."""
        super().record(changes, EXTERNAL)
        self._has_external_edits = self._has_external_edits or bool(changes)

    def recover(self, paths: Iterable[str]) -> None:
        """After a power cut, record what the files at these paths contain. Then change them back to what was recorded.

        A file is changed back only if a power cut may have left what it contains. Any other text stays.
        """
        records = SqlSnapshot(self.connection, self.store_id, self.head)
        stale: dict[str, Entry] = {}
        for path in paths:
            with suppress(Damaged):  # the file may be the only good copy
                entry, found, data = records.get(path), self.known.tree.state(path), self.known.tree.read(path)
                if data != entry.data and found.kind is not FileKind.OTHER and could_be_stale(records, path, data):
                    stale[path] = entry
                    if data is not None and b"\0" in data and entry.data is not None:
                        self.known.tree.repair(path, entry.data)  # no version can have this text
        for path in stale:
            with suppress(Refused):
                self.get(path)
        for path, entry in sorted(stale.items(), key=lambda item: item[1].memory is not None):  # removals free paths
            with suppress(Refused):  # something else stands there now
                self._change_back(path, entry)

    def _change_back(self, path: str, entry: Entry) -> None:
        now, before = super().get(path), entry.memory
        if now.data == entry.data or now.above is not None or now.below:
            return
        again = None if before is None or now.memory is not None else Again(before.id, before.created_at)
        provenance = None if before is None else before.provenance_text
        back = None if before is None else path
        self.record([Change(now.memory, back, entry.data, again=again, provenance_text=provenance)], RECOVERY)

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        leaving = {change.before.path for change in changes if change.before is not None}
        for change in changes:
            if change.path is not None and (change.before is None or change.before.path != change.path):
                self._check_spelling(change)
                self._check_free(change.path, leaving)
        recorded = super().record(changes, actor)
        for change in changes:
            for path in {change.before.path if change.before is not None else change.path, change.path} - {None}:
                self.plan.add(str(path), change)
        return recorded

    def drop(self, memories: Sequence[Memory]) -> None:
        super().drop(memories)
        for memory in memories:
            self.plan.add(memory.path, Change(memory, None))

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        self._check_synced(version_ids)
        super().redact(version_ids, actor)

    def prune(self, version_ids: Sequence[str]) -> None:
        self._check_synced(version_ids)
        keep_numbering(self.connection)
        super().prune(version_ids)

    def _check_synced(self, version_ids: Sequence[str]) -> None:
        if version_ids and not are_synced(self.connection, self.store, max(version_ids)):
            raise Unsynced

    def _check_spelling(self, change: Change) -> None:
        """Raise `Refused` if a new path differs only in its spelling from another path whose file is not written yet.

        On a file system that ignores case or Unicode form, both paths would have the same file.
        """
        if not self.known.folds or change.path is None:
            return
        if change.before is not None:
            self._spellings.remove(change.before.path)
        if self._spellings.clashes(change.path, self.known.unwritten | self.known.pending):
            raise Refused("path_folds", path=change.path)
        self._spellings.add(change.path)

    def _check_free(self, path: str, leaving: set[str]) -> None:
        """Raise `Refused` if a new path already has a file or directory that is not part of the memory store.

        `leaving` has the paths that become free through the current changes.
        """
        known, plan = self.known, self.plan
        if (
            path in self._verified.free
            or known.database_wins(path)
            or any(one == path or path.startswith(one + "/") for one in (*plan.changes, *leaving))
        ):
            return
        found = known.tree.state(path)
        if found.kind is FileKind.DIRECTORY:
            known.tree.prune(path)
            found = known.tree.state(path)
            files = known.tree.scan(path)[0].keys()
            if files and files <= plan.changes.keys() | leaving:
                plan.expected.pop(path, None)  # only the commit frees this path, so it is examined after the commit
                return
        if found.kind is not FileKind.MISSING:
            raise Refused("path_taken", path=path)
        plan.expected.setdefault(path, NO_FILE)
