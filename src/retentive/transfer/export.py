"""Exports one memory store as plain files, or with its history as one file. Backs up the stores of a location."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self

from retentive.engine.operation import AuditOnly
from retentive.errors import NotFound
from retentive.locations import existing_store
from retentive.remote import remote_store
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend, Snapshot
from retentive.storage.disk import expanded
from retentive.storage.paging import stores_of_users
from retentive.store import MemoryStore, core_of
from retentive.transfer import lines
from retentive.transfer.archive_writer import (
    BACKUP,
    EXPORT,
    SectionWriter,
    TransferProgress,
    about,
    new_archive,
    record_external_edits,
    spool,
)
from retentive.transfer.files import check_free
from retentive.transfer.plain_files import (
    DAMAGED,
    FILES,
    clear_directory,
    data_of,
    new_directory,
    read_tar,
    write_file,
)
from retentive.values.paths import ROOT

if TYPE_CHECKING:
    from retentive.remote.store import RemoteStore


@dataclass(slots=True, kw_only=True)
class Exported:
    """Result of an export. `left_out` lists the paths of memories that were not written, each with the reason.

    `damaged` counts the memories in `left_out` whose text is damaged. The other memories in `left_out` have a name that
    the file system cannot store.
    """

    id: str
    key: str | None
    revision: int
    memories: int
    size_bytes: int
    versions: int | None = None
    left_out: list[tuple[str, str]] = field(default_factory=list)
    damaged: int = 0

    def add(self, path: str, size_bytes: int, why: str | None) -> None:
        """Count a memory. `why` is the reason why it was not written, or None if it was written."""
        if why is None:
            self.memories += 1
            self.size_bytes += size_bytes
        else:
            self.left_out.append((path, why))
            self.damaged += why == DAMAGED

    @classmethod
    def of(cls, header: lines.Header) -> Self:
        """Return the result for one section of an export file."""
        return cls(
            id=header.id,
            key=header.key,
            revision=header.revision,
            memories=header.memories,
            size_bytes=header.size_bytes,
            versions=header.versions,
        )


def export_whole(
    store: MemoryStore, path: str, *, records: bool = False, progress: TransferProgress | None = None
) -> Exported:
    """Write the memory store with its history to the new file `path`. Both are written as they are at one revision.

    The memory store may be in use. If the name ends with `.tar.gz` or `.tgz`, the file is compressed. With `records`,
    the file also has records and side records. The file gets its name only when it is complete. Texts in the file are
    not encrypted, even if the memory store is.
    """
    remote = remote_store(store)
    if remote is not None:
        from retentive.transfer.over_http import download_archive  # noqa: PLC0415 - rarely needed

        return Exported.of(download_archive(remote, path, records=records))
    core = core_of(store)
    core.result_of(AuditOnly("export"))
    with new_archive(path) as archive:
        section = SectionWriter(archive, core.backend, core.info, progress, prefix="", header=EXPORT, records=records)
        return Exported.of(section.write())


def back_up(
    backend: Backend, path: str, *, stores: Sequence[str] = (), progress: TransferProgress | None = None
) -> list[Exported]:
    """Write memory stores with history, settings and records to the new file `path`.

    `stores` lists ids or keys of memory stores. Without this list, all memory stores are written. Each memory store is
    written as it is at one revision. It may be in use. Keys are not needed, because encrypted memory stores are written
    in encrypted form. A memory store that is erased during the backup is left out. Raises `NotFound` if an id or key is
    unknown.
    """
    source = below_encryption(backend)
    chosen = [existing_store(source, name) for name in stores] if stores else list(stores_of_users(source))
    written: list[Exported] = []
    with new_archive(path) as archive:
        archive.add(BACKUP, lines.line(about("a backup")).encode())
        for info in sorted(chosen, key=lambda info: info.id):
            prefix = f"stores/{info.id}/"
            section = SectionWriter(archive, source, info, progress, prefix=prefix, header="store.json", records=True)
            with suppress(NotFound):
                written.append(Exported.of(section.write()))
    return written


def export_files(store: MemoryStore, path: str, *, progress: TransferProgress | None = None) -> Exported:
    """Write the memories of one revision to files in the directory `path`, which must be new or empty.

    The memory `/memories/a/b` becomes the file `a/b`. The directory gets its name only when all its files are complete
    and synced to disk.
    """
    target = os.path.abspath(expanded(path))
    core = core_of(store)
    with core.checking("export"):
        if not (os.path.isdir(target) and not os.path.islink(target) and not os.listdir(target)):
            check_free(target)
    remote = remote_store(store)
    if remote is not None:
        return _download_files(remote, target)
    core.result_of(AuditOnly("export"))
    record_external_edits(core.backend, core.id)
    with new_directory(target) as part:
        return core.read(partial(_write_files, store=store, part=part, progress=progress))


def _download_files(store: RemoteStore, target: str) -> Exported:
    from retentive.transfer.over_http import download_files  # noqa: PLC0415 - rarely needed

    done = Exported(id=store.id, key=store.key, revision=0, memories=0, size_bytes=0)
    with new_directory(target) as part, spool(os.path.dirname(target)) as raw:
        clear_directory(part)
        download_files(store, raw)
        for name, data in read_tar(raw):
            if name == FILES:
                about = json.loads(data)
            else:
                done.add(f"{ROOT}/{name}", len(data), write_file(part, name, data))
        done.revision = int(about["revision"])
        for path in about["damaged"]:
            done.add(str(path), 0, DAMAGED)
    return done


def _write_files(snapshot: Snapshot, *, store: MemoryStore, part: str, progress: TransferProgress | None) -> Exported:
    clear_directory(part)  # a backend may run this function more than once
    usage = snapshot.state.usage
    done = Exported(id=store.id, key=store.key, revision=snapshot.state.revision, memories=0, size_bytes=0)
    for number, (memory, _) in enumerate(snapshot.list(ROOT), start=1):
        data = data_of(snapshot, memory)
        why = DAMAGED if data is None else write_file(part, memory.path[len(ROOT) + 1 :], data)
        done.add(memory.path, memory.size_bytes, why)
        if progress is not None:
            progress(number, usage.memories)
    return done
