"""Temporary files, and two ways to rename a file without overwriting another file.

`exchange` swaps two file names. `rename_if_free` renames a file to a name that is not in use. On Linux both use the
system call `renameat2`, which is not in Python's standard library. A plain rename to the name of an existing file would
make ext4 flush the new file at once (`auto_da_alloc`). This flush takes 3 ms and has no benefit, because the text is
already durable in the database.

To replace the text of a memory's file, the new text is written to a temporary file, and the two names are exchanged.
The replaced file is checked once more before it is removed.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from retentive.storage.disk import FILE_MODE

_NO_REPLACE, _EXCHANGE = 1, 2  # values from linux/fs.h
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
_TRIES, _CHANGES = 5, 8
_TICK_NS = 20_000_000  # two ticks of the slowest kernel clock; Git has the same rule
NEVER_NS = 1 << 62  # no timestamp is old enough
_ODD_NS = 1_700_000_001_999_999_999  # any coarser file system stores less than this time


class Scratch:
    """Directory for temporary files, on the same file system as the memories. Not thread-safe.

    `directory` is a file descriptor of the directory. `tick_ns` is the time after which each change of a file of this
    file system shows in its timestamps.
    """

    def __init__(self, directory: int, tick_ns: int | None = None) -> None:
        self.directory = directory
        self._made = 0
        self.tick_ns = self._learned_tick_ns() if tick_ns is None else tick_ns

    def write(self, data: bytes) -> str:
        """Write `data` to a temporary file and return its name. The caller removes the file. Raises OSError."""
        name = self.new_name()
        descriptor = os.open(name, _NEW, FILE_MODE, dir_fd=self.directory)
        try:
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            finally:
                os.close(descriptor)
        except OSError:
            self.discard(name)
            raise
        return name

    def new_name(self) -> str:
        """Return a file name that is not in use."""
        self._made += 1
        return f"{os.getpid()}-{id(self):x}-{self._made}"

    def discard(self, name: str) -> None:
        """Remove the file `name`."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.directory)

    def clean(self) -> None:
        """Remove all files in the directory, including those of other processes."""
        for name in os.listdir(self.directory):
            self.discard(name)

    def close(self) -> None:
        """Close the directory."""
        with suppress(OSError):
            os.close(self.directory)

    def _learned_tick_ns(self) -> int:
        """Try out which times the file system stores. If this is not possible, no timestamp is ever trusted.

        ext4 with inodes of 128 bytes and HFS+ store whole seconds, FAT stores every second one.
        """
        name = self.new_name()
        try:
            descriptor = os.open(name, _NEW, FILE_MODE, dir_fd=self.directory)
            try:
                status = os.fstat(descriptor)
                behind_ns = time.time_ns() - max(status.st_ctime_ns, status.st_mtime_ns)  # the clock may be a server's
                if _has_fine_times(descriptor):
                    return -NEVER_NS
                os.utime(descriptor, ns=(_ODD_NS, _ODD_NS))
                return _TICK_NS + max(_ODD_NS - os.fstat(descriptor).st_mtime_ns, behind_ns)
            finally:
                os.close(descriptor)
                self.discard(name)
        except OSError:
            return NEVER_NS


def _has_fine_times(descriptor: int) -> bool:
    """Return True if each change of a file after a `stat` gets a new timestamp. Leaves one byte in the file.

    Most file systems do this since Linux 6.13 ("multigrain timestamps"). On them, a change after a `stat` gets the
    exact time; any other change gets the time of the last clock tick. To test the file system, this function makes
    several changes within one clock tick and compares the timestamps.
    """
    for _ in range(_TRIES):
        start, times = time.monotonic_ns(), set()
        for _ in range(_CHANGES):
            os.pwrite(descriptor, b"x", 0)
            times.add(os.fstat(descriptor).st_ctime_ns)
        if time.monotonic_ns() - start < 1_000_000:  # the shortest tick of a Linux kernel
            break
        times.clear()  # interrupted: the clock may have ticked between the changes
    return len(times) == _CHANGES


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
    import ctypes  # noqa: PLC0415 - not needed for reads, and slow to import

    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code))


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    import ctypes  # noqa: PLC0415 - as above

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return call
