"""Journal: records which committed versions have been written to the files, for recovery after a kill.

Each version in the database names a file to write (`numbering.py`). After each sync of the file system, the database
records the version up to which the files are durable. For later versions, the journal records which of them were
written. The journal is the file `journal`, which is never synced. A process that locks this file has locked the whole
directory. After a crash of the system the journal may have lost writes. It is therefore used only if the directory has
always been open in at least one process since the journal was written (lock file `live`).
"""

from __future__ import annotations

import os
import struct
import sys
from dataclasses import dataclass

from retentive.storage.lock_file import LockFile

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


class JournalFile(LockFile):
    """The file with the journal of a directory. Its lock guards the database and the files."""

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
    """Flush the file system of `descriptor` to disk (`syncfs`) on Linux. On other systems, flush all file systems.

    Raises OSError.
    """
    if not sys.platform.startswith("linux"):
        os.sync()
        return
    import ctypes  # noqa: PLC0415 - not needed for reads, and slow to import

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
