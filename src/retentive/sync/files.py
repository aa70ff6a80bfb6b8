"""Files of a synchronised directory, as a scan found them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from retentive.values.paths import is_editor_file

COARSE_TICK_NS, FINE_TICK_NS = 2_000_000_000, 20_000_000
"""Longest tick of a file system whose times are whole seconds (ext4 with small inodes, FAT), and of all others."""


class FileChanged(Exception):
    """Raised if another program changes a file during a round. The next round reads the file again."""

    def __str__(self) -> str:
        return "another program changed the file, or another file has its name"


@dataclass(frozen=True, slots=True)
class Stamp:
    """File attributes that change when the content of the file changes. They are compared without reading the file.

    A program can set `mtime_ns` back, but not `ctime_ns`.
    """

    size_bytes: int
    mtime_ns: int
    inode: int
    ctime_ns: int = 0

    def if_certain(self) -> Stamp:
        """Return this stamp, or for a file that changed within the last tick, one that equals no other.

        Within one tick, the next change of the file could get the same times.
        """
        is_coarse = self.mtime_ns % 1_000_000_000 == self.ctime_ns % 1_000_000_000 == 0
        age_ns = time.time_ns() - max(self.mtime_ns, self.ctime_ns)
        is_certain = age_ns > (COARSE_TICK_NS if is_coarse else FINE_TICK_NS)
        return self if is_certain else replace(self, ctime_ns=-time.time_ns())


@dataclass(frozen=True, slots=True)
class LocalFile:
    """File of the synchronised directory.

    `name` is the path of the file, relative to the directory. It is spelled as in the file system, so it is not
    always in Unicode NFC. `sha256` is the hash of the content.
    """

    name: str
    sha256: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class FolderScan:
    """Result of a scan of the synchronised directory.

    `files` maps memory paths to the corresponding files. `skipped` contains the paths that are not synchronised, each
    with the reason. `waiting` contains paths that cannot be read or are still being written. Files below a skipped or
    waiting path do not count as deleted, because the scan may not have found them.
    """

    files: Mapping[str, LocalFile]
    skipped: Mapping[str, str]
    waiting: frozenset[str]

    def without_editor_files(self, known: Collection[str]) -> FolderScan:
        """Leave out backup and temporary files of editors. Paths in `known` are kept: a command created them."""

        def is_kept(path: str) -> bool:
            return path in known or not is_editor_file(path.rpartition("/")[2])

        return FolderScan(
            {path: file for path, file in self.files.items() if is_kept(path)},
            {path: why for path, why in self.skipped.items() if is_kept(path)},
            frozenset(filter(is_kept, self.waiting)),
        )
