"""Making files equal to what was committed: after a commit, and after a process that was killed in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from retentive.errors import RetentiveError
from retentive.storage.files.known import KnownFiles
from retentive.storage.files.plan import Plan
from retentive.storage.files.tree import FileTree, Found, Kind, Mark
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot

_OURS = {Kind.FILE, Kind.MISSING, Kind.DIRECTORY, Kind.BELOW_FILE}  # where a file may be written or removed
_CHUNK = 500  # values bound in one statement


def sync(connection: Connection, known: KnownFiles, store_id: str, plan: Plan) -> bool:
    """Carry a committed plan over to the files; True if all of it could be.

    What could not is `unwritten`: the database wins there until it is written. A file that a person changed since the
    transaction looked at it is left as it is, and noticed by the next look.
    """
    changes, expected, tree = plan.changes, plan.expected, known.tree
    failed: set[str] = set()
    moves = plan.moves()
    sources = set(moves.values())
    drops = [path for path, change in changes.items() if change.path != path and path not in sources]
    puts = [path for path, change in changes.items() if change.path == path and path not in moves]
    for path in drops:  # first, so that a directory that empties leaves its name free
        _attempt(failed, path, partial(_drop, tree, path, expected))
    for new, old in moves.items():
        _attempt(failed, new, partial(tree.move, old, new))
    for path in puts:
        data = changes[path].data
        text = SqlSnapshot(connection, store_id).get(path).data if data is None else data
        _attempt(failed, path, partial(_put, tree, path, text, expected))
    doubtful = [path for path in changes if path not in expected]
    known.unwritten = (known.unwritten - changes.keys()) | failed
    return not failed and (not doubtful or recover(connection, known, store_id, doubtful))


def recover(connection: Connection, known: KnownFiles, store_id: str, paths: Sequence[str]) -> bool:
    """Write again what may have been lost on the way to the files; True if all of it could be.

    Only a stale file is touched: missing, empty, a prefix of, or equal to a recorded version of its path. After power
    cuts hundreds of files held an earlier version and dozens were empty; none held anything else.
    """
    snapshot = SqlSnapshot(connection, store_id)
    tree = known.tree
    wanted = {path: snapshot.get(path).data for path in paths}
    found = {path: tree.state(path) for path in paths}
    present = {path: tree.read(path) for path in paths}
    wrong = [path for path in paths if present[path] != wanted[path] and found[path].kind in _OURS]
    doubtful = {path: text for path in wrong if (text := present[path])}
    stale = stale_paths(connection, snapshot.store, doubtful)
    failed: set[str] = set()
    for path in sorted(wrong, key=lambda path: wanted[path] is not None):  # removals first, as above
        if path not in doubtful or path in stale:
            _attempt(failed, path, partial(_restore, tree, path, wanted[path], found[path]))
    for path in paths:
        if wanted[path] is None:
            _attempt(failed, path, partial(tree.prune, path))
    known.unwritten = (known.unwritten - set(paths)) | failed
    return not failed


def stale_paths(connection: Connection, store: int, present: dict[str, bytes]) -> set[str]:
    """Which of these paths hold the beginning, or all, of a text once recorded there."""
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
            if isinstance(text, bytes) and text.startswith(present[str(path)]):
                stale.add(str(path))
    return stale


def _attempt(failed: set[str], path: str, step: Callable[[], object]) -> None:
    try:
        step()
    except (OSError, RetentiveError):
        failed.add(path)


def _drop(tree: FileTree, path: str, expected: dict[str, Mark]) -> None:
    if expected.get(path):
        tree.drop(path, expected[path])


def _put(tree: FileTree, path: str, text: bytes | None, expected: dict[str, Mark]) -> None:
    if text is not None and path in expected:
        tree.put(path, text, expected[path])


def _restore(tree: FileTree, path: str, text: bytes | None, seen: Found) -> None:
    """Make a stale file what it was to be, if it is still the one that was looked at."""
    if text is None:
        tree.drop(path, seen.mark)
        return
    if seen.kind is Kind.DIRECTORY:
        tree.prune(path)
    tree.put(path, text, seen.mark)
