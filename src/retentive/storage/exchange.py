"""Temporary files, and two ways to rename a file without overwriting another file.

`exchange` swaps two file names. `rename_if_free` renames a file to a name that is not in use. On Linux both use the
system call `renameat2`, which is not in Python's standard library. A plain rename to the name of an existing file would
make ext4 flush the new file at once (`auto_da_alloc`). This flush takes 3 ms and has no benefit, because the text is
already durable in the database.

To replace the text of a memory's file, the new text is written to a temporary file, and the two names are exchanged.
The replaced file is checked once more before it is removed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from retentive.storage.disk import FILE_MODE

_NO_REPLACE, _EXCHANGE = 1, 2  # values from linux/fs.h
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})


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
