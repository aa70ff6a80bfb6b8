"""Copies memory stores to another location, with their ids, versions and times. The stores may be in use.

A migration can be killed at any time and run again. It then continues after the newest version in the target. A later
run copies the versions that were added to the source, and removes from the copy what was removed from the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from retentive.errors import Damaged, InvalidInput, Locked, NotFound
from retentive.locations import existing_store
from retentive.storage import capabilities
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Actor, Backend, Snapshot, StoreInfo, Transaction, Version
from retentive.storage.paging import all_versions, memories_by_id, stores_of_users
from retentive.transfer import copies
from retentive.transfer.copies import MARK, UNTIL, Copy
from retentive.transfer.files import TransferProgress
from retentive.transfer.lines import Header


def migrate(
    source: Backend, target: Backend, *, stores: Sequence[str] = (), progress: TransferProgress | None = None
) -> list[Copy]:
    """Copy memory stores, and verify the copies. `stores` lists ids or keys. Without it, all stores are copied.

    A copy has the state of its original at one revision. If the source is opened without keys, an encrypted memory
    store is copied in encrypted form. The target must then be opened without keys too, and the copy needs the same keys
    as the source. If the source is opened with keys, the texts are decrypted; they are encrypted again if the target is
    opened with keys. Raises `Locked` if keys are missing, `InvalidInput` if the target has other versions of a memory
    store, and `Damaged` if a copy differs.
    """
    chosen = list(stores_of_users(source)) if not stores else [existing_store(source, name) for name in stores]
    return [_migrate(source, target, info, progress) for info in chosen]


def _migrate(source: Backend, target: Backend, info: StoreInfo, progress: TransferProgress | None) -> Copy:
    raw = copies.is_raw(source, info)
    if raw and below_encryption(target) is not target:
        raise Locked("the source is encrypted; pass its keys, or pass no keys at all and copy the encrypted texts")
    if not raw:
        capabilities.unlock(source, info)
    copies.record_external_edits(source, info.id)
    side_records = list(copies.read_side_records(source, info.id))

    def work(snapshot: Snapshot) -> Copy:  # a backend may run it again; it then continues
        header = copies.header_of(snapshot, info, raw=raw)
        newest = _newest(snapshot, target, header)
        lines = copies.read_lines(snapshot, side_records, after=newest, raw=raw)
        added, records = copies.record_lines(target, header, lines, newest=newest, progress=progress, mark=True)
        _copy_removals(snapshot, target, header)
        copies.complete_copy(target, header, records)
        return Copy.of(header, added=added)

    return source.read(info.id, work)


def _newest(snapshot: Snapshot, target: Backend, header: Header) -> str | None:
    """Return the id of the newest version in the target. Raises `InvalidInput` if it is not from the source."""
    newest = copies.newest_in(target, header)
    try:
        if newest is not None and newest != target.read(header.id, _marked):  # the source may have removed it
            snapshot.version(newest)
    except NotFound:
        store = header.key or header.id
        raise InvalidInput(
            f"the memory store {store} has other versions in the target; erase the store in the target first"
        ) from None
    return newest


def _marked(snapshot: Snapshot) -> str | None:
    """Return the id of the version that was copied last. A record in the target contains this id."""
    try:
        return snapshot.get_record(MARK, UNTIL)
    except Damaged:  # an earlier run copied in encrypted form and wrote the record; now the store is read with keys
        return None


def _copy_removals(source: Snapshot, target: Backend, header: Header) -> None:
    """Redact or prune versions in the copy if they are redacted or pruned in the source.

    Raises `Damaged` if a version in the copy is missing or differs from its original.
    """

    def facts(version: Version) -> Version:
        return replace(version, seal=version.seal if header.seal else None, redacted_at=None, redacted_by=None)

    def compare(copy: Snapshot) -> tuple[list[Version], dict[Actor | None, list[Version]]]:
        pruned, redacted = list[Version](), dict[Actor | None, list[Version]]()
        originals = all_versions(source)
        original = next(originals, None)
        for copied in all_versions(copy):  # newest first
            if original is None or original.id < copied.id:
                pruned.append(copied)
                continue
            if original.redacted_at is not None and copied.redacted_at is None and original.id == copied.id:
                redacted.setdefault(original.redacted_by, []).append(copied)
            elif facts(original) != facts(copied):
                raise Damaged(f"the copy of version {original.id} is missing or differs from the original")
            original = next(originals, None)
        if original is not None:
            raise Damaged(f"the copy of version {original.id} is missing")
        return pruned, redacted

    pruned, redacted = target.read(header.id, compare)
    if pruned or redacted:
        target.write(header.id, partial(_remove, pruned=pruned, redacted=redacted), may_use_reserve=True)
        capabilities.purge(target)


def _remove(tx: Transaction, *, pruned: Iterable[Version], redacted: dict[Actor | None, list[Version]]) -> None:
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
