"""Read-only access to the memory stores in a directory: writes, creates and recovers nothing.

Used to examine a directory that may be damaged, and to find external edits without recording them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from retentive.errors import NotFound, Unavailable
from retentive.storage.capabilities import PlainFiles
from retentive.storage.contract import StoreInfo
from retentive.storage.disk import os_error
from retentive.storage.files.layout import PRIVATE, check_format, parts_of
from retentive.storage.files.tree import count_quarantined
from retentive.storage.findings import Finding
from retentive.storage.sqlite.read_only import ReadOnlyBackend


class ReadOnlyDirectory(ReadOnlyBackend, PlainFiles):
    """Memory stores below the directory `root`, read-only."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        private = os.path.join(self.root, PRIVATE)
        try:
            check_format(private)
        except FileNotFoundError:
            raise NotFound("there is no database at the place") from None
        except OSError as error:
            raise os_error(error) from None
        super().__init__(os.path.join(private, "memory.db"))
        try:
            self._base = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            self._connection.close()
            raise Unavailable("the directory of the memories cannot be opened") from None

    def directory_of(self, store: StoreInfo) -> str:
        return os.path.join(self.root, *parts_of(store))

    def quarantined(self) -> int:
        return count_quarantined(self._base)

    def check(self) -> Iterator[Finding]:
        from retentive.storage.files.check import examine_files  # noqa: PLC0415 - POSIX only

        yield from super().check()
        with self._lock:
            yield from examine_files(self._connection, self._base)

    def close(self) -> None:
        super().close()
        if self._base >= 0:
            os.close(self._base)
            self._base = -1
