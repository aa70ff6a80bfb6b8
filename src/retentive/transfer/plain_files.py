"""Memories as plain files: in a new directory, or in a tar file that a server sends."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import IO

from retentive.engine.operation import AuditOnly
from retentive.errors import Damaged, NotFound
from retentive.storage.contract import Memory, Snapshot
from retentive.storage.disk import BINARY, CLOSE_ON_EXEC, DIRECTORY_MODE, FILE_MODE, NO_FOLLOW, sync_directory
from retentive.store import MemoryStore, core_of
from retentive.transfer.archive_writer import record_external_edits
from retentive.transfer.files import mapped_os_errors
from retentive.transfer.plain_tar import PlainTar, PlainTarWriter
from retentive.transfer.versions import load
from retentive.values.paths import ROOT, is_reserved

FILES = "retentive-files.json"
"""Name of the last entry in a tar file of plain files.

The entry contains the revision, the number and size of the memories, and the paths of memories that were left out
because their text is damaged.
"""
IN_TAR = "memories/"
DAMAGED = "its text is damaged"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | CLOSE_ON_EXEC | BINARY
_MAX_ABOUT_BYTES = 64 << 20
_CANNOT_HOLD = {errno.EEXIST, errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.ELOOP}


@contextmanager
def new_directory(target: str) -> Iterator[str]:
    """Yield a temporary path for a new directory.

    When the block ends without an error, the directory is synced to disk and renamed to `target`. After an error, it is
    removed.
    """
    directory, name = os.path.split(target)
    part = os.path.join(directory, f".{name}.{secrets.token_hex(4)}.part")
    with mapped_os_errors():
        try:
            yield part
            _sync(part)
            os.rename(part, target)  # replaces an empty directory and nothing else
            sync_directory(directory)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise


def clear_directory(part: str) -> None:
    """Create the directory. If it exists, delete its contents."""
    shutil.rmtree(part, ignore_errors=True)
    os.mkdir(part, DIRECTORY_MODE)


def data_of(snapshot: Snapshot, memory: Memory) -> bytes | None:
    """Return the text of a memory, or None if it is damaged."""
    with suppress(Damaged, NotFound):
        return load(snapshot, memory.version_id, raw=False)[1]
    return None


def write_file(part: str, name: str, data: bytes) -> str | None:
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


def _sync(part: str) -> None:
    """Sync all directories, so that the names of the files are on disk."""
    for directory, _, _ in os.walk(part):
        with suppress(FileNotFoundError):
            sync_directory(directory)


def write_tar(store: MemoryStore, raw: IO[bytes]) -> None:
    """Write the memories of one revision to the tar file `raw`.

    The files of the memories are in the directory `memories`.
    """
    core = core_of(store)
    core.result_of(AuditOnly("export"))
    record_external_edits(core.backend, core.id)
    with mapped_os_errors():
        core.read(partial(_write_tar, store=store, raw=raw))


def _write_tar(snapshot: Snapshot, *, store: MemoryStore, raw: IO[bytes]) -> None:
    raw.seek(0)  # a backend may run this function more than once
    raw.truncate()
    tar, damaged, memories, size_bytes = PlainTarWriter(raw), list[str](), 0, 0
    tar.directory(IN_TAR)
    for memory, _ in snapshot.list(ROOT):
        data = data_of(snapshot, memory)
        if data is None:
            damaged.append(memory.path)
            continue
        memories, size_bytes = memories + 1, size_bytes + len(data)
        mtime = int(memory.updated_at.timestamp())
        tar.add(IN_TAR + memory.path[len(ROOT) + 1 :], len(data), [data], mtime=mtime)
    about = {
        "id": store.id,
        "key": store.key,
        "revision": snapshot.state.revision,
        "memories": memories,
        "size_bytes": size_bytes,
        "damaged": damaged,
    }
    data = json.dumps(about, ensure_ascii=False).encode() + b"\n"
    tar.add(FILES, len(data), [data])
    tar.finish()


def read_tar(raw: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the names and texts of the files in a tar file that `write_tar` wrote. The last file is `FILES`.

    The other names are relative to the directory `memories` in the tar file. Raises `Damaged` if the file is
    incomplete.
    """
    tar, name = PlainTar(raw), ""
    for entry in tar.plain():
        name = entry.name
        if entry.name.endswith("/"):
            continue
        is_about = entry.name == FILES
        inside = entry.name.removeprefix(IN_TAR)
        is_safe = not {"", ".", ".."} & {*inside.split("/")} and entry.name.startswith(IN_TAR)
        if entry.why is not None or not (is_about or is_safe) or (is_about and entry.size > _MAX_ABOUT_BYTES):
            raise Damaged("the server sent a file that is not an export")
        yield (entry.name if is_about else inside), tar.read(entry.size)
    if name != FILES:
        raise Damaged("the server sent an incomplete export")
