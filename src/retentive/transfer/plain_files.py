"""Memories as plain files: in a tar file, and in a directory."""

from __future__ import annotations

import errno
import json
import os
import tarfile
from io import BytesIO
from typing import IO, Any

from retentive.engine.operation import AuditOnly
from retentive.errors import Damaged
from retentive.storage.contract import Snapshot
from retentive.storage.disk import BINARY, CLOSE_ON_EXEC, DIRECTORY_MODE, FILE_MODE, NO_FOLLOW
from retentive.storage.paging import readable_texts
from retentive.store import MemoryStore, core_of
from retentive.transfer.copies import record_external_edits
from retentive.transfer.files import TransferProgress, counted, mapped_os_errors
from retentive.transfer.lines import to_json
from retentive.transfer.sources import LAYOUT, tar_source
from retentive.transfer.tar import TarReader, add_entry, new_tar
from retentive.values.paths import ROOT, is_reserved
from retentive.values.text import is_text

FILES = "retentive-files.json"
"""Name of the last entry in a tar file of plain files.

The entry contains the revision, the number and size of the memories, and the paths of memories that were left out
because their text is damaged.
"""
DAMAGED = "its text is damaged"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | CLOSE_ON_EXEC | BINARY
_MAX_FILE_BYTES = 1 << 30  # each file is loaded into memory
_CANNOT_HOLD = {errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.ELOOP}


def write_tar(store: MemoryStore, raw: IO[bytes], *, progress: TransferProgress | None = None) -> None:
    """Write the memories of one revision to the tar file `raw`, in its directory `memories`."""
    core = core_of(store)

    def write(snapshot: Snapshot) -> None:
        raw.seek(0)  # a backend may run this function more than once
        raw.truncate()
        state, damaged, sizes = snapshot.state, list[str](), list[int]()
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
                sizes.append(len(data))
            about = {"id": store.id, "key": store.key, "revision": state.revision, "damaged": damaged}
            text = to_json({**about, "memories": len(sizes), "size_bytes": sum(sizes)})
            add_entry(tar, FILES, len(text), BytesIO(text))
        raw.flush()

    core.result_of(AuditOnly("export"))
    record_external_edits(core.backend, core.id)
    with mapped_os_errors():
        core.read(write)


def unpack(raw: IO[bytes], part: str) -> tuple[dict[str, Any], list[int], list[tuple[str, str]]]:
    """Write the files in a tar file that `write_tar` wrote to the directory `part`.

    Returns the contents of the last entry, the sizes of the files, and the paths of memories that could not be written,
    each with the reason. Raises `Damaged` if the tar file is incomplete or cannot come from an export.
    """
    tar, about = TarReader(raw), None
    for entry in tar.entries():
        about = json.loads(tar.data(_MAX_FILE_BYTES)) if entry.name == FILES else None
    if about is None:
        raise Damaged("the server sent an incomplete export")
    sizes, left_out = list[int](), list[tuple[str, str]]()
    for item in tar_source(raw, max_file_bytes=_MAX_FILE_BYTES).items():
        data = item.read()
        if isinstance(data, str) or {"", ".", ".."} & {*item.name.split("/")}:
            raise Damaged("the server sent a file that is not an export")
        why = _write_file(part, item.name, data)
        if why is None:
            sizes.append(len(data))
        else:
            left_out.append((f"{ROOT}/{item.name}", why))
    return about, sizes, left_out


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
