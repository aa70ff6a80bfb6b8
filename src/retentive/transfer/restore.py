"""Memory stores out of a file, with their ids, versions and times: restoring a backup, importing an export whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from retentive.errors import Damaged, InvalidInput
from retentive.storage import capabilities
from retentive.storage.contract import Backend, Snapshot, StoreInfo, Version, plain_name
from retentive.transfer.archive_reader import Archive, Section
from retentive.transfer.archive_writer import Progress, bare
from retentive.transfer.present import Present, copy_jottings
from retentive.transfer.versions import Taken, batches, take_over


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What came of one memory store. `added`: versions that were not there yet; `digest` is over paths and hashes."""

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
    """Restore the memory stores of a backup, or those with these ids or keys, where they are not there.

    A restoring that was broken off goes on. What was sealed stays sealed: no keys are needed. Raises `InvalidInput`
    before anything is written, if a store is there and is not as in the backup or on the way there.
    """
    if not archive.is_backup:
        raise InvalidInput("the file is an export of one memory store: `retentive import` takes it")
    wanted = _chosen(archive, [plain_name("a store key", name) for name in stores])
    for section in wanted:
        _check_target(bare(target), section, section.header.key)
    texts = _Texts(archive)
    return [_restored(bare(target), section, section.header.key, texts, progress) for section in wanted]


def import_whole(
    archive: Archive, target: Backend, *, key: str | None = None, progress: Progress | None = None
) -> Restored:
    """Make the memory store of an export, with its history, in a place where it is not; under `key`, if one is given.

    An import that was broken off goes on. The guards of the target are for what is written from now on: the history
    comes as it is.
    """
    if archive.is_backup:
        raise InvalidInput("the file is a backup: `retentive restore-backup` takes it")
    (section,) = archive.sections
    if section.is_raw:
        raise InvalidInput("the memory store in the file is sealed")
    key = section.header.key if key is None else plain_name("a store key", key)
    _check_target(target, section, key)
    return _restored(target, section, key, _Texts(archive), progress)


class _Texts:
    """The texts of a file, which come in the order of the versions."""

    def __init__(self, archive: Archive) -> None:
        self._texts = archive.texts()

    def get(self, section: Section, version_id: str) -> bytes:
        """The text that a version wrote."""
        for prefix, found, data in self._texts:
            if (prefix, found) == (section.prefix, version_id):
                return data
        raise Damaged(f"the text of version {version_id} is missing")


def _chosen(archive: Archive, stores: Sequence[str]) -> list[Section]:
    chosen = [one for one in archive.sections if not stores or {one.header.id, one.header.key} & {*stores}]
    known = {name for section in chosen for name in (section.header.id, section.header.key)}
    missing = [name for name in stores if name not in known]
    if missing:
        raise InvalidInput(f"the backup has no memory store {missing[0]!r}")
    return chosen


def _check_target(target: Backend, section: Section, key: str | None) -> None:
    """Raise `InvalidInput` if the store cannot come to be there."""
    header = section.header
    there = target.get_store(header.id)
    if there is not None and there.id == header.id:
        check_same(there, header.id, key)
        newest = target.read(header.id, newest_version)
        if newest is not None and not any(version.id == newest for version, _ in section.versions()):
            raise InvalidInput(f"the memory store {key or header.id} is there already, and has other versions")
    elif key is not None and target.get_store(key) is not None:
        raise InvalidInput(f"there is another memory store with the key {key!r}")


def check_same(info: StoreInfo, store_id: str, key: str | None) -> None:
    """Raise `InvalidInput` if a store is not the one that should have been made."""
    if info.erased_at is not None:
        raise InvalidInput(f"the memory store {store_id} was erased there, and its id with it")
    if info.id != store_id:
        raise InvalidInput(f"there is another memory store with the key {key!r}")
    if info.key != key:
        raise InvalidInput(f"the memory store {store_id} is there already, with the key {info.key!r}")


def newest_version(snapshot: Snapshot) -> str | None:
    """The id of the newest version."""
    return next((version.id for version in snapshot.versions(limit=1)), None)


def _restored(target: Backend, section: Section, key: str | None, texts: _Texts, progress: Progress | None) -> Restored:
    header = section.header
    made = target.create_store(
        key=key, name=header.name, seal=header.seal, store_id=header.id, created_at=header.created_at
    )
    check_same(made, header.id, key)
    capabilities.unlock(target, made) if not section.is_raw else None
    newest = target.read(header.id, newest_version)
    present = _present(section)
    born = {memory.id: memory.created_at for memory in present.memories.values()}
    done = added = 0

    def taken() -> Iterator[Taken]:
        nonlocal done
        for version, text_of in section.versions():
            done += 1
            if newest is not None and version.id <= newest:
                continue
            data = texts.get(section, version.id) if text_of == version.id else None
            shared = text_of if data is None else None
            yield Taken(version, data, shared, born.get(version.memory_id), raw=section.is_raw)

    for batch in batches(taken(), _version_of):
        target.write(header.id, partial(take_over, taken=batch))
        added += len(batch)
        if progress is not None:
            progress(done, header.versions)
    target.write(header.id, present.bring_about)
    copy_jottings(section.jottings(), target, header.id)
    digest = target.read(header.id, present.check)
    return Restored(
        id=header.id,
        key=key,
        memories=header.memories,
        size_bytes=header.size_bytes,
        versions=header.versions,
        added=added,
        digest=digest,
    )


def _present(section: Section) -> Present:
    notes = {(kind, key): value for kind, key, value in section.notes()}
    return Present({memory.id: memory for memory, _ in section.memories()}, section.header.settings, notes)


def _version_of(taken: Taken) -> Version:
    return taken.version
