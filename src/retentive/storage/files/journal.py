"""Journal of a directory. After a process was killed, the journal shows which versions are in the files.

The versions of a database are numbered: each gets a higher number (`seq`) than all versions before it. After each sync
of the file system, the database records the number of the version up to which the files are durable (`synced`). The
journal records the number up to which the files are written. These files may not be durable yet.

The journal is the file `journal`. It is never synced. It has a digest of the boot of the machine and of the mount of
the file system. As long as both are the same, no written file was lost. Otherwise the power may have been cut. The
journal is opened for each use: somebody may have removed or replaced it meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from retentive.storage.disk import FILE_MODE

_NAME = "journal"
_LAYOUT = struct.Struct("<q32s")
UNKNOWN = bytes(32)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# Linux, include/uapi/linux/stat.h
_AT_EMPTY_PATH, _MNT_ID, _MNT_ID_UNIQUE = 0x1000, 0x1000, 0x4000
_MASK, _MNT_ID_AT = struct.Struct("<I"), struct.Struct("<144xQ")
MountId: TypeAlias = Callable[[int], "str | None"]
"""Function that returns the identity of the mount of an open file. None if it is unknown."""


class Journal(NamedTuple):
    """Progress of writing files: the versions up to the number `applied` are in the files.

    `mount` is the digest of the mount in which the files were written. It is `UNKNOWN` if files may have been lost
    since the last sync.
    """

    applied: int = 0
    mount: bytes = UNKNOWN


def read_journal(directory: int) -> Journal:
    """Read the journal in the directory with this descriptor. Raises OSError."""
    try:
        file = os.open(_NAME, _READ, dir_fd=directory)
    except FileNotFoundError:
        return Journal()
    try:
        data = os.pread(file, _LAYOUT.size, 0)
    finally:
        os.close(file)
    return Journal(*_LAYOUT.unpack(data)) if len(data) == _LAYOUT.size else Journal()


def write_journal(directory: int, journal: Journal) -> None:
    """Replace the journal. Raises OSError."""
    data = _LAYOUT.pack(*journal)
    file = os.open(_NAME, _WRITE, FILE_MODE, dir_fd=directory)
    try:
        if os.pwrite(file, data, 0) != len(data):
            raise OSError("only a part of the journal was written")
    finally:
        os.close(file)


def mount_id(descriptor: int) -> str | None:
    """Return a name of the boot of the machine and of the mount of an open file. Returns None if it is unknown.

    Since Linux 6.8, the number of a mount is never used again. Before, it may be used again after an unmount.
    """
    if not sys.platform.startswith("linux"):
        return None
    with suppress(OSError, AttributeError, ValueError), open("/proc/sys/kernel/random/boot_id") as file:
        found = ctypes.create_string_buffer(256)
        if ctypes.CDLL(None).statx(descriptor, b"", _AT_EMPTY_PATH, _MNT_ID | _MNT_ID_UNIQUE, found) == 0:
            mask = _MASK.unpack_from(found.raw)[0]
            if mask & (_MNT_ID | _MNT_ID_UNIQUE):
                device = os.fstat(descriptor).st_dev
                return f"{file.read().strip()} {device} {mask & _MNT_ID_UNIQUE} {_MNT_ID_AT.unpack_from(found.raw)[0]}"
    return None


def digest_of(mount: str) -> bytes:
    """Return the digest of a mount for the journal."""
    return sha256(mount.encode()).digest()


def sync_file_system(descriptor: int) -> None:
    """Sync a file system to disk. `descriptor` is an open file on this file system. Raises OSError.

    Only Linux can sync a single file system (`syncfs`). On other systems, all file systems are synced.
    """
    if not sys.platform.startswith("linux"):
        os.sync()
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
