"""Comparison of files with their records in the database. A command compares only the files that it uses.

Usually `stat` is enough: a file is unchanged if its mark (inode, size and times) is the same as before. A mark cannot
be trusted if it was read less than one clock tick after a change of the file. In that case, the text is compared
instead (Git's rule for racy timestamps).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from retentive.errors import Refused
from retentive.storage.contract import EXTERNAL, Change, Entry, verified
from retentive.storage.files.known import KnownFiles, MemoryRow
from retentive.storage.files.tree import MISSING, Expected, FileKind, Found, expect_file
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.values.paths import ROOT, ancestors, is_editor_file
from retentive.values.provenance import joined

_MAX_TRIES = 5


@dataclass(slots=True, eq=False)
class VerifiedFiles:
    """Paths at which the files match the records in the database.

    `files` has what a later write must find at each path. `free` has those paths that have no file.
    """

    files: dict[str, Expected] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)

    def add(self, path: str, found: Found, data: bytes | None = None) -> None:
        """Remember that the file at `path` has the state `found` and matches its record in the database.

        `data` is the contents of the file, if it was read.
        """
        self.files[path] = expect_file(found, data)
        if found.kind is FileKind.MISSING:
            self.free.add(path)


@dataclass(eq=False)
class Comparison:
    """Comparison of the records of one store with its files.

    If a file at, above or below a path differs from its record, `differs` is called with the path. `differs` must
    resolve the difference or raise an error. Transactions pass `verified`, which collects the files that match.
    """

    records: SqlSnapshot
    known: KnownFiles
    differs: Callable[[str], None]
    verified: VerifiedFiles | None = None
    clean_below: set[str] = field(default_factory=set)
    """Paths below which the files match the records. They are not compared again."""

    def get(self, path: str) -> Entry:
        """Return the entry at a path after comparing its file with the record. The text is verified."""
        for _ in range(_MAX_TRIES):
            entry, mark = self.records.get_marked(path)
            if self.known.database_wins(path) or self._is_as_recorded(path, entry, mark):
                break
            self.differs(path)
        if entry.memory is not None:
            verified(entry.data, entry.memory.sha256, entry.memory.seal, path)
        return entry  # if the file changes continuously, the latest recorded state is a valid answer

    def external_edits(self, path: str) -> list[Change]:
        """Return the changes that make the records match the files at, above and below a path.

        Deletions come first, because a directory may have taken the place of a deleted file.
        """
        found = {one: self.known.tree.state(one) for one in _and_above(path)}
        found |= dict.fromkeys([row[0] for row in self.rows(path)], MISSING)
        found |= {one: self.known.tree.found(status) for one, status in self.known.tree.scan(path)[0].items()}
        changes = [change for one, state in found.items() if (change := self._edit(one, state)) is not None]
        changes.sort(key=lambda change: change.path is not None)  # a file may have become a directory
        return changes

    def _edit(self, path: str, found: Found) -> Change | None:
        entry, mark = self.records.get_marked(path)
        if entry.memory is not None and self.holds(path, entry.memory.version_id, mark, found, entry):
            return None
        text = self._text(path, found) if entry.memory is None else self.known.text(path, found)
        if text == entry.data:
            return None
        known = None if entry.memory is None else entry.memory.provenance_text
        by = joined([known], [f"{self.records.revision:x}", str(EXTERNAL)])
        made = None if text is None else json.dumps({"integration": "files", "by": by})
        return Change(entry.memory, None if text is None else path, text, provenance_text=made)

    def repair(self, path: str) -> None:
        """Move modified files of an encrypted store to quarantine, and restore the recorded texts.

        This concerns the files at, above and below `path`.
        """
        for one in (*_and_above(path), *(row[0] for row in self.rows(path))):
            entry, mark = self.records.get_marked(one)
            if entry.memory is None or entry.data is None:
                continue
            if not self.holds(one, entry.memory.version_id, mark, self.known.tree.state(one), entry):
                self.known.tree.repair(one, entry.data)

    def rows_checked(self, under: str) -> list[MemoryRow]:
        """Compare the files below a path with their records, and return the recorded memories."""
        rows = self.rows(under)
        if under in self.clean_below or self.known.database_wins(under):
            return rows
        if not self._is_clean_below(under, rows):
            self.differs(under)
            rows = self.rows(under)
        return rows

    def rows(self, under: str) -> list[MemoryRow]:
        """Return the recorded memories below a path, without comparing files."""
        return cast("list[MemoryRow]", self.records.rows_below("m.path, m.version, m.size_bytes", under))

    def holds(self, path: str, version: str, mark: str | None, found: Found, entry: Entry) -> bool:
        """Return True if the file at a path contains the text of `entry`.

        `version` is the version of `entry`, `mark` is the file mark that is stored with `entry`, and `found` is the
        state of the file. The file is not read if its mark (inode, size and times) already gives the result.
        """
        data = None
        if not self.known.trusts(path, version, mark, found):
            if found.kind is not FileKind.FILE or found.size_bytes not in _sizes(entry):
                return False
            data = self.known.tree.read(path)
            if not is_recorded(data, entry):
                return False
            self.known.note(path, version, found)
        if self.verified is not None:
            self.verified.add(path, found, data)
        return True

    def _is_as_recorded(self, path: str, entry: Entry, mark: str | None) -> bool:
        found = self.known.tree.state(path)
        if entry.memory is not None:
            return self.holds(path, entry.memory.version_id, mark, found, entry)
        if self.known.folds and not self.known.tree.exact(path):
            raise Refused("path_folds", path=path)
        if self._taken(path, found) and not (entry.below or entry.above):
            if self.known.tree.state(path) != found:
                return False  # another process moved the file; compare again under the lock
            is_file = {"is_file": True} if found.kind is FileKind.FILE else {}  # no link, and not a file above the path
            raise Refused("path_taken", path=path, **is_file)
        clean = self._fits(path, entry, found)
        if clean and self.verified is not None:
            self.verified.add(path, found)
        return clean

    def _fits(self, path: str, entry: Entry, found: Found) -> bool:
        """Return True if the file system matches the records at a path where no memory is recorded."""
        match found.kind:
            case FileKind.MISSING:
                return not entry.below and entry.above is None
            case FileKind.BELOW_FILE:
                return not entry.below and entry.above is not None
            case FileKind.DIRECTORY:
                return entry.above is None and self._is_clean_below(path, self.rows(path))
            case _:
                return False

    def _taken(self, path: str, found: Found) -> bool:
        if found.kind is FileKind.BELOW_FILE:
            states = [(above, self.known.tree.state(above)) for above in ancestors(path)]
            return any(state.kind is FileKind.FILE and self._text(above, state) is None for above, state in states)
        return found.kind is FileKind.OTHER or (found.kind is FileKind.FILE and self._text(path, found) is None)

    def _text(self, path: str, found: Found) -> bytes | None:
        """Return the text of a file if it could be a new memory, otherwise None.

        In an encrypted store, no file can be a new memory, and elsewhere no backup file of an editor.
        """
        if self.records.seal is not None or is_editor_file(path.rpartition("/")[2]):
            return None
        return self.known.text(path, found)

    def _is_clean_below(self, under: str, rows: list[MemoryRow]) -> bool:
        known = self.known
        if self.verified is None and known.is_listed(under, rows):
            self.clean_below.add(under)
            return True
        files, listing = known.tree.scan(under, known.marks)
        if not self._hold_all(rows, files):
            return False
        if len(files) > len(rows):
            added = files.keys() - {row[0] for row in rows}
            if any(self._text(path, known.tree.found(files[path])) is not None for path in added):
                return False
        self.clean_below.add(under)
        if self.verified is None and len(files) == len(rows):
            known.keep_listing(under, rows, files, listing)
        return True

    def _hold_all(self, rows: list[MemoryRow], files: Mapping[str, os.stat_result]) -> bool:
        """Return True if `files` has a file for each memory in `rows`, and the files contain the recorded texts."""
        marks = self.known.marks
        for path, version, size in rows:
            status = files.get(path)
            if status is None:
                return False
            found = self.known.tree.found(status)
            if marks.get(path) == (version, found.mark):
                if self.verified is not None:
                    self.verified.add(path, found)
                continue
            if found.size_bytes != size and self.records.seal is None:  # encryption makes a file longer than its text
                return False
            entry, mark = self.records.get_marked(path)
            if not self.holds(path, version, mark, found, entry):
                return False
        return True


def is_recorded(text: bytes | None, entry: Entry) -> bool:
    """Return True if the text of a file is the recorded text.

    If the text in the database differs, the recorded hash decides. The text in the database may be damaged, and such
    damage must not count as an external edit.
    """
    if text == entry.data or text is None or entry.memory is None:
        return text == entry.data
    return hashlib.sha256(text).hexdigest() == entry.memory.sha256


def _sizes(entry: Entry) -> tuple[int, ...]:
    """Return the sizes that the file of an entry can have. An encrypted file is longer than the text of the memory."""
    stored = len(entry.data or b"")
    return (stored,) if entry.memory is None else (stored, entry.memory.size_bytes)


def _and_above(path: str) -> tuple[str, ...]:
    """Return a path and the paths above it. For the root, which cannot be a memory, return an empty tuple."""
    return () if path == ROOT else (*ancestors(path), path)
