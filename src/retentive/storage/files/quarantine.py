"""Quarantine of tampered files of encrypted memory stores, and restoration of the recorded text.

No person edits an encrypted file, so one that differs was tampered with or damaged. What is in its place is moved to
`.retentive/quarantine`, never removed, and the last recorded text takes the name again.
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
_NAME_BYTES = 200  # of the old name; with the time before it within NAME_MAX


class StoreTree(FileTree):
    """The files of one memory store, with a quarantine for what does not belong there."""

    def repair(self, path: str, data: bytes) -> None:
        """Write a recorded text again, after moving what is in its place to quarantine; reported to the log.

        If that is not possible now, the next look tries again.
        """
        with suppress(OSError, RetentiveError):
            if self.state(path).kind is Kind.DIRECTORY:
                self.prune(path)
            with suppress(FileNotFoundError):  # a directory above it is gone too, or the file went while we looked
                self._quarantine(path)
            self.put(path, data, ())
        _report(path)

    def _quarantine(self, path: str) -> None:
        """Move away what is at a path, or where a directory above it should be. Raises OSError."""
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
    """The number of entries in quarantine below the directory open as `base`."""
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
