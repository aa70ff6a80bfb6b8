"""Between a commit and its files: what still has to be written, and by whom, whatever was killed in between.

The versions of a commit are its intent: they name the paths whose files must follow (`intents.py`). The database notes
in batches, after the file system was synced, up to which version the files are durable. For those after it a journal
says which were carried out. It is in the lock file, is never synced, and is believed only while some process has held
the directory open without a break (`live`): after that, files may have lost what was written to them.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass

from retentive.errors import Unavailable
from retentive.storage.backoff import lock_backoff
from retentive.storage.disk import FILE_MODE, os_error

_LAYOUT = struct.Struct("<qqB")


@dataclass(frozen=True, slots=True)
class Journal:
    """Numbers of versions: all up to `applied` are in the files, all up to `synced` are durable there too.

    `busy`: somebody may have committed more than was applied.
    """

    applied: int = 0
    synced: int = 0
    busy: bool = True


class LockFile:
    """The lock over database and files of one directory, held across processes, with the journal in it."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)

    def acquire(self) -> None:
        """Take the lock. Raises `Unavailable` if another process does not let go of it."""
        _wait(self._descriptor, fcntl.LOCK_EX)

    def release(self) -> None:
        """Let others have the lock."""
        with suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def read(self) -> Journal:
        """The journal. Raises OSError."""
        data = os.pread(self._descriptor, _LAYOUT.size, 0)
        if len(data) < _LAYOUT.size:
            return Journal()
        applied, synced, busy = _LAYOUT.unpack(data)
        return Journal(applied, synced, bool(busy))

    def write(self, journal: Journal) -> None:
        """Replace the journal. Raises OSError."""
        data = _LAYOUT.pack(journal.applied, journal.synced, journal.busy)
        if os.pwrite(self._descriptor, data, 0) != len(data):
            raise OSError("short write")

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            os.close(self._descriptor)


class LiveFile:
    """Tells whether any other process has the directory open."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        self.alone = _try_lock(self._descriptor, fcntl.LOCK_EX)
        if not self.alone:
            _wait(self._descriptor, fcntl.LOCK_SH)  # for one that is alone, until it has finished its recovery

    def share(self) -> None:
        """After recovery: let others in."""
        _wait(self._descriptor, fcntl.LOCK_SH)

    def close(self) -> None:
        """Tell the others that this process is gone."""
        with suppress(OSError):
            os.close(self._descriptor)


def sync_file_system(descriptor: int) -> None:
    """Flush to disk the file system that contains `descriptor` on Linux (`syncfs`), elsewhere every file system.

    Raises OSError.
    """
    if not sys.platform.startswith("linux"):
        os.sync()
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _wait(descriptor: int, operation: int) -> None:
    """Take a lock. Raises `Unavailable` if another process does not let go of it."""
    if _try_lock(descriptor, operation):
        return
    backoff = lock_backoff()
    while not _try_lock(descriptor, operation):
        if not backoff.wait():
            raise Unavailable("another process holds the memory store")


def _try_lock(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise os_error(error) from None
    return True
