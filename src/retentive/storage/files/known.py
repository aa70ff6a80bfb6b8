"""In-memory state of the files of one memory store: trusted marks, and paths of files that are not written yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from retentive.storage.files.tree import FileKind, FileTree, Found, Mark
from retentive.values.text import is_text

_MAX_MARKS = 100_000


@dataclass
class KnownFiles:
    """State of the files of one store. Threads may share it; entries are replaced, never modified.

    `unwritten` contains the paths whose file could not be written after the commit, and `pending` the paths of the
    running batch. At, above and below these paths, the records in the database are valid, not the files. If `folds` is
    true, the file system ignores case or changes the Unicode form of names.
    """

    tree: FileTree
    folds: bool
    marks: dict[str, tuple[str, Mark]] = field(default_factory=dict)  # path -> version and mark of the file
    unwritten: set[str] = field(default_factory=set)
    pending: frozenset[str] = frozenset()
    unsaved: dict[str, tuple[str, Mark]] = field(default_factory=dict)  # marks that are not yet stored in the database
    _no_text: dict[str, Mark] = field(default_factory=dict)  # path -> mark of a file that is not the text of a memory

    def note(self, path: str, version: str, found: Found) -> None:
        """Remember that the file at a path contains this version, if the mark of the file can be trusted."""
        if found.settled:
            if len(self.marks) >= _MAX_MARKS:
                self.marks.clear()
                self.unsaved.clear()
            self.marks[path] = self.unsaved[path] = (version, found.mark)

    def trusts(self, path: str, version: str, mark: str | None, found: Found) -> bool:
        """Return whether the mark of the file proves that it contains this version.

        `mark` is the mark stored in the database.
        """
        if self.marks.get(path) == (version, found.mark):
            return True
        if mark is None or mark_text(found.mark) != mark:
            return False
        self.marks[path] = (version, found.mark)
        return True

    def database_wins(self, path: str) -> bool:
        """Return whether a file at, above or below the path is still to be written."""
        waiting = self.unwritten | self.pending
        return bool(waiting) and any(
            one == path or one.startswith(path + "/") or path.startswith(one + "/") for one in waiting
        )

    def text(self, path: str, found: Found) -> bytes | None:
        """Text of a file that can be a memory, UTF-8 without NUL; None for any other file.

        A file with a second hard link may belong to another application, so it is read only to compare it with its
        record.
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
    """Encode a mark as a string for the database."""
    return ":".join(map(str, mark))
