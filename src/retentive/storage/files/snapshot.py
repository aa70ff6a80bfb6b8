"""Snapshot of a memory store in a directory: its records, after comparing the files."""

from __future__ import annotations

from collections.abc import Iterator

from retentive.storage.contract import Entry, Memory
from retentive.storage.files.comparison import Comparison
from retentive.storage.files.known import KnownFiles
from retentive.storage.overlay import Overlay
from retentive.storage.sql.snapshot import SqlSnapshot


class ExternalEdit(Exception):
    """A file differs from its record. The read is then repeated in a transaction that can record the edit."""


class DirectorySnapshot(Overlay):
    """Snapshot that compares the files of each query. Raises `ExternalEdit` if they differ."""

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
