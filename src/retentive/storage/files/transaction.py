"""Transaction on a memory store in a directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retentive.errors import Refused
from retentive.storage.contract import (
    EXTERNAL,
    UNCHANGED,
    Actor,
    Change,
    Entry,
    Memory,
    Metadata,
    Recorded,
    Transaction,
)
from retentive.storage.files.comparison import Comparison, Row, Verified
from retentive.storage.files.external_edits import external_edits, repair_files
from retentive.storage.files.intents import keep_numbering
from retentive.storage.files.known import KnownFiles
from retentive.storage.files.plan import Plan
from retentive.storage.files.tree import Kind
from retentive.storage.overlay import Overlay
from retentive.storage.sql.transaction import SqlTransaction


class Unsynced(Exception):
    """Versions to remove are still needed as intents: their files are not known to be durable."""


class DirectoryTransaction(Overlay, Transaction):
    """Transaction that first records external edits, and plans the files to write after its commit.

    Once it has a plan, the files are behind the records and are no longer compared.
    """

    def __init__(self, records: SqlTransaction, known: KnownFiles) -> None:
        super().__init__(records)
        self.known = known
        self._records = records
        self._verified = Verified()
        self._comparison = Comparison(records, known, self._differs, self._verified)
        self._plan = Plan(expected=self._verified.marks)
        self._has_external_edits = False

    @property
    def store_id(self) -> str:
        """Id of the store."""
        return self._records.store_id

    @property
    def plan(self) -> Plan:
        """Files to write after the commit."""
        return self._plan

    @property
    def changed(self) -> bool:
        """True if the transaction changed any record."""
        return self._records.changed

    @property
    def outlasts_refusal(self) -> bool:
        """True if only external edits were recorded; they are committed even if the command is refused."""
        return self._has_external_edits and not self._plan.changes

    def finish(self) -> None:
        """Write the head, and mark planned files as pending: later jobs must not take them for external edits."""
        self._records.finish()
        if self._plan.changes:
            self.known.pending |= self._plan.changes.keys()

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, path: str) -> Entry:
        return self._records.get(path) if self._plan.changes else self._comparison.get(path)

    def memories(self, under: str) -> Iterator[Memory]:
        self._rows(under)
        return self._records.memories(under)

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return iter([(row[0], row[2]) for row in self._rows(under)])

    def _rows(self, under: str) -> list[Row]:
        return self._comparison.rows(under) if self._plan.changes else self._comparison.rows_checked(under)

    def _differs(self, path: str) -> None:
        """Record external edits at, above and below a path; undo them in an encrypted store."""
        if self.seal is not None:
            repair_files(self._records, self.known, self._comparison, path)
            return
        changes = external_edits(self._records, self.known, self._comparison, path)
        self._records.record(changes, EXTERNAL)
        self._has_external_edits = self._has_external_edits or bool(changes)

    # -- changing --------------------------------------------------------------------------------------------

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        leaving = {change.before.path for change in changes if change.before is not None}
        for change in changes:
            if change.path is not None and (change.before is None or change.before.path != change.path):
                self._check_free(change.path, leaving)
        recorded = self._records.record(changes, actor)
        for change in changes:
            for path in {change.before.path if change.before is not None else change.path, change.path} - {None}:
                self._plan.add(str(path), change)
        return recorded

    def drop(self, memories: Sequence[Memory]) -> None:
        self._records.drop(memories)
        for memory in memories:
            self._plan.add(memory.path, Change(memory, None))

    def set_metadata(self, *, settings: Metadata = UNCHANGED, seal: Metadata = UNCHANGED) -> None:
        self._records.set_metadata(settings=settings, seal=seal)

    def put_record(self, kind: str, key: str, value: str | None) -> None:
        self._records.put_record(kind, key, value)

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        self._check_synced(version_ids)
        self._records.redact(version_ids, actor)

    def prune(self, version_ids: Sequence[str]) -> None:
        self._check_synced(version_ids)
        keep_numbering(self._records.connection)
        self._records.prune(version_ids)

    def _check_synced(self, version_ids: Sequence[str]) -> None:
        if version_ids and self._records.connection.rows(
            "SELECT 1 FROM versions WHERE store = ? AND id = ? AND seq > (SELECT seq FROM synced)",
            (self._records.store, max(version_ids)),
        ):
            raise Unsynced

    def _check_free(self, path: str, leaving: set[str]) -> None:
        """Refuse a new path that is taken on disk by an entry that is not ours."""
        known, plan = self.known, self._plan
        if (
            path in self._verified.free
            or known.database_wins(path)
            or any(one == path or path.startswith(one + "/") for one in (*plan.changes, *leaving))
        ):
            return
        found = known.tree.state(path)
        if found.kind is Kind.DIRECTORY:
            known.tree.prune(path)
            found = known.tree.state(path)
            files = known.tree.scan(path).keys()
            if files and files <= plan.changes.keys() | leaving:
                plan.expected.pop(path, None)  # the commit empties it, so the path is examined only then
                return
        if found.kind is not Kind.MISSING:
            raise Refused("path_taken", path=path)
        plan.expected.setdefault(path, ())
