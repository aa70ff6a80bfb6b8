"""Exports of one memory store, as plain files or as one file with the history, and backups of a location."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from retentive.engine.operation import AuditOnly
from retentive.errors import Damaged, NotFound
from retentive.locations import existing_store
from retentive.storage.contract import Backend, Memory, Snapshot
from retentive.storage.disk import DIRECTORY_MODE, FILE_MODE, expanded, sync_directory
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
)
from retentive.transfer.files import check_free, mapped_os_errors
from retentive.transfer.versions import below_encryption, load
from retentive.values.paths import ROOT

_DAMAGED = "its text is damaged"
_CANNOT_HOLD = {errno.EEXIST, errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.ELOOP}


@dataclass(slots=True, kw_only=True)
class Exported:
    """Figures of an export. `left_out` lists the paths of memories that were not written, each with the reason.

    `damaged` is the number of memories in `left_out` whose text is damaged. The other memories in `left_out` have a
    name that the file system cannot store.
    """

    id: str
    key: str | None
    revision: int
    memories: int
    size_bytes: int
    versions: int | None = None
    left_out: list[tuple[str, str]] = field(default_factory=list)
    damaged: int = 0

    @classmethod
    def of(cls, header: lines.Header) -> Self:
        """Figures of one section of an export file."""
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
    """Write the store with its history, at one revision, to the new file `path`. The store may be in use.

    If the name ends in `.tar.gz` or `.tgz`, the file is compressed. `records` adds records and side records. The file
    appears under its name only when it is complete. Texts in the file are not encrypted, even if the store is
    encrypted.
    """
    core = core_of(store)
    core.result_of(AuditOnly("export"))
    with new_archive(path) as archive:
        section = SectionWriter(archive, core.backend, core.info, progress, prefix="", header=EXPORT, records=records)
        return Exported.of(section.write())


def back_up(
    backend: Backend, path: str, *, stores: Sequence[str] = (), progress: TransferProgress | None = None
) -> list[Exported]:
    """Write all memory stores, or those with these ids or keys, to the new file `path`.

    Each store is written at one revision, with its history, settings and records. The stores may be in use. This needs
    no keys: encrypted stores are written in encrypted form. A store that is erased during the backup is left out.
    Raises `NotFound` for an unknown id or key.
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
    """Write the memories, at one revision, to files in the new or empty directory `path`.

    `/memories/a/b` becomes `a/b`. The directory appears under its name only when all files are complete and durable.
    """
    target = os.path.abspath(expanded(path))
    core = core_of(store)
    with core.checking("export"):
        if not (os.path.isdir(target) and not os.path.islink(target) and not os.listdir(target)):
            check_free(target)
    directory, name = os.path.split(target)
    part = os.path.join(directory, f".{name}.{secrets.token_hex(4)}.part")
    core.result_of(AuditOnly("export"))
    record_external_edits(core.backend, core.id)
    with mapped_os_errors():
        try:
            done = core.read(partial(_write_files, store=store, part=part, progress=progress))
            _sync(part)
            os.rename(part, target)  # replaces an empty directory and nothing else
            sync_directory(directory)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    return done


def _write_files(snapshot: Snapshot, *, store: MemoryStore, part: str, progress: TransferProgress | None) -> Exported:
    shutil.rmtree(part, ignore_errors=True)  # a backend may run this function more than once
    os.mkdir(part, DIRECTORY_MODE)
    usage = snapshot.usage()
    done = Exported(id=store.id, key=store.key, revision=snapshot.revision, memories=0, size_bytes=0)
    for number, memory in enumerate(snapshot.memories(ROOT), start=1):
        why = _write_file(snapshot, memory, part)
        if why is None:
            done.memories += 1
            done.size_bytes += memory.size_bytes
        else:
            done.left_out.append((memory.path, why))
            done.damaged += why == _DAMAGED
        if progress is not None:
            progress(number, usage.memories)
    return done


def _write_file(snapshot: Snapshot, memory: Memory, part: str) -> str | None:
    """Write the file of a memory. If its text is damaged or its name cannot be stored, return the reason."""
    with suppress(Damaged, NotFound):
        _, data = load(snapshot, memory.version_id, raw=False)
        return _DAMAGED if data is None else _write_data(os.path.join(part, memory.path[len(ROOT) + 1 :]), data)
    return _DAMAGED


def _write_data(path: str, data: bytes) -> str | None:
    try:
        os.makedirs(os.path.dirname(path), DIRECTORY_MODE, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        if error.errno == errno.EEXIST:
            return "this file system does not distinguish its name from another"
        if error.errno in _CANNOT_HOLD:
            return f"the file system cannot hold its name ({error.strerror})"
        raise
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return None


def _sync(part: str) -> None:
    """Sync the names of all files to disk."""
    for directory, _, _ in os.walk(part):
        with suppress(FileNotFoundError):
            sync_directory(directory)
