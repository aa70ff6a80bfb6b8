"""Writes committed texts to the files: after each commit, and during recovery after a process was killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from retentive.errors import Damaged, RetentiveError
from retentive.storage.contract import Change, Entry
from retentive.storage.files.known import KnownFiles
from retentive.storage.files.tree import FileKind, FileTree, Found, Mark
from retentive.storage.spares import could_be_torn
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot

T = TypeVar("T")
_OURS = set(FileKind) - {FileKind.OTHER}  # kinds that may be overwritten or removed
_CHUNK = 500  # number of values in one statement


@dataclass(slots=True, eq=False)
class SyncPlan:
    """Plan of the files to write after a commit.

    `changes` has the last change to each path. `expected` has the mark (inode, size, times) that the file of a path had
    before the first change. If a path is not in `expected`, its file is examined before it is written.
    """

    changes: dict[str, Change] = field(default_factory=dict)
    expected: dict[str, Mark] = field(default_factory=dict)
    touched_twice: set[str] = field(default_factory=set)
    versions: dict[str, str] = field(default_factory=dict)  # path -> version made by its change, if known

    def add(self, path: str, change: Change, version: str = "") -> None:
        """Add a change of the memory at `path`. `version` is the id of the version that the change made."""
        self.versions[path] = version
        if path in self.changes:
            self.touched_twice.add(path)
        self.changes[path] = change

    def absorb(self, later: SyncPlan) -> None:
        """Add the plan of a later transaction of the same commit.

        If both plans contain a path, the later change and the earlier mark are used.
        """
        self.touched_twice |= later.touched_twice | (self.changes.keys() & later.changes.keys())
        self.changes |= later.changes
        self.versions |= later.versions
        self.expected = later.expected | self.expected

    def moves(self) -> dict[str, str]:
        """Return the new paths of renamed memories, each with the old path.

        Includes only memories that were renamed once and not changed otherwise. Their files can be renamed instead of
        rewritten.
        """
        moves: dict[str, str] = {}
        known = self.expected.keys() - self.touched_twice
        for path, change in self.changes.items():
            old = None if change.before is None else change.before.path
            is_rename = change.size_bytes is None and change.path == path and old not in {None, path}
            if is_rename and old is not None and self.changes.get(old) is change and old in known and path in known:
                moves[path] = old
        return moves


def sync(connection: Connection, known: KnownFiles, store_id: str, plan: SyncPlan) -> bool:
    """Write the files of a committed plan. Returns True if every step succeeded.

    A path whose file cannot be written is added to `known.unwritten`. A read of such a path uses the record in the
    database. If a file was edited after the transaction examined it, the file is not overwritten. The next comparison
    finds the edit.
    """
    changes, expected, tree = plan.changes, plan.expected, known.tree
    failed: set[str] = set()
    moves = plan.moves()
    sources = set(moves.values())
    drops = [path for path, change in changes.items() if change.path != path and path not in sources]
    puts = [path for path, change in changes.items() if change.path == path and path not in moves]
    for path in drops:  # first, since removing files frees the names of directories
        if expected.get(path):
            _attempt(failed, path, partial(tree.drop, path, expected[path]))
    for new, old in moves.items():
        mark = _attempt(failed, new, partial(tree.move, old, new, expected[old]))
        known.trust(new, plan.versions[new], mark or ())
    for path in puts:
        data = changes[path].data
        text = SqlSnapshot(connection, store_id).get(path).data if data is None else data
        if text is not None and path in expected:
            mark = _attempt(failed, path, partial(tree.put, path, text, expected[path]))
            known.trust(path, plan.versions[path], mark or ())
    doubtful = [path for path in changes if path not in expected]
    known.unwritten = (known.unwritten - changes.keys()) | failed
    return not failed and (not doubtful or recover(connection, known, store_id, doubtful))


def recover(connection: Connection, known: KnownFiles, store_id: str, paths: Sequence[str]) -> bool:
    """Write the files at `paths` again if they lack a committed change. Returns True if every step succeeded.

    Only stale files are changed. A file is stale if it is missing or empty, or if it contains the text of any recorded
    version of its path. This includes a text that is cut off, or in which some bytes are zero. In tests with power
    failures, hundreds of files contained an earlier version and dozens were empty; no file contained any other text.
    """
    snapshot = SqlSnapshot(connection, store_id)
    tree = known.tree
    entries, damaged = _recorded_entries(snapshot, paths)
    wanted = {path: entry.data for path, entry in entries.items()}
    paths = list(wanted)
    found = {path: tree.state(path) for path in paths}
    present = {path: tree.read(path) for path in paths}
    wrong = [path for path in paths if present[path] != wanted[path] and found[path].kind in _OURS]
    doubtful = {path: text for path in wrong if (text := present[path])}
    stale = stale_paths(connection, snapshot.store, doubtful)
    failed: set[str] = set()
    for path in sorted(wrong, key=lambda path: wanted[path] is not None):  # removals first, as in `sync`
        if path not in doubtful or path in stale:
            mark = _attempt(failed, path, partial(_restore, tree, path, wanted[path], found[path]))
            memory = entries[path].memory
            if memory is not None:
                known.trust(path, memory.version_id, mark or ())
    for path in paths:
        if wanted[path] is None:
            _attempt(failed, path, partial(tree.prune, path))
    known.unwritten = (known.unwritten - set(paths)) | failed | damaged
    return not failed


def _recorded_entries(snapshot: SqlSnapshot, paths: Sequence[str]) -> tuple[dict[str, Entry], set[str]]:
    """Return the recorded entry of each path, and the set of paths whose text is damaged in the database.

    The files at the paths in this set may be the only good copies, so they must not be overwritten.
    """
    entries: dict[str, Entry] = {}
    damaged: set[str] = set()
    for path in paths:
        try:
            entries[path] = snapshot.get(path)
        except Damaged:
            damaged.add(path)
    return entries, damaged


def stale_paths(connection: Connection, store: int, present: dict[str, bytes]) -> set[str]:
    """Return the paths whose files contain the text of any recorded version of the same path.

    This includes a text that is cut off, or in which some bytes are zero. `present` maps each path to the contents of
    its file.
    """
    stale: set[str] = set()
    paths = list(present)
    for start in range(0, len(paths), _CHUNK):
        chunk = paths[start : start + _CHUNK]
        places = ", ".join("?" * len(chunk))
        recorded = connection.rows(
            f"SELECT DISTINCT path, text_of FROM versions"
            f" WHERE store = ? AND path IN ({places}) AND text_of IS NOT NULL",
            (store, *chunk),
        )
        for path, version in recorded:
            text = connection.rows("SELECT text FROM versions WHERE store = ? AND id = ?", (store, version))[0][0]
            if isinstance(text, bytes) and could_be_torn(present[str(path)], text):
                stale.add(str(path))
    return stale


def _attempt(failed: set[str], path: str, step: Callable[[], T]) -> T | None:
    try:
        return step()
    except (OSError, RetentiveError):
        failed.add(path)
        return None


def _restore(tree: FileTree, path: str, text: bytes | None, seen: Found) -> Mark:
    """Write or remove a stale file, unless the file changed after it was examined.

    Returns the mark of the new file. Returns () if no file was written or if its mark cannot be trusted.
    """
    if text is None:
        tree.drop(path, seen.mark)
        return ()
    if seen.kind is FileKind.DIRECTORY:
        tree.prune(path)
    return tree.put(path, text, seen.mark)
