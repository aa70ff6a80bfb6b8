"""Restores backups, imports exported memory stores with their history, and migrates memory stores to another location.

All keep their ids, versions and times. A migration can be killed at any time and run again. It then continues after the
newest version in the target. A later run copies the versions that were added to the source, and removes from the copy
what was removed from the source. The stores may be in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from retentive.errors import InvalidInput, Locked, NotFound
from retentive.locations import existing_store
from retentive.storage import capabilities
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend, Snapshot, StoreInfo, plain_name
from retentive.storage.paging import stores_of_users
from retentive.transfer import copies, location_records
from retentive.transfer.archive import Archive
from retentive.transfer.copies import Copy
from retentive.transfer.files import TransferProgress
from retentive.transfer.lines import Copied, Header, Record
from retentive.transfer.location_records import CarriedRecords, TransferResult
from retentive.values.records import SYSTEM_STORE


def restore(
    archive: Archive,
    target: Backend,
    *,
    stores: Sequence[str] = (),
    with_location: bool = True,
    progress: TransferProgress | None = None,
) -> TransferResult:
    """Restore the memory stores of a backup. `stores` lists ids or keys. Without it, all stores are restored.

    All stores come with the records of the location (`transfer/location_records.py`), unless `with_location` is false.
    A record that the target has already stays as it is there.

    An interrupted restore can be run again and then continues. In all other cases, the target must not have these
    memory stores. Encrypted memory stores stay encrypted, and no keys are needed. Raises `InvalidInput` before anything
    is written if the target has one of the memory stores with other versions, and `Locked` if it has records of a
    location that are encrypted in another way.
    """
    names = {plain_name("a store key", name) for name in stores}
    missing = names - {name for header in archive.headers for name in (header.id, header.key)}
    if missing:
        raise InvalidInput(f"the backup has no memory store {min(missing)!r}")
    chosen = [header for header in archive.headers if not names or {header.id, header.key} & names]
    target, location = below_encryption(target), archive.location if with_location and not names else None
    if location is not None:
        location_records.check_target(target, location.seal)
    copied, carried = _restored(archive, target, chosen, progress), CarriedRecords()
    if location is not None:
        _, lines = next(archive.stores({SYSTEM_STORE}))
        records = (line for line in lines if isinstance(line, Record))
        carried = location_records.carry(records, target, seal=location.seal)
    return TransferResult(stores=copied, location=carried)


def import_whole(
    archive: Archive,
    target: Backend,
    *,
    key: str | None = None,
    progress: TransferProgress | None = None,
) -> Copy:
    """Import the memory store of an export with its history. `key` replaces that in the export.

    An interrupted import can be run again and then continues. In all other cases, the target must not have the memory
    store. The guards of the target check only later writes. They do not check the imported history.
    """
    header = archive.exported()
    if key is not None:
        header = replace(header, key=plain_name("a store key", key))
    return _restored(archive, target, [header], progress)[0]


def _restored(
    archive: Archive, target: Backend, headers: Sequence[Header], progress: TransferProgress | None
) -> list[Copy]:
    present = {header.id: newest for header in headers if (newest := copies.newest_in(target, header)) is not None}
    for header, lines in archive.stores(present):
        newest = present[header.id]
        if not any(isinstance(line, Copied) and line.version.id == newest for line in lines):
            raise InvalidInput(f"the memory store {header.key or header.id} exists in the target with other versions")
    by_id = {header.id: header for header in headers}
    return [
        copies.write_copy(target, by_id[found.id], lines, newest=present.get(found.id), progress=progress)
        for found, lines in archive.stores(by_id)
    ]


def migrate(
    source: Backend,
    target: Backend,
    *,
    stores: Sequence[str] = (),
    with_location: bool = True,
    progress: TransferProgress | None = None,
) -> TransferResult:
    """Copy memory stores, and verify the copies. `stores` lists ids or keys. Without it, all stores are copied.

    All stores come with the records of the location (`transfer/location_records.py`), unless `with_location` is false.
    A later run also removes the records that were removed in the source. Records that were changed in the target since
    the last run stay as they are there.

    A copy has the state of its original at one revision. If the source is opened without keys, an encrypted memory
    store is copied in encrypted form. The target must then be opened without keys too, and the copy needs the same keys
    as the source. If the source is opened with keys, the texts are decrypted; they are encrypted again if the target is
    opened with keys. Raises `Locked` if keys are missing, `InvalidInput` if the target has other versions of a memory
    store, and `Damaged` if a copy differs.
    """
    chosen = list(stores_of_users(source)) if not stores else [existing_store(source, name) for name in stores]
    with_location = with_location and not stores
    if with_location:
        location_records.check_migration(source, target)
    copied = [_migrate(source, target, info, progress) for info in chosen]
    carried = location_records.migrate_records(source, target) if with_location else CarriedRecords()
    return TransferResult(stores=copied, location=carried)


def _migrate(source: Backend, target: Backend, info: StoreInfo, progress: TransferProgress | None) -> Copy:
    raw = copies.is_raw(source, info)
    if raw and below_encryption(target) is not target:
        raise Locked("the source is encrypted; pass its keys, or pass no keys at all and copy the encrypted texts")
    if not raw:
        capabilities.unlock(source, info)
    copies.record_external_edits(source, info.id)

    def work(snapshot: Snapshot) -> Copy:  # a backend may run it again; it then continues
        header = copies.header_of(snapshot, info, raw=raw)
        newest = copies.newest_in(target, header)
        try:
            if newest is not None and newest != target.read(header.id, copies.last_copied):  # the source may have
                snapshot.version(newest)  # removed the version that was copied last
        except NotFound:
            there = f"the memory store {header.key or header.id} has other versions in the target"
            raise InvalidInput(f"{there}; erase the store in the target first") from None
        lines = copies.read_lines(snapshot, after=newest, raw=raw)
        return copies.write_copy(target, header, lines, newest=newest, progress=progress, original=snapshot)

    return source.read(info.id, work)
