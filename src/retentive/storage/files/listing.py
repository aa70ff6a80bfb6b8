"""Saved directory listings. They show quickly whether any entry of a directory or its subdirectories has changed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter

from retentive.storage.files.directories import OpenedDirectory

_mark = attrgetter("st_mode", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")


@dataclass(slots=True, eq=False)
class FileListing:
    """Entries of one directory: their names in the order of the file system, and their marks.

    A mark has the mode, inode, size and times of an entry. `inner` has the listings of the subdirectories.
    """

    names: list[str]
    marks: list[tuple[int, ...]]
    inner: list[tuple[str, FileListing]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of entries, including those of the subdirectories."""
        return len(self.names) + sum(listing.size for _, listing in self.inner)


def list_directory(directory: int) -> tuple[FileListing, list[os.stat_result | None]]:
    """List a directory without its subdirectories. Returns the listing and the stat result of each entry.

    `directory` is a file descriptor. The stat result is None if the entry was removed meanwhile.
    """
    names = os.listdir(directory)
    found = [_state(name, directory) for name in names]
    return FileListing(names, [() if status is None else _mark(status) for status in found]), found


def _state(name: str, directory: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_unchanged(listing: FileListing, directory: int) -> bool:
    """Return True if a directory and its subdirectories still have exactly the entries of `listing`. Raises OSError.

    `directory` is a file descriptor. All loops run in C. For 1,000 files, this takes a third of the time of a scan.
    """
    if os.listdir(directory) != listing.names:
        return False
    state = partial(os.stat, dir_fd=directory, follow_symlinks=False)
    if list(map(_mark, map(state, listing.names))) != listing.marks:
        return False
    for name, inner in listing.inner:
        with OpenedDirectory(directory, (name,)) as descriptor:
            if not is_unchanged(inner, descriptor):
                return False
    return True
