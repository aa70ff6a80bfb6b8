"""Files of sealed memory stores that are not as they were written: kept aside, and written again.

No person edits a sealed file, so one that differs is no edit but damage. What stands in its place is moved to
`.retentive/damaged`, never removed, and the last text that was recorded takes the name again.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress

from retentive.errors import RetentiveError
from retentive.storage.files.exchange import rename_if_free
from retentive.storage.files.tree import FileTree, Kind
from retentive.values.paths import visible

PLACE = (".retentive", "damaged")
_NAME_BYTES = 200  # of the old name; with the time before it within NAME_MAX


class MendedTree(FileTree):
    """The files of one memory store, where what does not belong there can be set aside."""

    def mend(self, path: str, data: bytes) -> None:
        """Write a recorded text again, after moving what stands in its place aside; reported to the log.

        If that is not possible now, the next look tries again.
        """
        with suppress(OSError, RetentiveError):
            if self.state(path).kind is Kind.DIRECTORY:
                self.prune(path)
            with suppress(FileNotFoundError):  # a directory above it is gone too, or the file went while we looked
                self._set_aside(path)
            self.put(path, data, ())
        _report(path)

    def _set_aside(self, path: str) -> None:
        """Move away what stands at a path, or where a directory above it should be. Raises OSError."""
        names = self._names(path)
        for end in range(len(self._parts) + 1, len(names) + 1):
            *above, name = names[:end]
            with self._opened(above) as directory:
                found = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
                if end < len(names) and stat.S_ISDIR(found):
                    continue
                with self._opened(PLACE, make=True) as damaged:
                    rename_if_free(name, directory, _new_name(name), damaged)
            return


def count_damaged(base: int) -> int:
    """How many things were set aside below the directory open as `base`."""
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

    said = "a file of a sealed memory store was altered or removed; it is written again, what stood there is kept: %s"
    logging.getLogger("retentive").warning(said, visible(path))
