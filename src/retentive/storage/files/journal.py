"""Journal: records which committed versions have been written to the files, for recovery after a kill.

Each version in the database names a file to write (`numbering.py`). After each sync of the file system, the database
records the version up to which the files are durable. For later versions, the journal records which of them were
written. The journal is the file `journal`, which is never synced. A process that locks this file has locked the whole
directory. After a crash of the system the journal may have lost writes, so it is used only if some process has had the
directory open without interruption since the journal was written (lock file `live`).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from retentive.storage.backoff import wait_until
from retentive.storage.disk import FILE_MODE, os_error

_LAYOUT = struct.Struct("<qqB")


@dataclass(frozen=True, slots=True)
class Journal:
    """Progress of writing files, as version numbers.

    Versions up to `applied` are written, and those up to `synced` are durable. If `busy` is true, a process may have
    committed versions after `applied`.
    """

    applied: int = 0
    synced: int = 0
    busy: bool = True


class LockFile:
    """Lock file of one directory, used by all processes."""

    def __init__(self, path: str, *, read_only: bool = False, directory: int | None = None) -> None:
        mode = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        self._descriptor = os.open(path, mode | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE, dir_fd=directory)

    def acquire(self, *, shared: bool = False) -> None:
        """Acquire the lock, or change it between shared and exclusive.

        Raises `Unavailable` if other processes hold it too long.
        """
        wait_until(partial(self.try_to_acquire, shared=shared), "another process holds the memory store")

    def try_to_acquire(self, *, shared: bool = False) -> bool:
        """Acquire the lock if no other process holds it. Returns True on success."""
        try:
            fcntl.flock(self._descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise os_error(error) from None
        return True

    def release(self) -> None:
        """Release the lock."""
        with suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    @contextmanager
    def held(self, *, shared: bool = False) -> Iterator[None]:
        """Context that holds the lock. Raises `Unavailable` if another process does not release it in time."""
        self.acquire(shared=shared)
        try:
            yield
        finally:
            self.release()

    def close(self) -> None:
        """Close the file, which also releases the lock."""
        with suppress(OSError):
            os.close(self._descriptor)


class JournalFile(LockFile):
    """The file with the journal of a directory. Its lock guards the database and the files."""

    name = "journal"

    def read(self) -> Journal:
        """Read the journal. Raises OSError."""
        data = os.pread(self._descriptor, _LAYOUT.size, 0)
        if len(data) < _LAYOUT.size:
            return Journal()
        applied, synced, busy = _LAYOUT.unpack(data)
        return Journal(applied, synced, bool(busy))

    def write(self, journal: Journal) -> None:
        """Replace the journal. Raises OSError."""
        data = _LAYOUT.pack(journal.applied, journal.synced, journal.busy)
        if os.pwrite(self._descriptor, data, 0) != len(data):
            raise OSError("only a part of the journal was written")


def sync_file_system(descriptor: int) -> None:
    """Flush the file system of `descriptor` to disk (`syncfs`) on Linux. On other systems, flush all file systems.

    Raises OSError.
    """
    if not sys.platform.startswith("linux"):
        os.sync()
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
