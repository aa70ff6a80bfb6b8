"""The process's knowledge of the files of one memory store: which can be trusted unread, which are behind."""

from __future__ import annotations

from retentive.storage.files.quarantine import StoreTree
from retentive.storage.files.tree import Found, Kind, Mark
from retentive.values.text import is_text

_MAX_MARKS = 100_000


class KnownFiles:
    """Knowledge of the files of one store. Shared by threads; every entry is replaced whole.

    `unwritten` are paths whose file could not be written after the commit, `pending` those of the batch that runs now:
    at, above and below them the database wins. `folds`: the file system folds case or form.
    """

    def __init__(self, tree: StoreTree, *, folds: bool) -> None:
        self.tree = tree
        self.folds = folds
        self.marks: dict[str, tuple[str, Mark]] = {}  # path -> the version its file holds, and the file's mark
        self.unwritten: set[str] = set()
        self.pending: frozenset[str] = frozenset()
        self.unsaved: dict[str, tuple[str, Mark]] = {}  # marks that are not yet kept with their memories
        self._no_text: dict[str, Mark] = {}  # path -> mark of a file with no text a memory could have

    def note(self, path: str, version: str, found: Found) -> None:
        """Remember that the file holds this version, if its mark can be trusted from now on."""
        if found.settled:
            if len(self.marks) >= _MAX_MARKS:
                self.marks.clear()
                self.unsaved.clear()
            self.marks[path] = self.unsaved[path] = (version, found.mark)

    def trusts(self, path: str, version: str, mark: str | None, found: Found) -> bool:
        """True if the file is known to hold this version unread. `mark` is the one kept with the memory."""
        if self.marks.get(path) == (version, found.mark):
            return True
        if mark is None or mark_text(found.mark) != mark:
            return False
        self.marks[path] = (version, found.mark)
        return True

    def database_wins(self, path: str) -> bool:
        """True if the file at, or one above or below, the path is still to be written."""
        waiting = self.unwritten | self.pending
        return bool(waiting) and any(
            one == path or one.startswith(path + "/") or path.startswith(one + "/") for one in waiting
        )

    def text(self, path: str, found: Found) -> bytes | None:
        """The text of a file that could be a memory's: UTF-8 without NUL; None for any other.

        A file with a second name (a hard link) may belong to somebody outside: it is read only to find that it holds
        what was recorded.
        """
        if found.kind is not Kind.FILE or found.links > 1 or self._no_text.get(path) == found.mark:
            return None
        data = self.tree.read(path)
        if data is not None and is_text(data):
            return data
        if found.settled:
            self._no_text[path] = found.mark
        return None


def mark_text(mark: Mark) -> str:
    """A mark as it is kept with its memory."""
    return ":".join(map(str, mark))
