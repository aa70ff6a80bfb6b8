"""Exports one memory store as plain files, or with its history as one file. Backs up the stores of a location."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from retentive.engine.operation import AuditOnly
from retentive.engine.trust import OLDER as CONTRIBUTORS
from retentive.errors import NotFound
from retentive.locations import existing_store
from retentive.remote import remote_store
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend, Snapshot, StoreInfo
from retentive.storage.disk import expanded
from retentive.storage.paging import stores_of_users
from retentive.store import MemoryStore, core_of
from retentive.transfer import copies
from retentive.transfer.archive import COMPRESSED, Archive, ArchiveWriter, entry_of, new_archive
from retentive.transfer.copies import Copy
from retentive.transfer.files import TransferProgress, check_free, new_directory, new_file, spool
from retentive.transfer.lines import Header, Record, to_line
from retentive.transfer.plain_files import DAMAGED, unpack, write_tar


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Result of an export of files. `left_out` lists the paths of memories that were not written, with the reasons.

    `damaged` counts the memories in `left_out` whose text is damaged. The other memories in `left_out` have a name that
    the file system cannot store.
    """

    id: str
    key: str | None
    revision: int
    memories: int
    size_bytes: int
    left_out: Sequence[tuple[str, str]]
    damaged: int


def export_whole(
    store: MemoryStore, path: str, *, records: bool = False, progress: TransferProgress | None = None
) -> Copy:
    """Write the memory store with its history to the new file `path`. Both are written as they are at one revision.

    The memory store may be in use. If the name ends with `.tar.gz` or `.tgz`, the file is compressed. With `records`,
    the file also has records and side records. The file gets its name only when it is complete. Texts in the file are
    not encrypted, even if the memory store is.
    """
    remote = remote_store(store)
    if remote is None:
        with new_archive(path) as archive:
            return export_to(archive, store, records=records, progress=progress)
    with new_file(path) as raw:
        remote.download(raw, format="tar.gz" if path.endswith(COMPRESSED) else "tar", notes=records)
        header = Archive(raw).exported()
        return Copy.of(header, added=header.versions)


def export_to(
    archive: ArchiveWriter, store: MemoryStore, *, records: bool, progress: TransferProgress | None = None
) -> Copy:
    """Add a memory store with its history to an archive."""
    core = core_of(store)
    core.result_of(AuditOnly("export"))
    return _add(archive, core.backend, core.info, records=records, progress=progress)


def back_up(
    backend: Backend, path: str, *, stores: Sequence[str] = (), progress: TransferProgress | None = None
) -> list[Copy]:
    """Write memory stores with history, settings and records to the new file `path`.

    `stores` lists ids or keys of memory stores. Without this list, all memory stores are written. Each memory store is
    written as it is at one revision. It may be in use. Keys are not needed, because encrypted memory stores are written
    in encrypted form. A memory store that is erased during the backup is left out. Raises `NotFound` if an id or key is
    unknown.
    """
    source = below_encryption(backend)
    chosen = [existing_store(source, name) for name in stores] if stores else list(stores_of_users(source))
    written = list[Copy]()
    with new_archive(path) as archive:
        for _, info in sorted({info.id: info for info in chosen}.items()):
            with suppress(NotFound):
                written.append(_add(archive, source, info, records=True, progress=progress))
    return written


def _add(
    archive: ArchiveWriter, backend: Backend, info: StoreInfo, *, records: bool, progress: TransferProgress | None
) -> Copy:
    raw = copies.is_raw(backend, info)

    def write(snapshot: Snapshot) -> Header:
        lines.seek(0)  # a backend may run this function more than once
        lines.truncate()
        header = copies.header_of(snapshot, info, raw=raw)
        lines.write(to_line(header))
        for number, line in enumerate(copies.read_lines(snapshot, side_records, raw=raw), start=1):
            if not isinstance(line, Record):
                lines.write(to_line(line))
                if progress is not None:
                    progress(number, header.versions)
            elif records or line.kind == CONTRIBUTORS:  # a part of the provenance of versions
                lines.write(to_line(line))
        return header

    copies.record_external_edits(backend, info.id)
    side_records = list(copies.read_side_records(backend, info.id))
    with spool(archive.directory) as lines:
        header = backend.read(info.id, write)
        archive.add(entry_of(info.id), lines)
    return Copy.of(header, added=header.versions)


def export_files(store: MemoryStore, path: str, *, progress: TransferProgress | None = None) -> Exported:
    """Write the memories of one revision to files in the directory `path`, which must be new or empty.

    The memory `/memories/a/b` becomes the file `a/b`. The directory gets its name only when all its files are complete
    and synced to disk.
    """
    target, remote = os.path.abspath(expanded(path)), remote_store(store)
    with core_of(store).checking("export"):
        if not (os.path.isdir(target) and not os.path.islink(target) and not os.listdir(target)):
            check_free(target)
    with new_directory(target) as part, spool(os.path.dirname(target)) as raw:
        if remote is None:
            write_tar(store, raw, progress=progress)
        else:
            remote.download(raw, format="files", notes=False)
        about, sizes, left_out = unpack(raw, part)
    damaged = [(str(path), DAMAGED) for path in about["damaged"]]
    return Exported(
        id=store.id,
        key=store.key,
        revision=int(about["revision"]),
        memories=len(sizes),
        size_bytes=sum(sizes),
        left_out=[*left_out, *damaged],
        damaged=len(damaged),
    )
