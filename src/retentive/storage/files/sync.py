"""Writes committed texts to the files: after each commit, and during recovery after a process was killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from retentive.errors import Damaged, RetentiveError
from retentive.storage.contract import Change
from retentive.storage.files.known import KnownFiles
from retentive.storage.files.tree import Expected, FileKind, FileTree, Found, expect_file
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot


@dataclass(slots=True, eq=False)
class SyncPlan:
    """Plan of the files to write after a commit.

    `changes` has the last change to each path. `expected` has the file that a path had before the first change. If a
    path is not in `expected`, its file is examined before it is written.
    """

    changes: dict[str, Change] = field(default_factory=dict)
    expected: dict[str, Expected] = field(default_factory=dict)
    touched_twice: set[str] = field(default_factory=set)

    def add(self, path: str, change: Change) -> None:
        """Add a change of the memory at `path`."""
        if path in self.changes:
            self.touched_twice.add(path)
        self.changes[path] = change

    def absorb(self, later: SyncPlan) -> None:
        """Add the plan of a later transaction of the same commit.

        If both plans contain a path, the later change and the earlier file are used.
        """
        self.touched_twice |= later.touched_twice | (self.changes.keys() & later.changes.keys())
        self.changes |= later.changes
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


def sync(connection: Connection, known: KnownFiles, store_id: str, plan: SyncPlan, since: int) -> bool:
    """Write the files of a committed plan. Returns True if every step succeeded.

    A path whose file cannot be written is added to `known.unwritten`. A read of such a path uses the record in the
    database. If a file was edited after the transaction examined it, the file is not overwritten. The next comparison
    finds the edit. The commit has the versions with numbers above `since`.
    """
    changes, expected, tree = plan.changes, plan.expected, known.tree
    failed: set[str] = set()
    moves = plan.moves()
    sources = set(moves.values())
    drops = [path for path, change in changes.items() if change.path != path and path not in sources]
    puts = [path for path, change in changes.items() if change.path == path and path not in moves]
    for path in drops:  # first, since removing files frees the names of directories
        if path in expected and expected[path].mark:
            _attempt(failed, path, partial(tree.drop, path, expected[path]))
    for new, old in moves.items():
        _attempt(failed, new, partial(tree.move, old, new))
    for path in puts:
        data = changes[path].data
        text = SqlSnapshot(connection, store_id).get(path).data if data is None else data
        if text is not None and path in expected:
            _attempt(failed, path, partial(tree.put, path, text, expected[path]))
    doubtful = [path for path in changes if path not in expected]
    known.unwritten = (known.unwritten - changes.keys()) | failed
    return not failed and (not doubtful or complete(connection, known, store_id, doubtful, since))


def complete(connection: Connection, known: KnownFiles, store_id: str, paths: Sequence[str], since: int) -> bool:
    """Write the files at `paths` if the commits after number `since` did not. Returns True if every step succeeded.

    A file is written only if it still has what was recorded at its path at `since`, or later. Anything else is an
    external edit.
    """
    snapshot = SqlSnapshot(connection, store_id)
    return _restore(known, snapshot, paths, lambda path, data: data in _texts_since(snapshot, path, since))


def rewrite(connection: Connection, known: KnownFiles, store_id: str, paths: Sequence[str]) -> bool:
    """Write the files at `paths` if a power cut may have left what they contain. Returns True if every step succeeded.

    In an encrypted store nobody edits files, so nothing is recorded before.
    """
    snapshot = SqlSnapshot(connection, store_id)
    return _restore(known, snapshot, paths, partial(could_be_stale, snapshot))


def _restore(
    known: KnownFiles, snapshot: SqlSnapshot, paths: Sequence[str], may_go: Callable[[str, bytes | None], bool]
) -> bool:
    wanted: dict[str, bytes | None] = {}
    kept: set[str] = set()
    for path in paths:
        try:
            wanted[path] = snapshot.get(path).data
        except Damaged:
            kept.add(path)  # the file may be the only good copy
    for path in sorted(wanted, key=lambda path: wanted[path] is not None):  # removals first, as in `sync`
        data, found, present = wanted[path], known.tree.state(path), known.tree.read(path)
        if present != data and found.kind is not FileKind.OTHER and may_go(path, present):
            _attempt(kept, path, partial(_replace, known.tree, path, data, found, present))
        if data is None:
            _attempt(kept, path, partial(known.tree.prune, path))
    known.unwritten = (known.unwritten - set(paths)) | kept
    return not kept


def _replace(tree: FileTree, path: str, data: bytes | None, found: Found, present: bytes | None) -> None:
    """Write or remove a file, unless it changed after it was examined."""
    if data is None:
        tree.drop(path, expect_file(found, present))
        return
    if found.kind is FileKind.DIRECTORY:
        tree.prune(path)
    tree.put(path, data, expect_file(found, present))


def could_be_stale(snapshot: SqlSnapshot, path: str, present: bytes | None) -> bool:
    """Return True if a power cut can leave the bytes `present` in the file at a path. `present` is None without a file.

    The file may be missing, or contain the text of any recorded version of the path, or a beginning of one. In tests
    with power failures, hundreds of files contained an earlier version and dozens were empty; no file contained any
    other text. On XFS, zeros may stand where a text was not written yet. No text contains them.
    """
    if not present or b"\0" in present:
        return True
    versions = snapshot.connection.rows(
        "SELECT DISTINCT text_of FROM versions WHERE store = ? AND path = ? AND text_of IS NOT NULL",
        (snapshot.store, path),
    )
    return any((_text(snapshot, str(version)) or b"").startswith(present) for (version,) in versions)


def _texts_since(snapshot: SqlSnapshot, path: str, since: int) -> set[bytes | None]:
    """Return the texts that were recorded at a path at number `since` and later. None stands for no memory."""
    rows = snapshot.connection.rows(
        "SELECT v.seq, CASE WHEN v.path = ? AND v.operation <> 'deleted' THEN v.text_of END FROM versions v"
        " WHERE v.store = ? AND v.memory IN (SELECT memory FROM versions WHERE store = ? AND path = ?) AND"
        " (v.path = ? OR ? = (SELECT p.path FROM versions p WHERE p.store = v.store AND p.memory = v.memory"
        " AND p.id < v.id ORDER BY p.id DESC LIMIT 1)) ORDER BY v.seq",
        (path, snapshot.store, snapshot.store, path, path, path),
    )
    before = [version for seq, version in rows if int(seq or 0) <= since][-1:] or [None]
    after = [version for seq, version in rows if int(seq or 0) > since]
    return {None if version is None else _text(snapshot, str(version)) for version in (*before, *after)}


def _text(snapshot: SqlSnapshot, version: str) -> bytes | None:
    rows = snapshot.connection.rows("SELECT text FROM versions WHERE store = ? AND id = ?", (snapshot.store, version))
    return rows[0][0] if rows and isinstance(rows[0][0], bytes) else None


def _attempt(failed: set[str], path: str, step: Callable[[], object]) -> None:
    try:
        step()
    except (OSError, RetentiveError):
        failed.add(path)
