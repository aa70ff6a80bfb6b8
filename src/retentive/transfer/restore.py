"""Restores backups, and imports exported memory stores with their history.

Restored and imported memory stores keep their ids, versions and times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from retentive.errors import InvalidInput
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend, plain_name
from retentive.transfer.archive import Archive
from retentive.transfer.copies import Copy, newest_in, write_copy
from retentive.transfer.files import TransferProgress, pieces
from retentive.transfer.lines import Copied, Header
from retentive.values.records import SYSTEM_STORE

if TYPE_CHECKING:
    from retentive.remote.location import RemoteLocation


def restore(
    archive: Archive, target: Backend, *, stores: Sequence[str] = (), progress: TransferProgress | None = None
) -> list[Copy]:
    """Restore the memory stores of a backup. `stores` lists ids or keys. Without it, all stores are restored.

    An interrupted restore can be run again and then continues. In all other cases, the target must not have these
    memory stores. Encrypted memory stores stay encrypted, and no keys are needed. Raises `InvalidInput` before anything
    is written if the target has one of the memory stores with other versions.
    """
    names = {plain_name("a store key", name) for name in stores}
    missing = names - {name for header in archive.headers for name in (header.id, header.key)}
    if missing:
        raise InvalidInput(f"the backup has no memory store {min(missing)!r}")
    chosen = [header for header in archive.headers if not names or {header.id, header.key} & names]
    return _restored(archive, below_encryption(target), chosen, progress)


def import_whole(
    archive: Archive,
    target: Backend,
    *,
    key: str | None = None,
    workspace: str | None = None,
    progress: TransferProgress | None = None,
) -> Copy:
    """Import the memory store of an export with its history. `key` and `workspace` replace those in the export.

    An interrupted import can be run again and then continues. In all other cases, the target must not have the memory
    store. The guards of the target check only later writes. They do not check the imported history.
    """
    header = archive.exported()
    if key is not None:
        header = replace(header, key=plain_name("a store key", key))
    if workspace is not None:
        header = replace(header, workspace_id=workspace)
    return _restored(archive, target, [header], progress)[0]


def send_whole(archive: Archive, location: RemoteLocation, key: str | None) -> Copy:
    """Send an export to a server, which imports the memory store with its history."""
    header = archive.exported()
    found = location.upload(lambda: pieces(archive.raw), key)
    info = found.memory_store
    return Copy.of(replace(header, id=info.id, key=info.key), added=found.added_versions)


def _restored(
    archive: Archive, target: Backend, headers: Sequence[Header], progress: TransferProgress | None
) -> list[Copy]:
    if any(header.id == SYSTEM_STORE for header in headers):
        raise InvalidInput("the file has the records of a location, which cannot be imported as a memory store")
    present = {header.id: newest for header in headers if (newest := newest_in(target, header)) is not None}
    for header, lines in archive.stores(present):
        newest = present[header.id]
        if not any(isinstance(line, Copied) and line.version.id == newest for line in lines):
            raise InvalidInput(f"the memory store {header.key or header.id} exists in the target with other versions")
    by_id = {header.id: header for header in headers}
    return [
        write_copy(target, by_id[found.id], lines, newest=present.get(found.id), progress=progress)
        for found, lines in archive.stores(by_id)
    ]
