"""Writes committed texts to the files: after each commit, and after a process was killed or the power was cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TypeAlias, cast

from retentive.errors import Damaged, RetentiveError
from retentive.storage.contract import Entry
from retentive.storage.files.folding import Spellings
from retentive.storage.files.tree import FileKind, FileTree
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.values.paths import ancestors

Hash: TypeAlias = "str | None"
"""Hash of the text of a file. None stands for no file."""
StaleFiles: TypeAlias = "dict[str, tuple[Entry, bytes | None]]"
"""Entries whose files a power cut may have left out of date, by path, each with the contents of its file."""


@dataclass(eq=False)
class FilePlan:
    """Files of one store to write after the commit. At, above and below these paths, the files are out of date.

    `ours` has what the file at each path may contain. A file that contains anything else was edited by a person. It is
    not replaced, and the next comparison finds the edit. `gone` has those paths that have no memory any more, and
    `texts` the new texts of others, as far as they need not be read from the database.
    """

    ours: dict[str, set[Hash]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    texts: dict[str, bytes | None] = field(default_factory=dict)
    spellings: Spellings = field(default_factory=Spellings)
    _above: set[str] = field(default_factory=set)

    def add(self, path: str, *contents: Hash, is_gone: bool, text: bytes | None = None) -> None:
        """Add a path. If the plan has it already, its file still contains what it contained before."""
        self.ours.setdefault(path, set(contents))
        self._above.update(ancestors(path))
        (self.gone.add if is_gone else self.gone.discard)(path)
        self.texts[path] = text

    def outdates(self, path: str) -> bool:
        """Return True if the file at a path, or a file above or below it, is not written yet."""
        return path in self.ours or path in self._above or any(above in self.ours for above in ancestors(path))


def hash_of(text: bytes | None) -> Hash:
    """Return the hash of the text of a file."""
    return None if text is None else sha256(text).hexdigest()


def write_files(records: SqlSnapshot, tree: FileTree, plan: FilePlan) -> bool:
    """Bring the files of a plan to the recorded state. Returns True if every step succeeded."""
    succeeded = True
    for path in plan.gone:  # first, since removing files frees the names of directories
        succeeded &= _succeeds(partial(tree.drop, path, partial(_is_ours, plan.ours[path])))
    for path in plan.ours.keys() - plan.gone:
        succeeded &= _succeeds(partial(_put, records, tree, path, plan))
    return succeeded


def _put(records: SqlSnapshot, tree: FileTree, path: str, plan: FilePlan) -> None:
    text = plan.texts[path]
    data = records.get(path).data if text is None else text
    if data is not None:
        tree.put(path, data, partial(_is_ours, plan.ours[path]))


def _is_ours(ours: set[Hash], text: bytes | None) -> bool:
    return hash_of(text) in ours


def _succeeds(step: Callable[[], None]) -> bool:
    try:
        step()
    except (OSError, RetentiveError):
        return False
    return True


def newest_number(connection: Connection) -> int:
    """Return the number of the newest version, or 0 if there are no versions."""
    return cast("int | None", connection.rows("SELECT max(seq) FROM versions")[0][0]) or 0


def synced_number(connection: Connection) -> int:
    """Return the number `synced`: all versions up to this number are durable in the files."""
    return cast("int", connection.rows("SELECT seq FROM synced")[0][0])


def paths_changed_since(connection: Connection, seq: int) -> dict[str, set[str]]:
    """Return the paths of changed memories by store id.

    A memory is changed if a version with a number above `seq` wrote, deleted or renamed it.
    """
    paths: dict[str, set[str]] = defaultdict(set)
    found = connection.rows(
        "SELECT s.id, v.path, (SELECT p.path FROM versions p WHERE p.store = v.store AND p.memory = v.memory"
        " AND p.id < v.id ORDER BY p.id DESC LIMIT 1)"
        " FROM versions v JOIN stores s ON s.no = v.store WHERE v.seq > ? AND s.erased_at IS NULL",
        (seq,),
    )
    for store_id, path, path_before in found:
        paths[str(store_id)] |= {str(one) for one in (path, path_before) if one}
    return paths


def unfinished(records: SqlSnapshot, tree: FileTree, paths: set[str], since: int) -> FilePlan:
    """Return the plan for files that a killed process may not have written.

    `paths` were changed by versions with numbers above `since`. A file may have any text that was recorded at its path
    at `since` or later.
    """
    plan = FilePlan()
    for path in paths:
        with suppress(RetentiveError):
            tree.prune(path)
        rows = records.connection.rows(
            "SELECT v.seq, CASE WHEN v.path = ? AND v.operation <> 'deleted' THEN v.sha256 END FROM versions v"
            " WHERE v.store = ? AND v.memory IN (SELECT memory FROM versions WHERE store = ? AND path = ?) AND"
            " (v.path = ? OR ? = (SELECT p.path FROM versions p WHERE p.store = v.store AND p.memory = v.memory"
            " AND p.id < v.id ORDER BY p.id DESC LIMIT 1)) ORDER BY v.seq",
            (path, records.store, records.store, path, path, path),
        )
        hashes = [(cast("int", seq), cast("Hash", text)) for seq, text in rows]
        before = [text for seq, text in hashes if seq <= since][-1:] or [None]
        is_gone = records.get_unverified(path).memory is None
        plan.add(path, *before, *(text for seq, text in hashes if seq > since), is_gone=is_gone)
        if not is_gone:
            plan.spellings.add(path)
    return plan


def stale_files(records: SqlSnapshot, tree: FileTree, paths: set[str]) -> StaleFiles:
    """Return those of the entries at `paths` whose files a power cut may have left out of date."""
    stale: StaleFiles = {}
    for path in paths:
        with suppress(Damaged):  # the file may be the only good copy
            entry, kind, text = records.get(path), tree.state(path).kind, tree.read(path)
            if text != entry.data and kind is not FileKind.OTHER and could_be_stale(records, path, text):
                stale[path] = entry, text
    return stale


def could_be_stale(records: SqlSnapshot, path: str, text: bytes | None) -> bool:
    """Return True if a power cut can leave the bytes `text` in the file at a path. `text` is None without a file.

    The file may be missing, or contain the text of any recorded version of the path, or a beginning of one. In tests
    with power failures, hundreds of files contained an earlier version and dozens were empty; no file contained any
    other text. On XFS, zeros may stand where a text was not written yet. No text contains them.
    """
    if not text or b"\0" in text:
        return True
    versions = records.connection.rows(
        "SELECT DISTINCT coalesce(text_of, id) FROM versions WHERE store = ? AND path = ?", (records.store, path)
    )
    sql = "SELECT 1 FROM versions WHERE store = ? AND id = ? AND substr(text, 1, ?) = ?"
    return any(records.connection.rows(sql, (records.store, *row, len(text), text)) for row in versions)
