"""Exports one memory store as plain files, or with its history as one file. Backs up the stores of a location."""

from __future__ import annotations

import errno
import json
import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import IO

from retentive.engine.operation import audit_only
from retentive.engine.visibility import OLDER as CONTRIBUTORS
from retentive.errors import Damaged, NotFound
from retentive.locations import existing_store
from retentive.remote import remote_store
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend, Snapshot, StoreInfo
from retentive.storage.disk import BINARY, CLOSE_ON_EXEC, DIRECTORY_MODE, FILE_MODE, NO_FOLLOW, expanded
from retentive.storage.paging import readable_texts, stores_of_users
from retentive.store import MemoryStore, core_of
from retentive.transfer import copies
from retentive.transfer.archive import Archive, TarReader, add_entry, entry_of, is_compressed, new_tar, write_archive
from retentive.transfer.copies import Copy
from retentive.transfer.files import (
    TransferProgress,
    check_free,
    counted,
    mapped_os_errors,
    new_directory,
    new_file,
    spool,
)
from retentive.transfer.import_files import LAYOUT
from retentive.transfer.lines import Header, Record, to_json, to_line
from retentive.transfer.location_records import CarriedRecords, TransferResult, for_backup, numbers_by_kind
from retentive.values.paths import ROOT, is_reserved
from retentive.values.records import SYSTEM_STORE
from retentive.values.text import is_text

FILES = "retentive-files.json"
"""Name of the last entry in a tar file of plain files.

The entry contains the revision, and the paths of memories that were left out because their text is damaged.
"""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | CLOSE_ON_EXEC | BINARY
_MAX_FILE_BYTES = 1 << 30  # each file is loaded into memory
_CANNOT_HOLD = {errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.ELOOP}


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


def export_whole(store: MemoryStore, path: str, *, progress: TransferProgress | None = None) -> Copy:
    """Write the memory store with its history to the new file `path`. Both are written as they are at one revision.

    The memory store may be in use. If the name ends with `.tar.zst` or `.tzst`, the file is compressed. It gets its
    name only when it is complete. Texts in the file are not encrypted, even if the memory store is. Records, such as
    the audit log and proposals, are only in backups.
    """
    path, remote = os.path.abspath(expanded(path)), remote_store(store)
    compressed = is_compressed(path)
    with new_file(path) as raw:
        if remote is None:
            return export_to(raw, store, compressed=compressed, directory=os.path.dirname(path), progress=progress)
        remote.download(raw, format="tar.zst" if compressed else "tar")
        header = Archive(raw).exported()
        return Copy.of(header, added=header.versions)


def export_to(
    raw: IO[bytes],
    store: MemoryStore,
    *,
    compressed: bool,
    directory: str | None = None,
    progress: TransferProgress | None = None,
) -> Copy:
    """Write a memory store with its history to the file `raw`. `directory` is where a temporary file belongs."""
    core, done = core_of(store), list[Copy]()
    core.result_of(audit_only("export"))
    entry = _entry(core.backend, core.info, done, _of_versions, directory=directory, progress=progress)
    write_archive(raw, entry, compressed=compressed)
    return done[0]


def _of_versions(record: Record) -> Record | None:
    return record if record.kind == CONTRIBUTORS else None  # a part of the provenance of versions


def back_up(
    backend: Backend,
    path: str,
    *,
    stores: Sequence[str] = (),
    with_location: bool = True,
    progress: TransferProgress | None = None,
) -> TransferResult:
    """Write memory stores with history, settings and records to the new file `path`.

    `stores` lists ids or keys of memory stores. Without this list, all memory stores are written, and unless
    `with_location` is false, also the records of the location (`transfer/location_records.py`). Each memory store is
    written as it is at one revision. It may be in use. A memory store that is erased during the backup is left out, and
    so is one whose key was destroyed, unless it is listed.

    Encrypted memory stores are written in encrypted form. Raises `Locked` if `backend` has no keys and earlier texts of
    such a store are compressed. Raises `NotFound` if an id or key is unknown.
    """
    source = below_encryption(backend)
    chosen = [existing_store(source, name) for name in stores] if stores else list(stores_of_users(source))
    path, done, names = os.path.abspath(expanded(path)), list[Copy](), set[str]()
    compressed, directory = is_compressed(path), os.path.dirname(path)
    system = source.get_store(SYSTEM_STORE) if with_location and not stores else None
    chosen += [] if system is None else [system]

    def of_location(record: Record) -> Record | None:
        found = for_backup(record, raw=system is not None and system.seal is not None)
        names.update([] if found is None else [found.key])
        return found

    def entries() -> Iterator[tuple[str, IO[bytes]]]:
        for _, info in sorted({info.id: info for info in chosen}.items()):
            with suppress(NotFound):
                if info is system:
                    yield from _entry(source, info, [], of_location, directory=directory)
                else:
                    yield from _entry(source, info, done, lambda record: record, directory=directory, progress=progress)

    with new_file(path) as raw:
        write_archive(raw, entries(), compressed=compressed)
    return TransferResult(stores=done, location=CarriedRecords(records=numbers_by_kind(sorted(names))))


def _entry(
    backend: Backend,
    info: StoreInfo,
    done: list[Copy],
    chosen: Callable[[Record], Record | None],
    *,
    directory: str | None,
    progress: TransferProgress | None = None,
) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the entry of a memory store for an archive, and add its facts to `done`.

    `chosen` returns a record as it belongs in the entry, or None if it does not.
    """
    raw = copies.is_raw(backend, info)

    def write(snapshot: Snapshot) -> Header:
        lines.seek(0)  # a backend may run this function more than once
        lines.truncate()
        header = copies.header_of(snapshot, info, raw=raw)
        lines.write(to_line(header))
        for number, line in enumerate(copies.read_lines(snapshot, raw=raw), start=1):
            if not isinstance(line, Record):
                lines.write(to_line(line))
                if progress is not None:
                    progress(number, header.versions)
            elif (record := chosen(line)) is not None:
                lines.write(to_line(record))
        return header

    copies.record_external_edits(backend, info.id)
    with spool(directory) as lines:
        header = backend.read(info.id, write)
        yield entry_of(info.id), lines
    done.append(Copy.of(header, added=header.versions))


def export_files(store: MemoryStore, path: str, *, progress: TransferProgress | None = None) -> Exported:
    """Write the memories of one revision to files in the directory `path`, which must be new or empty.

    The memory `/memories/a/b` becomes the file `a/b`. The directory gets its name only when all its files are complete
    and synced to disk.
    """
    target, remote = os.path.abspath(expanded(path)), remote_store(store)
    if not (os.path.isdir(target) and not os.path.islink(target) and not os.listdir(target)):
        check_free(target)
    with new_directory(target) as part, spool(os.path.dirname(target)) as raw:
        if remote is None:
            write_tar(store, raw, progress=progress)
        else:
            remote.download(raw, format="files")
        return _unpack(raw, part, store)


def write_tar(store: MemoryStore, raw: IO[bytes], *, progress: TransferProgress | None = None) -> None:
    """Write the memories of one revision to the tar file `raw`, in its directory `memories`."""
    core = core_of(store)

    def write(snapshot: Snapshot) -> None:
        raw.seek(0)  # a backend may run this function more than once
        raw.truncate()
        state, damaged = snapshot.state, list[str]()
        with new_tar(raw, tarfile.PAX_FORMAT) as tar:
            directory = tarfile.TarInfo(LAYOUT)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o700
            tar.addfile(directory)
            for memory, data in counted(readable_texts(snapshot), progress, state.usage.memories):
                if data is None or not is_text(data):
                    damaged.append(memory.path)
                    continue
                name, mtime = LAYOUT + memory.path[len(ROOT) :], int(memory.updated_at.timestamp())
                add_entry(tar, name, len(data), BytesIO(data), mtime=mtime)
            about = to_json({"id": store.id, "key": store.key, "revision": state.revision, "damaged": damaged})
            add_entry(tar, FILES, len(about), BytesIO(about))
        raw.flush()

    core.result_of(audit_only("export"))
    copies.record_external_edits(core.backend, core.id)
    with mapped_os_errors():
        core.read(write)


def _unpack(raw: IO[bytes], part: str, store: MemoryStore) -> Exported:
    """Write the files in a tar file that `write_tar` wrote to the directory `part`.

    Raises `Damaged` if the tar file is incomplete or cannot come from an export.
    """
    tar, about, sizes, left_out = TarReader(raw), None, list[int](), list[tuple[str, str]]()
    for entry in tar.entries():
        if entry.name == FILES:
            about = json.loads(tar.data(_MAX_FILE_BYTES))
            continue
        about, name = None, entry.name.removeprefix(f"{LAYOUT}/")  # the description is the last entry
        if entry.isdir():
            continue
        is_below = name != entry.name and not {"", ".", ".."} & {*name.split("/")}
        if not (entry.isreg() and is_below) or entry.size > _MAX_FILE_BYTES:
            raise Damaged("the server sent a file that is not an export")
        why = _write_file(part, name, tar.data(entry.size))
        if why is None:
            sizes.append(entry.size)
        else:
            left_out.append((f"{ROOT}/{name}", why))
    if about is None:
        raise Damaged("the server sent an incomplete export")
    damaged = [(str(path), "its text is damaged") for path in about["damaged"]]
    return Exported(
        id=store.id,
        key=store.key,
        revision=int(about["revision"]),
        memories=len(sizes),
        size_bytes=sum(sizes),
        left_out=[*left_out, *damaged],
        damaged=len(damaged),
    )


def _write_file(part: str, name: str, data: bytes) -> str | None:
    """Write a file below a directory. Return None, or the reason why its name cannot be stored."""
    if any(map(is_reserved, name.split("/"))):  # from a store of another program, such as a hosted one
        return "a name in its path is reserved for another program, which might run it"
    path = os.path.join(part, name)
    try:
        os.makedirs(os.path.dirname(path), DIRECTORY_MODE, exist_ok=True)
        descriptor = os.open(path, _NEW, FILE_MODE)
    except OSError as error:
        if error.errno == errno.EEXIST:
            return "on this file system, its name is the same as the name of another file"
        if error.errno in _CANNOT_HOLD:
            return f"the file system cannot store its name ({error.strerror})"
        raise
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return None
