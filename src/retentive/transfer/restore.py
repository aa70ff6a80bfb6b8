"""Restores backups, and imports exported memory stores with their history.

Restored and imported memory stores keep their ids, versions and times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from retentive.errors import Damaged, InvalidInput
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend, plain_name
from retentive.transfer.archive_reader import Archive, ArchiveText, Section
from retentive.transfer.archive_writer import RECORDS, SIDE_RECORDS, TransferProgress
from retentive.transfer.contents import Contents, check_same, create_copy, newest_version
from retentive.transfer.versions import ImportedVersion, batches, record_imported
from retentive.values.records import SYSTEM_STORE


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Result of the restore of one memory store. `added` counts the versions that the target did not have before.

    `digest` is a digest of the paths and hashes of the memories.
    """

    id: str
    key: str | None
    memories: int
    size_bytes: int
    versions: int
    added: int
    digest: str


def restore(
    archive: Archive, target: Backend, *, stores: Sequence[str] = (), progress: TransferProgress | None = None
) -> list[Restored]:
    """Restore the memory stores of a backup. `stores` lists ids or keys. Without it, all stores are restored.

    An interrupted restore can be run again and then continues. In all other cases, the target must not have these
    memory stores. Encrypted memory stores stay encrypted, and no keys are needed. Raises `InvalidInput` before anything
    is written if the target has one of the memory stores with other versions.
    """
    if not archive.is_backup:
        raise InvalidInput(
            "the file is an export of one memory store, not a backup; import it with `retentive import --whole`"
        )
    target = below_encryption(target)
    chosen = _chosen(archive, [plain_name("a store key", name) for name in stores])
    for section in chosen:
        _check_target(target, section, section.header.key)
    texts = archive.texts()
    return [_import(target, section, section.header.key, texts, progress) for section in chosen]


def import_whole(
    archive: Archive,
    target: Backend,
    *,
    key: str | None = None,
    workspace: str | None = None,
    progress: TransferProgress | None = None,
) -> Restored:
    """Import the memory store of an export with its history. `key` and `workspace` replace those in the export.

    An interrupted import can be run again and then continues. In all other cases, the target must not have the memory
    store. The guards of the target check only later writes. They do not check the imported history.
    """
    section = archive.exported()
    if workspace is not None:
        section.header = replace(section.header, workspace_id=workspace)
    key = section.header.key if key is None else plain_name("a store key", key)
    _check_target(target, section, key)
    return _import(target, section, key, archive.texts(), progress)


def _import(
    target: Backend, section: Section, key: str | None, texts: Iterator[ArchiveText], progress: TransferProgress | None
) -> Restored:
    """Create the memory store of a section, import the versions that it lacks, and check the result."""
    header = section.header
    memories = {memory.id: memory for memory, _ in section.memories()}
    records = {(kind, name): value for kind, name, value in section.records(RECORDS)}
    create_copy(
        target,
        header.id,
        key=key,
        name=header.name,
        created_at=header.created_at,
        seal=header.seal,
        workspace=header.workspace_id,
    )
    newest = target.read(header.id, newest_version)
    added = 0
    for batch in batches(_versions_after(newest or "", section, texts), lambda one: one[1].version):
        target.write(header.id, partial(record_imported, imported=[imported for _, imported in batch]))
        added += len(batch)
        if progress is not None:
            progress(batch[-1][0], header.versions)
    contents = Contents(memories, header.settings, records, header.seal, header.properties)
    return Restored(
        id=header.id,
        key=key,
        memories=header.memories,
        size_bytes=header.size_bytes,
        versions=header.versions,
        added=added,
        digest=contents.complete(target, header.id, section.records(SIDE_RECORDS)),
    )


def _versions_after(
    newest: str, section: Section, texts: Iterator[ArchiveText]
) -> Iterator[tuple[int, ImportedVersion]]:
    """Yield the versions of a section that are newer than `newest`, each with its number.

    `texts` must be in the same order as the versions.
    """
    for number, (version, text_of) in enumerate(section.versions(), start=1):
        if version.id <= newest:
            continue
        data, wanted = None, (section.prefix, version.id)
        if text_of == version.id:
            data = next((data for prefix, found, data in texts if (prefix, found) == wanted), None)
            if data is None:
                raise Damaged(f"the text of version {version.id} is missing")
        shared = text_of if data is None else None
        yield number, ImportedVersion(version, data, shared, raw=section.is_raw)


def _chosen(archive: Archive, stores: Sequence[str]) -> list[Section]:
    chosen = [one for one in archive.sections if not stores or {one.header.id, one.header.key} & {*stores}]
    known = {name for section in chosen for name in (section.header.id, section.header.key)}
    missing = [name for name in stores if name not in known]
    if missing:
        raise InvalidInput(f"the backup has no memory store {missing[0]!r}")
    return chosen


def _check_target(target: Backend, section: Section, key: str | None) -> None:
    """Raise `InvalidInput` if the memory store of a section cannot be imported into the target.

    For example, another memory store in the target has the same id or key, or the target has the memory store with
    other versions.
    """
    header = section.header
    if header.id == SYSTEM_STORE:
        raise InvalidInput("the file has the records of a location, which cannot be imported as a memory store")
    present = target.get_store(header.id)
    if present is not None and present.id == header.id:
        check_same(present, header.id, key)
        if present.workspace_id != header.workspace_id:
            raise InvalidInput(f"the memory store {key or header.id} exists in the target in another workspace")
        newest = target.read(header.id, newest_version)
        if newest is not None and not any(version.id == newest for version, _ in section.versions()):
            raise InvalidInput(f"the memory store {key or header.id} exists in the target with other versions")
    elif key is not None and target.get_store(key, workspace=header.workspace_id) is not None:
        raise InvalidInput(f"a different memory store in the target already uses the key {key!r}")
