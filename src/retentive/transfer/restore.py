"""Restore of backups and complete import of exports: memory stores with their ids, versions and times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from retentive.errors import Damaged, InvalidInput
from retentive.storage import capabilities
from retentive.storage.contract import Backend, Snapshot, StoreInfo, Version, plain_name
from retentive.transfer.archive_reader import Archive, Section
from retentive.transfer.archive_writer import Progress
from retentive.transfer.contents import Contents
from retentive.transfer.raw import below_encryption
from retentive.transfer.side_records import replace_side_records
from retentive.transfer.versions import ImportedVersion, batches, record_imported


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Figures of a restored store. `added`: versions that were new to the target; `digest`: over paths and hashes."""

    id: str
    key: str | None
    memories: int
    size_bytes: int
    versions: int
    added: int
    digest: str


def restore(
    archive: Archive, target: Backend, *, stores: Sequence[str] = (), progress: Progress | None = None
) -> list[Restored]:
    """Restore the memory stores of a backup, or those with these ids or keys, into a location that lacks them.

    An interrupted restore resumes. Encrypted stores stay encrypted, and no keys are needed. Raises `InvalidInput`
    before anything is written, if the target has a store with other versions than the backup.
    """
    if not archive.is_backup:
        raise InvalidInput("the file is an export of one memory store: `retentive import` takes it")
    chosen = _chosen(archive, [plain_name("a store key", name) for name in stores])
    for section in chosen:
        _check_target(below_encryption(target), section, section.header.key)
    texts = _Texts(archive)
    return [
        _SectionImport(below_encryption(target), section, section.header.key, texts).run(progress) for section in chosen
    ]


def import_whole(
    archive: Archive, target: Backend, *, key: str | None = None, progress: Progress | None = None
) -> Restored:
    """Import the memory store of an export with its history into a location that lacks it, optionally under `key`.

    An interrupted import resumes. The guards of the target do not apply to the imported history, only to later writes.
    """
    if archive.is_backup:
        raise InvalidInput("the file is a backup: `retentive restore-backup` takes it")
    (section,) = archive.sections
    if section.is_raw:
        raise InvalidInput("the memory store in the file is encrypted")
    key = section.header.key if key is None else plain_name("a store key", key)
    _check_target(target, section, key)
    return _SectionImport(target, section, key, _Texts(archive)).run(progress)


class _Texts:
    """The texts of a file, in the order of the versions."""

    def __init__(self, archive: Archive) -> None:
        self._texts = archive.texts()

    def get(self, section: Section, version_id: str) -> bytes:
        """The text that a version wrote. Ask in the order of the versions."""
        for prefix, found, data in self._texts:
            if (prefix, found) == (section.prefix, version_id):
                return data
        raise Damaged(f"the text of version {version_id} is missing")


class _SectionImport:
    """The import of one section of a file."""

    def __init__(self, target: Backend, section: Section, key: str | None, texts: _Texts) -> None:
        self._target = target
        self._section = section
        self._key = key
        self._texts = texts
        self._contents = _contents(section)
        self._done = 0

    def run(self, progress: Progress | None) -> Restored:
        """Create the store, import what it lacks and check the result."""
        header = self._section.header
        self._create()
        newest = self._target.read(header.id, newest_version)
        added = 0
        for batch in batches(self._versions_after(newest), _version_of):
            self._target.write(header.id, partial(record_imported, imported=batch))
            added += len(batch)
            if progress is not None:
                progress(self._done, header.versions)
        self._target.write(header.id, self._contents.apply)
        replace_side_records(self._section.side_records(), self._target, header.id)
        return Restored(
            id=header.id,
            key=self._key,
            memories=header.memories,
            size_bytes=header.size_bytes,
            versions=header.versions,
            added=added,
            digest=self._target.read(header.id, self._contents.check),
        )

    def _create(self) -> None:
        header = self._section.header
        created = self._target.create_store(
            key=self._key, name=header.name, seal=header.seal, store_id=header.id, created_at=header.created_at
        )
        check_same(created, header.id, self._key)
        if not self._section.is_raw:
            capabilities.unlock(self._target, created)

    def _versions_after(self, newest: str | None) -> Iterator[ImportedVersion]:
        section, memories = self._section, self._contents.memories
        for version, text_of in section.versions():
            self._done += 1
            if newest is not None and version.id <= newest:
                continue
            data = self._texts.get(section, version.id) if text_of == version.id else None
            shared = text_of if data is None else None
            memory = memories.get(version.memory_id)
            created_at = None if memory is None else memory.created_at
            yield ImportedVersion(version, data, shared, created_at, raw=section.is_raw)


def _chosen(archive: Archive, stores: Sequence[str]) -> list[Section]:
    chosen = [one for one in archive.sections if not stores or {one.header.id, one.header.key} & {*stores}]
    known = {name for section in chosen for name in (section.header.id, section.header.key)}
    missing = [name for name in stores if name not in known]
    if missing:
        raise InvalidInput(f"the backup has no memory store {missing[0]!r}")
    return chosen


def _check_target(target: Backend, section: Section, key: str | None) -> None:
    """Raise `InvalidInput` if the target has another store with this id or key, or other versions of this one."""
    header = section.header
    present = target.get_store(header.id)
    if present is not None and present.id == header.id:
        check_same(present, header.id, key)
        newest = target.read(header.id, newest_version)
        if newest is not None and not any(version.id == newest for version, _ in section.versions()):
            raise InvalidInput(f"the memory store {key or header.id} exists in the target with other versions")
    elif key is not None and target.get_store(key) is not None:
        raise InvalidInput(f"the target has another memory store with the key {key!r}")


def check_same(info: StoreInfo, store_id: str, key: str | None) -> None:
    """Raise `InvalidInput` if a store of the target is not the one to import."""
    if info.erased_at is not None:
        raise InvalidInput(f"the memory store {store_id} was erased in the target, and its id cannot be used again")
    if info.id != store_id:
        raise InvalidInput(f"the target has another memory store with the key {key!r}")
    if info.key != key:
        raise InvalidInput(f"the memory store {store_id} exists in the target with the key {info.key!r}")


def newest_version(snapshot: Snapshot) -> str | None:
    """The id of the newest version."""
    return next((version.id for version in snapshot.versions(limit=1)), None)


def _contents(section: Section) -> Contents:
    records = {(kind, key): value for kind, key, value in section.records()}
    return Contents({memory.id: memory for memory, _ in section.memories()}, section.header.settings, records)


def _version_of(imported: ImportedVersion) -> Version:
    return imported.version
