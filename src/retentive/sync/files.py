"""Files of a synchronised directory as a scan finds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class FileChanged(Exception):
    """A file changed during the round. The next round reads it again."""

    def __str__(self) -> str:
        return "another program changed the file, or something is in its way"


@dataclass(frozen=True, slots=True)
class Stamp:
    """File attributes that show if a file changed, without reading its content."""

    size_bytes: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file of the directory. `name` is its relative name on disk, which may not be in NFC."""

    name: str
    sha256: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class FolderScan:
    """Result of a scan. `files` are by path of their memory.

    `skipped` gives the reason for each path that is left out. `waiting` are paths that are still being written or are
    not readable. Files below a skipped or waiting path count as unknown, not as deleted.
    """

    files: Mapping[str, LocalFile]
    skipped: Mapping[str, str]
    waiting: frozenset[str]


@dataclass(frozen=True, slots=True)
class FileStamps:
    """Stamps of the files in a directory by name (None for an unreadable directory), and the ignore patterns."""

    ignored: tuple[str, ...]
    stamps: Mapping[str, Stamp | None]
