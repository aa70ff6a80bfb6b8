"""File system basics: directories, files, error mapping, refusal of network file systems, reserved space."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress

from retentive.errors import InvalidInput, PermissionDenied, RetentiveError, StoreFull, Unavailable

RESERVE_BYTES = 64 * 1024  # enough for the log of one deletion: some 8 pages of 4 KB
FILE_MODE = 0o600  # owner only: a permissive umask (as in containers) must not expose memories
DIRECTORY_MODE = 0o700
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)  # Windows lacks it and does not need it
_NETWORK = frozenset([
    "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4",
    "ocfs2", "smb3", "smbfs",
])  # fmt: skip
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def os_error(error: OSError) -> RetentiveError:
    """Map an OS error to ours. Its text is dropped, since it has a file name."""
    if error.errno in _FULL:
        return StoreFull("no space is left for the memory store")
    if error.errno in _DENIED:
        return PermissionDenied("the files of the memory store may not be read or written by this process")
    return Unavailable(f"the storage failed ({errno.errorcode.get(error.errno or 0, 'unknown error')})")


def make_directory(path: str) -> None:
    """Create `path` and missing parent directories, owner-only, and sync their names."""
    missing: list[str] = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path) or "."
    for directory in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(directory, DIRECTORY_MODE)
        sync_directory(os.path.dirname(directory) or ".")


def make_file(path: str) -> None:
    """Create an empty, owner-only file unless it exists, and sync its name."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _CLOSE_ON_EXEC, FILE_MODE))
        sync_directory(os.path.dirname(path) or ".")


def sync_directory(path: str) -> None:
    """Sync the names in a directory to disk. Does nothing on Windows, which does not support it."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _CLOSE_ON_EXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def local_file_system(path: str) -> str:
    """Type of the file system, "" if unknown. Raises `InvalidInput` for a network file system."""
    found = _file_system(path) if sys.platform.startswith("linux") else ""
    if found in _NETWORK:
        raise InvalidInput(
            "the location is on a network file system, where SQLite cannot keep its promises;"
            " use a local disk, or a database server"
        )
    return found


def _file_system(path: str) -> str:
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            fields, _, tail = line.partition(" - ")
            if fields.split(" ", 3)[2] == wanted:
                return tail.split(" ", 1)[0]
    return ""


def free_bytes(path: str, file_system: str) -> int:
    """Bytes this process can still write next to `path`; `sys.maxsize` if unknown."""
    if not hasattr(os, "statvfs"):
        return sys.maxsize
    try:
        found = os.statvfs(path)
    except OSError:
        return sys.maxsize
    if os.geteuid() != 0:
        return found.f_bavail * found.f_frsize
    kept = min(found.f_blocks // 50, 4_096) if file_system == "ext4" else 0  # reserved even from root, and not reported
    return max(found.f_bfree - kept, 0) * found.f_frsize


class Reserve:
    """Reserve of 64 KB in a file, freed for deletions when the disk is full."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.whole = False

    def keep(self) -> bool:
        """Allocate the reserve if space permits; True if it is complete."""
        if not self.whole:
            with suppress(OSError):
                self.whole = os.path.getsize(self._path) >= RESERVE_BYTES
        if not self.whole:
            with suppress(OSError):
                descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY | _CLOSE_ON_EXEC, FILE_MODE)
                try:  # written, not only extended: a sparse file reserves no space
                    self.whole = os.write(descriptor, bytes(RESERVE_BYTES)) == RESERVE_BYTES
                    os.fsync(descriptor)
                except OSError:
                    self.whole = False
                    os.ftruncate(descriptor, 0)
                finally:
                    os.close(descriptor)
        return self.whole

    def give_up(self) -> bool:
        """Free the reserve; True if it had any space."""
        self.whole = False
        try:
            size = os.path.getsize(self._path)
            os.truncate(self._path, 0)
        except OSError:
            return False
        return size > 0
