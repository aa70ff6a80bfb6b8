"""Copies memory stores to another location, with their ids, versions and times. The stores may be in use.

A migration can be killed at any time and run again. It then continues after the newest version in the target. A later
run copies the versions that were added to the source, and removes from the copy what was removed from the source.
"""

from __future__ import annotations

from collections.abc import Sequence

from retentive.errors import InvalidInput, Locked, NotFound
from retentive.locations import existing_store
from retentive.storage import capabilities
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend, Snapshot, StoreInfo
from retentive.storage.paging import stores_of_users
from retentive.transfer import copies
from retentive.transfer.copies import Copy
from retentive.transfer.files import TransferProgress


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
