"""Copies memory stores to another location, with their ids, versions and times. The stores may be in use.

A migration can be killed at any time and run again. It then continues after the newest version in the target. Each run
also copies the versions that were added to the source after the previous run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Literal, TypeAlias

from retentive.engine.guard import Rules
from retentive.errors import Damaged, InvalidInput, Locked, NotFound, ReadOnly, UnknownSchema
from retentive.history.removal import check_erasable
from retentive.locations import existing_store
from retentive.redaction.examiner import TextExaminer
from retentive.storage import capabilities
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Actor, Backend, Snapshot, StoreInfo, Transaction, Version
from retentive.storage.paging import PAGE_VERSIONS, memories_by_id, stores_of_users
from retentive.transfer import copies
from retentive.transfer.copies import MARK, UNTIL, Copy
from retentive.transfer.files import TransferProgress
from retentive.transfer.lines import Copied, Header, Record
from retentive.values.settings import from_text

MAX_ROUNDS = 5  # if the source grows faster than it is copied, the copy ends with fewer versions than the source


def migrate(
    source: Backend, target: Backend, *, stores: Sequence[str] = (), progress: TransferProgress | None = None
) -> list[Copy]:
    """Copy memory stores, and verify the copies. `stores` lists ids or keys. Without it, all stores are copied.

    If the source is opened without keys, an encrypted memory store is copied in encrypted form. The target must then be
    opened without keys too, and the copy needs the same keys as the source. If the source is opened with keys, the
    texts are decrypted; they are encrypted again if the target is opened with keys. Raises `Locked` if keys are
    missing, `InvalidInput` if the target has other versions of a memory store, and `Damaged` if a copy differs.
    """
    chosen = list(stores_of_users(source)) if not stores else [existing_store(source, name) for name in stores]
    return [_Migration(source, target, info).run(progress) for info in chosen]


class _Migration:
    """Copies one memory store to the target."""

    def __init__(self, source: Backend, target: Backend, info: StoreInfo) -> None:
        self._source = source
        self._target = target
        self._info = info
        self._raw = copies.is_raw(source, info)
        if self._raw and below_encryption(target) is not target:
            raise Locked("the source is encrypted; pass its keys, or pass no keys at all and copy the encrypted texts")
        if not self._raw:
            capabilities.unlock(source, info)

    def run(self, progress: TransferProgress | None) -> Copy:
        """Copy in rounds until the source has no new versions. Stop after `MAX_ROUNDS` rounds."""
        added, rounds, in_this_round = 0, 0, 1
        while in_this_round and rounds < MAX_ROUNDS:
            copies.record_external_edits(self._source, self._info.id)
            header, records, until = self._source.read(self._info.id, self._state)
            self._check_newest(copies.newest_in(self._target, header))
            found = partial(self._batches, until=until)
            in_this_round = copies.copy_versions(self._target, header, found, progress=progress, mark=True)
            added, rounds = added + in_this_round, rounds + 1
        versions = self._copy_removals()
        copies.complete_copy(self._target, header, [*records, *copies.read_side_records(self._source, self._info.id)])
        return Copy.of(header, added=added, versions=versions, behind=in_this_round > 0)

    def _state(self, snapshot: Snapshot) -> tuple[Header, list[Record], str | None]:
        header = copies.header_of(snapshot, self._info, raw=self._raw)
        return header, list(copies.read_records(snapshot)), copies.newest_version(snapshot)

    def _check_newest(self, newest: str | None) -> None:
        """Raise `InvalidInput` if the newest version in the target is not from the source."""
        if newest is None or newest == self._target.read(self._info.id, _marked):  # the source may have removed it
            return
        try:
            self._source.read(self._info.id, lambda snapshot: snapshot.version(newest))
        except NotFound:
            store = self._info.key or self._info.id
            raise InvalidInput(
                f"the memory store {store} has other versions in the target; erase the store in the target first"
            ) from None

    def _batches(self, after: str | None, *, until: str | None) -> Iterator[list[Copied]]:
        """Yield the versions after a version, up to the version `until`. Each batch is a read of its own."""

        def next_batch(snapshot: Snapshot) -> list[Copied]:
            return next(copies.batches(copies.read_versions(snapshot, after=after, until=until, raw=self._raw)), [])

        while until is not None and (batch := self._source.read(self._info.id, next_batch)):
            yield batch
            after = batch[-1].version.id

    def _copy_removals(self) -> int:
        """Redact or prune versions in the copy if they are redacted or pruned in the source.

        Returns the number of versions in the copy. Raises `Damaged` if a version in the copy is missing or differs from
        its original.
        """
        count, pruned, redacted = 0, list[Version](), dict[Actor | None, list[Version]]()
        originals = _history(self._source, self._info.id)
        original = next(originals, None)
        for copied in _history(self._target, self._info.id):
            count += 1
            if original is None or original.id > copied.id:
                pruned.append(copied)
                continue
            if original.redacted_at is not None and copied.redacted_at is None and original.id == copied.id:
                redacted.setdefault(original.redacted_by, []).append(copied)
            elif self._facts(original) != self._facts(copied):
                raise Damaged(f"the copy of version {original.id} is missing or differs from the original")
            original = next(originals, None)
        if pruned or redacted:
            work = partial(_remove, pruned=pruned, redacted=redacted)
            self._target.write(self._info.id, work, may_use_reserve=True)
            capabilities.purge(self._target)
        return count - len(pruned)

    def _facts(self, version: Version) -> Version:
        """Return the version with only the fields that must be equal in its copy."""
        return replace(version, seal=version.seal if self._raw else None, redacted_at=None, redacted_by=None)


def _history(backend: Backend, store_id: str) -> Iterator[Version]:
    """Yield all versions, oldest first. Each page is a read of its own."""
    after: str | None = None

    def page(snapshot: Snapshot) -> list[Version]:
        return list(snapshot.versions(after=after, limit=PAGE_VERSIONS, oldest_first=True))

    while versions := backend.read(store_id, page):
        yield from versions
        after = versions[-1].id


def _remove(tx: Transaction, *, pruned: Sequence[Version], redacted: dict[Actor | None, list[Version]]) -> None:
    """Prune and redact versions. A memory whose newest version goes was deleted by a version that is gone too."""
    going = {version.id: version.memory_id for version in chain(pruned, *redacted.values())}
    present = memories_by_id(tx, {*going.values()}).values()
    newest = max(copies.newest_version(tx) or "", tx.get_record(MARK, UNTIL) or "")
    gone = [memory for memory in present if memory.version_id in going]
    deletions = copies.stand_ins(gone, newest, next(tx.versions(limit=1)))
    tx.record(deletions, None)
    for actor, versions in redacted.items():
        tx.redact([version.id for version in versions], actor)
    tx.prune([version.id for version in (*pruned, *(deletion.version for deletion in deletions))])


def _marked(snapshot: Snapshot) -> str | None:
    """Return the id of the version that was copied last. A record in the target contains this id."""
    try:
        return snapshot.get_record(MARK, UNTIL)
    except Damaged:  # an earlier run copied in encrypted form and wrote the record; now the store is read with keys
        return None


CopyFate: TypeAlias = Literal["kept", "erased", "newer", "read_only", "locked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceErasure:
    """Memory store that was erased in the source, and has a copy in the target.

    `outcome`: the copy was `erased`; it was `kept`, because erasing was not requested; or it was kept because it has
    versions of its own (`newer`), is `read_only`, or cannot be read without keys (`locked`).
    """

    id: str
    key: str | None
    erased_at: datetime
    outcome: CopyFate


def source_erasures(
    source: Backend, target: Backend, *, stores: Sequence[str] = (), erase: bool = False
) -> list[SourceErasure]:
    """Return the copies whose originals were erased in the source. With `erase`, also erase these copies.

    A copy that has newer versions of its own is not erased. `stores` lists ids or keys in the target; without it, all
    memory stores of the target are checked.
    """
    found = list[SourceErasure]()
    for info in list(stores_of_users(target)):
        original = source.get_store(info.id) if not stores or {info.id, info.key} & {*stores} else None
        if original is not None and original.erased_at is not None:
            outcome = _erase_copy(target, info.id) if erase else "kept"
            found.append(SourceErasure(id=info.id, key=info.key, erased_at=original.erased_at, outcome=outcome))
    return found


def _erase_copy(target: Backend, store_id: str) -> CopyFate:
    def is_newer(snapshot: Snapshot) -> bool:
        if copies.newest_version(snapshot) not in {None, snapshot.get_record(MARK, UNTIL)}:
            return True
        check_erasable(snapshot, Rules(from_text(snapshot.state.settings), None, TextExaminer()))
        return False

    try:
        if target.read(store_id, is_newer):
            return "newer"
    except ReadOnly:
        return "read_only"
    except (Locked, Damaged, UnknownSchema):
        return "locked"
    target.erase_store(store_id, None)
    capabilities.purge(target)
    return "erased"
