"""In-memory state of the files of one memory store.

It has the marks that prove which version a file contains, and the paths of files that are not written yet.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from retentive.storage.files.listing import FileListing
from retentive.storage.files.tree import FileKind, FileTree, Found, Mark, mark_of
from retentive.values.text import is_text

_MAX_MARKS = 100_000
MemoryRow: TypeAlias = tuple[str, str, int]
"""Path, version id, and size in bytes of a memory."""


@dataclass(eq=False)
class KnownFiles:
    """State of the files of one store. Threads may share it, because entries are replaced and never modified.

    `unwritten` has the paths whose files could not be written after the commit. `pending` has the paths of the running
    batch. At, above and below each path in these two sets, the database has the current state, and the files are older.
    `folds` is true if the file system ignores case or changes the Unicode form of names.
    """

    tree: FileTree
    folds: bool
    marks: dict[str, tuple[str, Mark]] = field(default_factory=dict)  # path -> version and mark of the file
    unwritten: set[str] = field(default_factory=set)
    pending: frozenset[str] = frozenset()
    unsaved: dict[str, tuple[str, Mark]] = field(default_factory=dict)  # marks that are not yet stored in the database
    _listings: dict[str, tuple[list[MemoryRow], FileListing]] = field(default_factory=dict)
    _no_text: dict[str, Mark] = field(default_factory=dict)  # path -> mark of a file that cannot be a memory

    def note(self, path: str, version: str, found: Found) -> None:
        """Remember that the file at `path` contains `version`, if the mark of the file can prove this later."""
        if found.settled:
            if len(self.marks) >= _MAX_MARKS:
                self.marks.clear()
                self.unsaved.clear()
            self.marks[path] = self.unsaved[path] = (version, found.mark)

    def trusts(self, path: str, version: str, mark: str | None, found: Found) -> bool:
        """Return True if the mark (inode, size, times) of the file `found` proves that it contains `version`.

        The mark of `found` is compared with the mark in this object and with `mark`, the mark in the database.
        """
        if self.marks.get(path) == (version, found.mark):
            return True
        if mark is None or mark_text(found.mark) != mark:
            return False
        self.marks[path] = (version, found.mark)
        return True

    def is_listed(self, under: str, rows: list[MemoryRow]) -> bool:
        """Return True if the files below a path were found to match `rows` and have not changed since then."""
        known = self._listings.get(under)
        return known is not None and known[0] == rows and self.tree.has_listing(under, known[1])

    def keep_listing(
        self, under: str, rows: list[MemoryRow], files: Mapping[str, os.stat_result], listing: FileListing | None
    ) -> None:
        """Remember the listing of the directory at a path, if its files are known to match the memories in `rows`."""
        if listing is None or any(self.marks.get(row[0]) != (row[1], mark_of(files[row[0]])) for row in rows):
            self._listings.pop(under, None)
            return
        kept = self._listings
        if sum(len(others) for others, _ in kept.values()) + listing.size > _MAX_MARKS:
            self._listings = kept = {}
        kept[under] = rows, listing

    def database_wins(self, path: str) -> bool:
        """Return True if the database is newer than the files at a path, because a file is not written yet.

        This may be the file at the path, or a file above or below the path.
        """
        if not self.unwritten and not self.pending:
            return False
        waiting = self.unwritten | self.pending
        return any(one == path or one.startswith(path + "/") or path.startswith(one + "/") for one in waiting)

    def text(self, path: str, found: Found) -> bytes | None:
        """Return the text of a file if it can be a memory, otherwise None.

        The text must be UTF-8 without NUL. A file with a second hard link may belong to another application, so it
        cannot become a memory.
        """
        if found.kind is not FileKind.FILE or found.links > 1 or self._no_text.get(path) == found.mark:
            return None
        data = self.tree.read(path)
        if data is not None and is_text(data):
            return data
        if found.settled:
            self._no_text[path] = found.mark
        return None


def mark_text(mark: Mark) -> str:
    """Return the string form in which the database stores `mark` (inode, size and times of a file)."""
    return ":".join(map(str, mark))
