"""Files of a synchronised directory, as a scan found them."""

from __future__ import annotations

from collections.abc import Mapping

from retentive.frozen import dataclass


class FileChanged(Exception):
    """Raised if another program changes a file during a round. The next round reads the file again."""

    def __str__(self) -> str:
        return "another program changed the file, or another file has its name"


@dataclass(frozen=True, slots=True)
class Stamp:
    """File attributes that change when the content of the file changes. They are compared without reading the file."""

    size_bytes: int
    mtime_ns: int
    inode: int


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


@dataclass(frozen=True, slots=True)
class FileStamps:
    """Sizes, times and inodes of all files in a directory, and its ignore patterns.

    `ignored` contains the ignore patterns. `stamps` maps the relative name of each file to its size, time and inode. It
    maps the name of each unreadable directory to None.
    """

    ignored: tuple[str, ...]
    stamps: Mapping[str, Stamp | None]
