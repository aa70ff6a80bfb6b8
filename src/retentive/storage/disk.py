"""Basic functions that create, sync, write and rename files, convert errors, and refuse network file systems.

`exchange` swaps two file names. `rename_if_free` renames a file to a name that is not in use. On Linux both use the
system call `renameat2`, which is not in Python's standard library. A plain rename to the name of an existing file would
make ext4 flush the new file at once (`auto_da_alloc`). This flush takes 3 ms and has no benefit, because the text is
already durable in the database.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from retentive.errors import InvalidInput, PermissionDenied, RetentiveError, StorageReadOnly, StoreFull, Unavailable

FILE_MODE = 0o600  # owner only: a permissive umask (as in containers) must not expose memories
DIRECTORY_MODE = 0o700
CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)  # Windows lacks it and does not need it
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
BINARY = getattr(os, "O_BINARY", 0)  # Windows only; without this flag, Windows changes line endings
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | CLOSE_ON_EXEC
_NO_REPLACE, _EXCHANGE = 1, 2  # values from linux/fs.h
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
_NETWORK = frozenset([
    "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4",
    "ocfs2", "smb3", "smbfs",
])  # fmt: skip
_NO_NAMES = frozenset({errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED = frozenset({errno.EACCES, errno.EPERM})


def need_posix(what: str, instead: str = "") -> None:
    """Raise `InvalidInput` on Windows, because `what` does not work there.

    The message names `what` and, if given, the alternative `instead`.
    """
    if sys.platform == "win32":
        raise InvalidInput(f"{what} needs Linux or macOS{instead and f'; {instead}'}")


def os_error(error: OSError) -> RetentiveError:
    """Convert an `OSError` to the exception that callers of this library expect.

    The text of the `OSError` is left out, because it contains a file name.
    """
    if error.errno in _FULL:
        return StoreFull("no space is left for the memory store")
    if error.errno == errno.EROFS:
        return StorageReadOnly("the memory store is on a read-only file system")
    if error.errno in _DENIED:
        return PermissionDenied("this process has no permission to read or write the files of the memory store")
    return Unavailable(f"the storage failed ({errno.errorcode.get(error.errno or 0, 'unknown error')})")


def can_write(path: str) -> bool:
    """Return whether this process may change the file at `path` and create other files beside it.

    Also true if `path` or its directory does not exist. Creating it then raises the error with its reason.
    """
    beside = os.path.dirname(os.path.abspath(path))
    return all(os.access(each, os.W_OK) for each in (path, beside) if os.path.exists(each))


def need_readable(path: str) -> None:
    """Raise `PermissionDenied` if this process may not read the file or directory at `path`."""
    if not os.access(path, os.R_OK):
        raise os_error(PermissionError(errno.EACCES, ""))


def free_bytes(path: str, file_system: str = "") -> int:
    """Return how many bytes this process can still write near `path`, or `sys.maxsize` if this is unknown.

    `file_system` is the type of the file system, as `local_file_system` returns it.
    """
    if not hasattr(os, "statvfs"):
        return sys.maxsize
    try:
        found = os.statvfs(path)
    except OSError:
        return sys.maxsize
    if os.geteuid() != 0:
        return found.f_bavail * found.f_frsize
    kept = min(found.f_blocks // 50, 4_096) if file_system == "ext4" else 0  # reserved even from root, but not reported
    return max(found.f_bfree - kept, 0) * found.f_frsize


def kind_of(path: str) -> str:
    """Return what stands at `path`: `nothing`, `a directory`, `a file`, or another phrase.

    Links are followed. Raises `InvalidInput` for a name that cannot exist, and `PermissionDenied` if this process may
    not find out what is there.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return "a link to nothing" if os.path.islink(path) else "nothing"
    except OSError as error:
        if error.errno in _NO_NAMES:
            raise InvalidInput("the location is below a file, in a loop of links, or has too long a name") from None
        raise os_error(error) from None
    return "a directory" if stat.S_ISDIR(mode) else "a file" if stat.S_ISREG(mode) else "a pipe, socket or device"


def exists(path: str) -> bool:
    """Return whether something has the name `path`. Raises `PermissionDenied` if this process may not find that out."""
    return kind_of(path) != "nothing"


def expanded(path: str | os.PathLike[str]) -> str:
    """Replace a leading `~` or `~user` of a path with the home directory.

    Raises `InvalidInput` if the home directory is unknown.
    """
    found = os.path.expanduser(os.fspath(path))
    if found.startswith("~"):
        raise InvalidInput(
            "there is no home directory for the ~ in the path; write ./ before a name that begins with ~"
        )
    return found


def make_directory(path: str) -> None:
    """Create `path` and missing parent directories, accessible only to the owner, and sync their names to disk."""
    missing: list[str] = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path) or "."
    for directory in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(directory, DIRECTORY_MODE)
        sync_directory(os.path.dirname(directory) or ".")


def make_file(path: str) -> None:
    """Create an empty file that only its owner can access, and sync its name to disk. Keeps an existing file."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | CLOSE_ON_EXEC, FILE_MODE))
        sync_directory(os.path.dirname(path) or ".")


def sync_directory(path: str) -> None:
    """Sync the file names in a directory to disk. Windows cannot do this, so nothing happens there."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | CLOSE_ON_EXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def local_file_system(path: str) -> str:
    """Return the type of the file system that contains `path`, or an empty string if it is unknown.

    Raises `InvalidInput` for a network file system.
    """
    if not sys.platform.startswith("linux"):
        return ""
    device, found = os.stat(path).st_dev, ""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            fields, _, tail = line.partition(" - ")
            if fields.split(" ", 3)[2] == f"{os.major(device)}:{os.minor(device)}":
                found = tail.split(" ", 1)[0]
                break
    if found in _NETWORK:
        raise InvalidInput(
            "the location is on a network file system, where SQLite cannot guarantee durable changes;"
            " use a local disk, or a database server"
        )
    return found


class Scratch:
    """Directory for temporary files, on the same file system as the memories. Not thread-safe.

    `directory` is a file descriptor of the directory.
    """

    def __init__(self, directory: int) -> None:
        self.directory = directory

    def write(self, data: bytes) -> str:
        """Write `data` to a temporary file and return its name. The caller removes the file. Raises OSError."""
        name = self.new_name()
        try:
            with open(os.open(name, _NEW, FILE_MODE, dir_fd=self.directory), "wb") as file:
                file.write(data)
        except OSError:
            self.discard(name)
            raise
        return name

    def new_name(self) -> str:
        """Return a file name that is not in use."""
        return secrets.token_hex(12)

    def discard(self, name: str) -> None:
        """Remove the file `name`."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.directory)

    def clean(self) -> None:
        """Remove all files in the directory, including those of other processes."""
        for name in os.listdir(self.directory):
            self.discard(name)

    def now_ns(self) -> int:
        """Return the current time by the clock of the file system, as its files get it, or 0 if it is unknown."""
        with suppress(OSError):
            os.utime(self.directory)
            status = os.fstat(self.directory)
            return max(status.st_mtime_ns, status.st_ctime_ns)
        return 0


def exchange(name: str, directory: int, other: str, other_directory: int) -> bool:
    """Exchange the names of two files. Returns False if the file system does not support this. Raises OSError.

    `directory` and `other_directory` are file descriptors of the directories of `name` and `other`.
    """
    return _rename(name, directory, other, other_directory, _EXCHANGE)


def rename_if_free(name: str, directory: int, new: str, new_directory: int) -> None:
    """Rename a file. Raises `FileExistsError` if the new name is in use.

    `directory` and `new_directory` are file descriptors of the directories of `name` and `new`.
    """
    if _rename(name, directory, new, new_directory, _NO_REPLACE):
        return
    try:
        os.stat(new, dir_fd=new_directory, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(name, new, src_dir_fd=directory, dst_dir_fd=new_directory)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def _rename(name: str, directory: int, new: str, new_directory: int, flags: int) -> bool:
    call = _renameat2()
    if call is None:
        return False
    if call(directory, os.fsencode(name), new_directory, os.fsencode(new), flags) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code))


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return call
