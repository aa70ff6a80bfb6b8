"""A memory store kept as plain files, for reading: the records, as long as the files agree with them."""

from __future__ import annotations

from collections.abc import Iterator

from retentive.storage.contract import Entry, Memory
from retentive.storage.files.comparison import Comparison
from retentive.storage.files.known import KnownFiles
from retentive.storage.overlay import Overlay
from retentive.storage.sql.snapshot import SqlSnapshot


class ExternalEdit(Exception):
    """A file is not as recorded. Raised while reading; the read is then run again where the edit can be recorded."""


class DirectorySnapshot(Overlay):
    """A snapshot that compares the files it is asked about. Raises `ExternalEdit` where they differ."""

    def __init__(self, records: SqlSnapshot, known: KnownFiles) -> None:
        super().__init__(records)
        self._comparison = Comparison(records, known, _raise)

    def get(self, path: str) -> Entry:
        return self._comparison.get(path)

    def memories(self, under: str) -> Iterator[Memory]:
        self._comparison.rows_checked(under)
        return super().memories(under)

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return iter([(row[0], row[2]) for row in self._comparison.rows_checked(under)])


def _raise(path: str) -> None:
    raise ExternalEdit(path)
