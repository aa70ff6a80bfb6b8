"""Files of a synchronised directory, as a scan found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class FileChanged(Exception):
    """Error: a file changed during the round. The next round reads it again."""

    def __str__(self) -> str:
        return "another program changed the file, or another file has its name"


@dataclass(frozen=True, slots=True)
class Stamp:
    """Attributes of a file that change when its content changes. They are compared without reading the file."""

    size_bytes: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class LocalFile:
    """File of the directory.

    `name` is its path in the directory as the file system spells it, perhaps not in Unicode NFC.
    """

    name: str
    sha256: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class FolderScan:
    """Result of a scan.

    `files` maps the path of a memory to its file. `skipped` maps each path that is left out to the reason. `waiting`
    contains paths that cannot be read or are still being written. Files below a skipped or waiting path are unknown:
    they do not count as deleted.
    """

    files: Mapping[str, LocalFile]
    skipped: Mapping[str, str]
    waiting: frozenset[str]


@dataclass(frozen=True, slots=True)
class FileStamps:
    """Stamps of all files in a directory, by name, and the ignore patterns.

    A directory that cannot be read has the stamp None.
    """

    ignored: tuple[str, ...]
    stamps: Mapping[str, Stamp | None]
