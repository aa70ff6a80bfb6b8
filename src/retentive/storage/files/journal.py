"""Journal of a directory. After a process was killed, the journal shows which versions are in the files.

Versions in the database are numbered (`numbering.py`). After each sync of the file system, the database records the
number of the version up to which the files are durable. The journal records the number of the version up to which the
files are written. These files may not be durable yet.

The journal is the file `journal`. It is never synced, so it may be outdated after a crash of the system. The journal
is not used if, at any time after its last write, no process had the directory open. The lock file `live` shows whether
another process has the directory open. The journal file is also the lock for the whole directory.
"""

from __future__ import annotations

import os
import struct
import sys

from retentive.frozen import dataclass
from retentive.storage.lock_file import LockFile

_LAYOUT = struct.Struct("<qqB")


@dataclass(frozen=True, slots=True)
class Journal:
    """Progress of writing files, as numbers of versions.

    Versions up to `applied` are written to the files. Versions up to `synced` are durable in the files. If `busy` is
    true, a process may have committed versions after `applied`.
    """

    applied: int = 0
    synced: int = 0
    busy: bool = True


class JournalFile(LockFile):
    """Journal file of a directory. Its lock protects the database and the files."""

    name = "journal"

    def read(self) -> Journal:
        """Read the journal. Raises OSError."""
        data = os.pread(self.descriptor, _LAYOUT.size, 0)
        if len(data) < _LAYOUT.size:
            return Journal()
        applied, synced, busy = _LAYOUT.unpack(data)
        return Journal(applied, synced, bool(busy))

    def write(self, journal: Journal) -> None:
        """Replace the journal. Raises OSError."""
        data = _LAYOUT.pack(journal.applied, journal.synced, journal.busy)
        if os.pwrite(self.descriptor, data, 0) != len(data):
            raise OSError("only a part of the journal was written")


def sync_file_system(descriptor: int) -> None:
    """Sync a file system to disk. `descriptor` is an open file on this file system. Raises OSError.

    Only Linux can sync a single file system (`syncfs`). On other systems, all file systems are synced.
    """
    if not sys.platform.startswith("linux"):
        os.sync()
        return
    import ctypes  # noqa: PLC0415 - not needed for reads, and slow to import

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
