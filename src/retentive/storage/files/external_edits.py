"""Noticing what was changed by hand in the files of a memory store, by a stat of what a command touches.

A file is as it was recorded if its mark (inode, size, times) is the one last seen, and that was not within a clock
tick of the last change (Git's rule for racy timestamps); otherwise its text is compared. What differs is a person's,
and is recorded as a version by the actor `external`; in a sealed memory store it is damage, and mended (`damage.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TypeAlias, cast

from retentive.errors import Refused
from retentive.storage.contract import EXTERNAL, Actor, Change, Clock, Entry, Memory, NewId, Recorded
from retentive.storage.files.quarantine import MendedTree
from retentive.storage.files.tree import MISSING, Found, Kind, Mark, found_of, mark_of
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot, below
from retentive.storage.sql.transaction import SqlTransaction
from retentive.values.paths import ROOT, ancestors

_MAX_SEEN = 100_000
_MAX_TRIES = 5
_Row: TypeAlias = tuple[str, str, int]  # path, version, size in bytes


class HandEdit(Exception):
    """A file is not as it was recorded. Raised while reading; the read is then run again where it can be recorded."""


class Unsynced(Exception):
    """The files of versions that are to go do not rest durably yet; these say which files may be behind."""


class Seen:
    """What this process knows of the files of one store. Shared by threads; every entry is replaced whole.

    `owed` are paths whose file could not be written after the commit, `in_flight` those of the batch that runs now:
    at, above and below them the database wins.
    """

    def __init__(self, tree: MendedTree, *, folds: bool) -> None:
        self.tree = tree
        self.folds = folds
        self.marks: dict[str, tuple[str, Mark]] = {}  # path -> the version its file holds, and the file's mark
        self.owed: set[str] = set()
        self.in_flight: frozenset[str] = frozenset()
        self.unsaved: dict[str, tuple[str, Mark]] = {}  # marks that are not yet kept with their memories
        self._no_text: dict[str, Mark] = {}  # path -> mark of a file with no text a memory could have

    def note(self, path: str, version: str, found: Found) -> None:
        """Remember that the file holds this version, if its mark can be trusted from now on."""
        if found.settled:
            if len(self.marks) >= _MAX_SEEN:
                self.marks.clear()
                self.unsaved.clear()
            self.marks[path] = self.unsaved[path] = (version, found.mark)

    def trusts(self, path: str, version: str, mark: str | None, found: Found) -> bool:
        """Whether the file is known to hold this version unread. `mark` is the one kept with the memory."""
        if self.marks.get(path) == (version, found.mark):
            return True
        if mark is None or mark_text(found.mark) != mark:
            return False
        self.marks[path] = (version, found.mark)
        return True

    def database_wins(self, path: str) -> bool:
        """Whether the file at, or one above or below, the path is still to be written."""
        waiting = self.owed | self.in_flight
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
        if data is not None and _is_text(data):
            return data
        if found.settled:
            self._no_text[path] = found.mark
        return None


def keep_numbering(connection: Connection) -> None:
    """Let no later version have the number of one that goes: numbers say which versions rest durably in the files.

    SQLite gives a number again if the row with the highest goes; a row of no store holds the place.
    """
    connection.run("UPDATE versions SET seq = (SELECT max(seq) + 1 FROM versions) WHERE store = 0")
    connection.run(
        "INSERT INTO versions (store, id, memory, operation, path, created_at, revision)"
        " SELECT 0, 'numbering', '', 'deleted', '', 0, 0 WHERE NOT EXISTS (SELECT 1 FROM versions WHERE store = 0)"
    )


def mark_text(mark: Mark) -> str:
    """A mark as it is kept with its memory."""
    return ":".join(map(str, mark))


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


class WatchedSnapshot(SqlSnapshot):
    """A snapshot that looks at the files too. Raises `HandEdit` where they differ."""

    def __init__(self, connection: Connection, store_id: str, seen: Seen) -> None:
        super().__init__(connection, store_id)
        self.seen = seen
        self._clean_below: set[str] = set()

    def get(self, path: str) -> Entry:
        for _ in range(_MAX_TRIES):
            look, mark = self.look_marked(path)
            if self.seen.database_wins(path) or self._is_as_recorded(path, look, mark):
                return look
            self._differs(path)
        return look  # edited all the while: what was recorded last is one of its states

    def memories(self, under: str) -> Iterator[Memory]:
        self._check_below(under)
        return super().memories(under)

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return iter([(row[0], row[2]) for row in self._check_below(under)])

    def _differs(self, path: str) -> None:
        raise HandEdit(path)

    def _verified(self, path: str, found: Found) -> None:
        """The file at `path` was seen to be as recorded."""

    def _is_as_recorded(self, path: str, look: Entry, mark: str | None) -> bool:
        found = self.seen.tree.state(path)
        if look.memory is not None:
            return self._holds(path, look.memory.version_id, mark, found, look.data)
        if self.seen.folds and not self.seen.tree.exact(path):
            raise Refused("path_folds", path=path)
        if self._taken(path, found) and not (look.below or look.above):
            if self.seen.tree.state(path) != found:
                return False  # a memory's file that was moved away meanwhile: looked at again, alone
            raise Refused("path_taken", path=path)
        match found.kind:
            case Kind.MISSING:
                clean = not look.below and look.above is None
            case Kind.BELOW_FILE:
                clean = not look.below and look.above is not None
            case Kind.DIRECTORY:
                clean = look.above is None and self._is_clean_below(path, self._rows_below(path))
            case _:
                clean = False
        if clean:
            self._verified(path, found)
        return clean

    def _taken(self, path: str, found: Found) -> bool:
        if found.kind is Kind.BELOW_FILE:
            states = [(above, self.seen.tree.state(above)) for above in ancestors(path)]
            return any(state.kind is Kind.FILE and self._text(above, state) is None for above, state in states)
        return found.kind is Kind.OTHER or (found.kind is Kind.FILE and self._text(path, found) is None)

    def _text(self, path: str, found: Found) -> bytes | None:
        """The text of a file that could be a memory's. A file that somebody puts into a sealed store never is."""
        return None if self.seal is not None else self.seen.text(path, found)

    def _holds(self, path: str, version: str, mark: str | None, found: Found, data: bytes | None) -> bool:
        if not self.seen.trusts(path, version, mark, found):
            if found.kind is not Kind.FILE or found.size_bytes != len(data or b""):
                return False
            if self.seen.tree.read(path) != data:
                return False
            self.seen.note(path, version, found)
        self._verified(path, found)
        return True

    # -- all below a path ------------------------------------------------------------------------------------

    def _check_below(self, under: str) -> list[_Row]:
        """The memories below; what differs on disk has been dealt with."""
        rows = self._rows_below(under)
        if under in self._clean_below or self.seen.database_wins(under):
            return rows
        if not self._is_clean_below(under, rows):
            self._differs(under)
            rows = self._rows_below(under)
        return rows

    def _rows_below(self, under: str) -> list[_Row]:
        found = self.connection.rows(
            "SELECT path, version, size_bytes FROM memories WHERE store = ? AND path > ? AND path < ? ORDER BY path",
            (self.store, *below(under)),
        )
        return cast("list[_Row]", found)

    def _is_clean_below(self, under: str, rows: list[_Row]) -> bool:
        known = self.seen.marks
        files = self.seen.tree.scan(under, known)
        for path, version, size in rows:
            status = files.get(path)
            if status is None:
                return False
            if known.get(path) == (version, mark_of(status)):
                continue
            found = found_of(status)
            if found.size_bytes != size and self.seal is None:  # a sealed file is longer than its text
                return False
            look, mark = self.look_marked(path)
            if not self._holds(path, version, mark, found, look.data):
                return False
        if len(files) > len(rows):
            strange = files.keys() - {row[0] for row in rows}
            if any(self._text(path, found_of(files[path])) is not None for path in strange):
                return False
        self._clean_below.add(under)
        self._verified_below(files)
        return True

    def _verified_below(self, files: dict[str, os.stat_result]) -> None:
        """All memories below a path were seen to be as recorded."""


class WatchedTransaction(WatchedSnapshot, SqlTransaction):
    """A transaction that first records what was changed by hand, and knows which files are to follow its commit."""

    def __init__(self, connection: Connection, store_id: str, seen: Seen, *, clock: Clock, new_id: NewId) -> None:
        SqlTransaction.__init__(self, connection, store_id, clock=clock, new_id=new_id)
        self.seen = seen
        self._clean_below = set()
        self.plan: dict[str, Change] = {}  # path -> the last change that touched it
        self.expected: dict[str, Mark] = {}  # path -> mark of its file before the first
        self.touched_twice: set[str] = set()  # paths with several changes
        self._free: set[str] = set()  # paths where nothing stands on disk
        self._by_hand = False

    @property
    def outlasts_refusal(self) -> bool:
        """Whether all that was recorded is what a person did: that stays, though the command was refused."""
        return self._by_hand and not self.plan

    def get(self, path: str) -> Entry:
        return SqlSnapshot.get(self, path) if self.plan else super().get(path)

    def _check_below(self, under: str) -> list[_Row]:
        return self._rows_below(under) if self.plan else super()._check_below(under)

    def _verified(self, path: str, found: Found) -> None:
        self.expected[path] = found.mark
        if found.kind is Kind.MISSING:
            self._free.add(path)

    def _verified_below(self, files: dict[str, os.stat_result]) -> None:
        self.expected |= {path: mark_of(status) for path, status in files.items()}

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        leaving = {change.before.path for change in changes if change.before is not None}
        for change in changes:
            if change.path is not None and (change.before is None or change.before.path != change.path):
                self._check_free(change.path, leaving)
        recorded = SqlTransaction.record(self, changes, actor)
        for change in changes:
            for path in {change.before.path if change.before is not None else change.path, change.path} - {None}:
                self._will(str(path), change)
        return recorded

    def drop(self, memories: Sequence[Memory]) -> None:
        SqlTransaction.drop(self, memories)
        for memory in memories:
            self._will(memory.path, Change(memory, None))

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        self._check_synced(version_ids)
        SqlTransaction.redact(self, version_ids, actor)

    def prune(self, version_ids: Sequence[str]) -> None:
        self._check_synced(version_ids)
        keep_numbering(self.connection)
        SqlTransaction.prune(self, version_ids)

    def _check_synced(self, version_ids: Sequence[str]) -> None:
        if version_ids and self.connection.rows(
            "SELECT 1 FROM versions WHERE store = ? AND id = ? AND seq > (SELECT seq FROM synced)",
            (self.store, max(version_ids)),
        ):
            raise Unsynced

    def _will(self, path: str, change: Change) -> None:
        if path in self.plan:
            self.touched_twice.add(path)
        self.plan[path] = change

    def absorb(self, later: WatchedTransaction) -> None:
        """Take on what a later transaction of the same commit did: the last change of a path, the first look at it."""
        self.touched_twice |= later.touched_twice | (self.plan.keys() & later.plan.keys())
        self.plan |= later.plan
        self.expected = later.expected | self.expected

    def _check_free(self, path: str, leaving: set[str]) -> None:
        """Refuse a new path at which something stands on disk that is no memory, and that we do not remove."""
        if (
            path in self._free
            or self.seen.database_wins(path)
            or any(one == path or path.startswith(one + "/") for one in (*self.plan, *leaving))
        ):
            return
        found = self.seen.tree.state(path)
        if found.kind is Kind.DIRECTORY:
            self.seen.tree.prune(path)
            found = self.seen.tree.state(path)
            files = self.seen.tree.scan(path).keys()
            if files and files <= self.plan.keys() | leaving:
                self.expected.pop(path, None)  # it empties with the commit, so the file is looked for only then
                return
        if found.kind is not Kind.MISSING:
            raise Refused("path_taken", path=path)
        self.expected.setdefault(path, ())

    def _differs(self, path: str) -> None:
        """Record what a person did at, above and below a path; mend it where nobody has anything to do."""
        if self.seal is not None:
            self._mend(path)
            return
        changes: list[Change] = []
        for one in (*ancestors(path), path)[path == ROOT :]:
            changes += self._difference(one, self.seen.tree.state(one))
        files = self.seen.tree.scan(path)
        for one, _, _ in self._rows_below(path):
            changes += self._difference(one, found_of(files.pop(one)) if one in files else MISSING)
        for one, status in files.items():
            changes += self._difference(one, found_of(status))
        changes.sort(key=lambda change: change.path is not None)  # deletions first: a file may have become a directory
        SqlTransaction.record(self, changes, EXTERNAL)
        self._by_hand = self._by_hand or bool(changes)

    def _mend(self, path: str) -> None:
        """Make the files at, above and below a path what was recorded."""
        for one in (*ancestors(path), path, *(row[0] for row in self._rows_below(path))):
            look, mark = self.look_marked(one)
            if look.memory is None or look.data is None:
                continue
            if not self._holds(one, look.memory.version_id, mark, self.seen.tree.state(one), look.data):
                self.seen.tree.mend(one, look.data)

    def _difference(self, path: str, found: Found) -> list[Change]:
        look, mark = self.look_marked(path)
        if look.memory is None:
            text = self.seen.text(path, found)
            return [] if text is None else [Change(None, path, text)]
        if self._holds(path, look.memory.version_id, mark, found, look.data):
            return []
        text = self.seen.text(path, found)
        return [] if text == look.data else [Change(look.memory, None if text is None else path, text)]
