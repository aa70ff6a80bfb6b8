"""Files on their way to a name, and files that lost theirs.

A new text is written to a file here, which is then swapped with the old one; the old file is kept as a spare, to be
overwritten by the next text. Making and removing a file for every edit instead costs up to 0.5 ms once some thousand
were removed within a minute, since ext4 steps over every inode that was freed recently. A spare still holds an old text
of its store, as history does; `clean` removes them.
"""

from __future__ import annotations

import bisect
import fcntl
import os
import signal
import stat
import sys
from contextlib import suppress

from commonplace.backends.disk import FILE_MODE

_MAX_SPARES = 16
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Scratch:
    """A private directory, open as `directory`, on the file system of the memories. For one thread at a time."""

    def __init__(self, directory: int) -> None:
        self.directory = directory
        self._made = 0
        self._spares: list[tuple[int, str]] = []  # size and name, smallest first

    def write(self, data: bytes) -> str:
        """The name of a file that holds `data`; to be discarded by the caller, whatever it is then. Raises OSError."""
        name, descriptor, size = self._open(len(data))
        try:
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                if size > len(data):
                    os.ftruncate(descriptor, len(data))
            finally:
                os.close(descriptor)
        except OSError:
            self.discard(name)
            raise
        return name

    def new_name(self) -> str:
        """A name nothing here has."""
        self._made += 1
        return f"{os.getpid()}-{id(self):x}-{self._made}"

    def discard(self, name: str) -> None:
        """Keep the file as a spare if nobody else can have a use for it, else remove it. A missing one is no error."""
        with suppress(FileNotFoundError):
            size = self._private_size(name) if len(self._spares) < _MAX_SPARES else None
            if size is None:
                os.unlink(name, dir_fd=self.directory)
            else:
                bisect.insort(self._spares, (size, name))

    def forget(self) -> None:
        """In a forked child: the spares are the parent's."""
        self._spares = []

    def clean(self) -> None:
        """Remove everything, also what others left here."""
        self._spares = []
        for name in os.listdir(self.directory):
            os.unlink(name, dir_fd=self.directory)

    def _open(self, size: int) -> tuple[str, int, int]:
        """Name, descriptor and size of a file to overwrite; of a spare that needs no cutting off, if there is one."""
        while self._spares:
            found, name = self._spares.pop(max(bisect.bisect_right(self._spares, (size, "~")) - 1, 0))
            with suppress(FileNotFoundError):
                return name, os.open(name, _OLD, dir_fd=self.directory), found
        name = self.new_name()
        return name, os.open(name, _NEW, FILE_MODE, dir_fd=self.directory), 0

    def _private_size(self, name: str) -> int | None:
        """The size of a file that is ours alone: no second name, and nobody has it open. None if it is not."""
        if not sys.platform.startswith("linux"):  # only Linux tells who has a file open
            return None
        try:
            descriptor = os.open(name, _OLD, dir_fd=self.directory)
        except FileNotFoundError:
            raise
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            private = stat.S_IMODE(status.st_mode) == FILE_MODE and status.st_uid == os.geteuid()
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or not private:
                return None
            # A lease is granted only if no other descriptor of the file exists. Should somebody open it while we hold
            # the lease, the kernel tells us by a signal; by this one, which does nothing, instead of one that kills.
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError:
            return None
        else:
            return status.st_size
        finally:
            os.close(descriptor)
