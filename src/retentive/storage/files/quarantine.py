"""Quarantine of tampered files of encrypted memory stores, and restoration of the recorded text.

Nobody edits an encrypted file, so a file that differs was tampered with or damaged. It is moved to
`.retentive/quarantine`, never deleted, and the last recorded text is written in its place.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress

from retentive.errors import RetentiveError
from retentive.storage.files.exchange import rename_if_free
from retentive.storage.files.folders import PRIVATE
from retentive.storage.files.tree import FileTree, Kind
from retentive.values.paths import visible

PLACE = (PRIVATE, "quarantine")
_NAME_BYTES = 200  # of the old name; with the time prefix it fits NAME_MAX


class StoreTree(FileTree):
    """File tree of one memory store, with a quarantine for tampered files."""

    def repair(self, path: str, data: bytes) -> None:
        """Quarantine the entry at a path and write the recorded text; logs a warning.

        On failure the next comparison of the file tries again.
        """
        with suppress(OSError, RetentiveError):
            if self.state(path).kind is Kind.DIRECTORY:
                self.prune(path)
            with suppress(FileNotFoundError):  # the file or a directory above it is missing
                self._quarantine(path)
            self.put(path, data, ())
        _report(path)

    def _quarantine(self, path: str) -> None:
        """Quarantine the entry at a path, or the entry in place of a directory above it. Raises OSError."""
        names = self._names(path)
        for end in range(len(self._parts) + 1, len(names) + 1):
            *above, name = names[:end]
            with self._opened(above) as directory:
                found = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
                if end < len(names) and stat.S_ISDIR(found):
                    continue
                with self._opened(PLACE, make=True) as quarantine:
                    rename_if_free(name, directory, _new_name(name), quarantine)
            return


def count_quarantined(base: int) -> int:
    """Number of entries in quarantine below the directory open as `base`."""
    try:
        descriptor = os.open("/".join(PLACE), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=base)
    except OSError:
        return 0
    try:
        return len(os.listdir(descriptor))
    finally:
        os.close(descriptor)


def _new_name(name: str) -> str:
    now_ns = time.time_ns()
    at = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_ns // 1_000_000_000))
    return f"{at}.{now_ns % 1_000_000_000:09d}-{os.fsencode(name)[:_NAME_BYTES].decode('utf-8', 'ignore')}"


def _report(path: str) -> None:
    import logging  # noqa: PLC0415 - rarely needed, and not free to import

    message = "a file of an encrypted memory store was altered or removed; it is restored, and was quarantined: %s"
    logging.getLogger("retentive").warning(message, visible(path))
