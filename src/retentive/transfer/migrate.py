"""Copies memory stores to another location, with their ids, versions and times. The stores may be in use.

A migration can be killed at any time and run again. It then continues after the newest version in the target. Each run
also copies the versions that were added to the source after the previous run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Literal

from retentive.engine.guard import Rules
from retentive.errors import Damaged, InvalidInput, Locked, NotFound, ReadOnly, UnknownSchema
from retentive.history.removal import check_erasable
from retentive.locations import existing_store
from retentive.redaction.examiner import TextExaminer
from retentive.storage import capabilities
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Actor, Backend, Snapshot, StoreInfo, Transaction, Version
from retentive.storage.paging import stores_of_users
from retentive.transfer.archive_writer import TransferProgress, record_external_edits
from retentive.transfer.contents import Contents, create_copy, newest_version, read_side_records
from retentive.transfer.versions import (
    MARK,
    UNTIL,
    ImportedVersion,
    VersionIndex,
    batches,
    load_all,
    record_imported,
    versions_between,
)
from retentive.values.settings import from_text

MAX_ROUNDS = 5  # if the source grows faster than it is copied, the copy ends with fewer versions than the source


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """Result of the migration of one memory store.

    `memories`, `size_bytes` and `versions` describe the copy. `copied` is the number of versions that this run copied.
    `revision` is the revision of the source up to which the copy is complete. `behind` is True if the source already
    has later revisions.
    """

    id: str
    key: str | None
    memories: int
    size_bytes: int
    versions: int
    copied: int
    revision: int
    behind: bool
    digest: str


def migrate(
    source: Backend, target: Backend, *, stores: Sequence[str] = (), progress: TransferProgress | None = None
) -> list[Migrated]:
    """Copy memory stores, and verify the copies. `stores` lists ids or keys. Without it, all stores are copied.

    If the source is opened without keys, an encrypted memory store is copied in encrypted form. The target must then be
    opened without keys too, and the copy needs the same keys as the source. If the source is opened with keys, the
    texts are decrypted; they are encrypted again if the target is opened with keys. Raises `Locked` if keys are
    missing, `InvalidInput` if the target has other versions of a memory store, and `Damaged` if a copy differs.
    """
    chosen = list(stores_of_users(source)) if not stores else [existing_store(source, name) for name in stores]
    return [_Copy(source, target, info).run(progress) for info in chosen]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceErasure:
    """Memory store that was erased in the source, and has a copy in the target.

    Values of `outcome`:

    - `erased`: the copy was erased.
    - `kept`: the copy was kept, because erasing was not requested.
    - `newer`: the copy was kept, because it has newer versions of its own.
    - `read_only`: the copy was kept, because it is read-only.
    - `locked`: the copy was kept, because its versions and settings cannot be read without keys.
    """

    id: str
    key: str | None
    erased_at: datetime
    outcome: Literal["kept", "erased", "newer", "read_only", "locked"]


def source_erasures(
    source: Backend, target: Backend, *, stores: Sequence[str] = (), erase: bool = False
) -> list[SourceErasure]:
    """Return the copies whose originals were erased in the source. With `erase`, also erase these copies.

    A copy that has newer versions of its own is not erased. `stores` lists ids or keys in the target; without it, all
    memory stores of the target are checked.
    """
    return [
        SourceErasure(
            id=copy.id, key=copy.key, erased_at=erased_at, outcome=_erase_copy(target, copy.id) if erase else "kept"
        )
        for copy in list(stores_of_users(target))
        if (not stores or {copy.id, copy.key} & set(stores)) and (erased_at := _erased_at(source, copy.id)) is not None
    ]


def _erased_at(source: Backend, store_id: str) -> datetime | None:
    info = source.get_store(store_id)
    return None if info is None else info.erased_at


def _erase_copy(target: Backend, store_id: str) -> Literal["erased", "newer", "read_only", "locked"]:
    try:
        if not target.read(store_id, _is_as_copied):
            return "newer"
    except ReadOnly:
        return "read_only"
    except (Locked, Damaged, UnknownSchema):
        return "locked"
    target.erase_store(store_id, None)
    capabilities.purge(target)
    return "erased"


def _is_as_copied(found: Snapshot) -> bool:
    """Return whether every version of the copy came from the source.

    Raises `ReadOnly` if the copy must not be erased.
    """
    rules = Rules(from_text(found.state.settings), None, TextExaminer())
    newest = newest_version(found)
    if newest is not None and newest != found.get_record(MARK, UNTIL):
        return False
    check_erasable(found, rules)
    return True


class _Copy:
    """Copies one memory store to the target."""

    def __init__(self, source: Backend, target: Backend, info: StoreInfo) -> None:
        self._source = source
        self._target = target
        self._info = info
        self._id = info.id
        self._raw = info.seal is not None and below_encryption(source) is source
        self._copied = 0
        if self._raw and below_encryption(target) is not target:
            raise Locked("the source is encrypted; pass its keys, or pass no keys at all and copy the encrypted texts")
        if not self._raw:
            capabilities.unlock(source, info)

    def run(self, progress: TransferProgress | None) -> Migrated:
        """Copy in rounds until the source has no new versions. Stop after `MAX_ROUNDS` rounds."""
        info = self._info
        seal = info.seal if self._raw else None
        create_copy(
            self._target,
            info.id,
            key=info.key,
            name=info.name,
            created_at=info.created_at,
            seal=seal,
            workspace=info.workspace_id,
        )
        newest = self._start()
        for _ in range(MAX_ROUNDS):
            record_external_edits(self._source, self._id)
            state = self._source.read(self._id, partial(_SourceState, after=newest, raw=self._raw))
            newest = self._copy(state, newest, progress)
            digest = state.contents.complete(self._target, self._id, read_side_records(self._source, self._id))
            if not state.history.count:
                break
        versions = self._copy_removals()
        usage = state.contents.usage()
        return Migrated(
            id=self._id,
            key=info.key,
            memories=usage.memories,
            size_bytes=usage.size_bytes,
            versions=versions,
            copied=self._copied,
            revision=state.revision,
            behind=state.history.count > 0,
            digest=digest,
        )

    def _start(self) -> str | None:
        """Return the id of the newest version in the target.

        Raises `InvalidInput` if this version is not from the source.
        """
        newest, marked = self._target.read(self._id, lambda found: (newest_version(found), _marked(found)))
        if newest is not None and newest != marked:  # `marked` came from the source, which may have removed it since
            try:
                self._source.read(self._id, lambda snapshot: snapshot.version(newest))
            except NotFound:
                store = self._info.key or self._id
                raise InvalidInput(
                    f"the memory store {store} has other versions in the target; erase the store in the target first"
                ) from None
        return newest

    def _copy(self, state: _SourceState, newest: str | None, progress: TransferProgress | None) -> str | None:
        """Copy the versions of one round. Return the id of the newest version in the target."""
        versions = state.history.oldest_first(
            lambda ids: self._source.read(self._id, lambda found: versions_between(found, ids))
        )
        done = 0
        for batch in batches(versions, lambda version: version):
            imported = self._source.read(self._id, partial(load_all, batch=batch, raw=self._raw))
            self._target.write(self._id, partial(_record, imported=imported))
            newest, done = batch[-1].id, done + len(batch)
            self._copied += len(imported)
            if progress is not None:
                progress(done, state.history.count)
        return newest

    def _copy_removals(self) -> int:
        """Redact or prune versions in the copy if they are redacted or pruned in the source.

        Returns the number of versions in the copy. Raises `Damaged` if a version in the copy is missing or differs from
        its original.
        """
        history = self._target.read(self._id, VersionIndex)
        pruned: list[str] = []
        redacted: dict[Actor | None, list[str]] = {}
        for copied, original in self._pairs(history):
            if original is None:
                pruned.append(copied.id)
            elif original.redacted_at is not None and copied.redacted_at is None:
                redacted.setdefault(original.redacted_by, []).append(copied.id)
            elif self._facts(original) != self._facts(copied):
                raise Damaged(f"the copy of version {copied.id} differs from the original")

        def work(tx: Transaction) -> None:
            for actor, ids in redacted.items():
                tx.redact(ids, actor)
            if pruned:
                tx.prune(pruned)

        if pruned or redacted:
            self._target.write(self._id, work, may_use_reserve=True)
            capabilities.purge(self._target)
        return history.count - len(pruned)

    def _pairs(self, copy: VersionIndex) -> Iterator[tuple[Version, Version | None]]:
        """Yield each version of the copy with its original, or with None if the source no longer has the original."""
        for ids in copy.ranges:
            read = partial(versions_between, ids=ids)
            copies = self._target.read(self._id, read)
            originals = {version.id: version for version in self._source.read(self._id, read)}
            yield from ((copied, originals.pop(copied.id, None)) for copied in copies)
            if originals:
                raise Damaged(f"version {min(originals)} of the source is missing in the copy")

    def _facts(self, version: Version) -> Version:
        """Return the version with only the fields that must be equal in its copy."""
        return replace(version, seal=version.seal if self._raw else None, redacted_at=None, redacted_by=None)


class _SourceState:
    """State of the source at the start of a round: its contents, and the versions that the target lacks."""

    def __init__(self, snapshot: Snapshot, *, after: str | None, raw: bool) -> None:
        self.contents = Contents.of(snapshot, raw=raw)
        self.history = VersionIndex(snapshot, after=after)
        self.revision = snapshot.state.revision


def _record(tx: Transaction, *, imported: Sequence[ImportedVersion]) -> None:
    record_imported(tx, imported)
    if imported:
        tx.put_record(MARK, UNTIL, imported[-1].version.id)


def _marked(snapshot: Snapshot) -> str | None:
    """Return the id of the version that was copied last. A record in the target contains this id."""
    try:
        return snapshot.get_record(MARK, UNTIL)
    except Damaged:  # an earlier run copied in encrypted form and wrote the record; now the store is read with keys
        return None
