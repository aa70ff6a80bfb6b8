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
    """Attributes of a file that change with it, read without its content."""

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
    """Files by the paths of their memories, and why others are left out. `waiting` are being written, or not readable.

    Files below an ignored path count as unknown, not as deleted.
    """

    files: Mapping[str, LocalFile]
    skipped: Mapping[str, str]
    waiting: frozenset[str]


@dataclass(frozen=True, slots=True)
class FileStamps:
    """Stamps of the files of a directory by name, None for those that cannot be seen, and the patterns ignored."""

    ignored: tuple[str, ...]
    stamps: Mapping[str, Stamp | None]
