"""Compares the files of a directory with its database, and changes nothing."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Set
from contextlib import closing, suppress

from retentive.errors import RetentiveError
from retentive.storage.contract import Change, StoreInfo
from retentive.storage.exchange import Scratch
from retentive.storage.files.journal import digest_of, mount_id, read_journal
from retentive.storage.files.layout import PRIVATE, parts_of
from retentive.storage.files.transaction import DirectorySnapshot
from retentive.storage.files.tree import MAX_FILE_BYTES, FileKind, FileTree, OpenedDirectory, count_quarantined
from retentive.storage.files.writing import could_be_stale, hash_of, paths_changed_since, synced_number
from retentive.storage.findings import Finding, found
from retentive.storage.lock_file import LockFile
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.storage.sql.stores import select_stores
from retentive.values.paths import ROOT, is_editor_file, visible
from retentive.values.text import is_text

_LEFT_AFTER_S = 3_600.0  # a temporary file normally exists for a few milliseconds
_MOST = 1_000  # maximum number of findings of each code in one store


def examine_files(connection: Connection, base: int) -> Iterator[Finding]:
    """Compare the files of a directory with its database. Yields a finding for each difference.

    `base` is the descriptor of the directory.
    """
    synced = synced_number(connection)
    rows = connection.rows("SELECT count(*) FROM versions WHERE memory <> '' AND seq > ?", (synced,))
    if rows[0][0]:
        yield found("files_unsynced", None, f"{rows[0][0]!s} versions")
    if (aside := count_quarantined(base)) > 0:
        yield found("files_quarantined", None, f"{aside} files")
    if (left := _left_over(base)) > 0:
        yield found("files_left", None, f"{left} files")
    behind = paths_changed_since(connection, _written_number(base, synced))
    with closing(LockFile(PRIVATE, flags=os.O_RDONLY | os.O_DIRECTORY, directory=base)) as lock:
        for info in select_stores(connection, {}):
            tree = FileTree(base, parts_of(info), Scratch(-1))
            records = DirectorySnapshot(connection, info.id, tree, wants_stamps=False)
            try:
                edits = records.external_edits(ROOT)
                if edits:
                    with lock.held(shared=True):  # a commit may be in progress, so compare again under the lock
                        edits = records.external_edits(ROOT)
                yield from _limited(_difference(records, info, edit, behind.get(info.id, set())) for edit in edits)
                paths = connection.rows("SELECT path FROM memories WHERE store = ?", (records.store,))
                known = {str(path) for (path,) in paths} | {str(edit.path) for edit in edits}
                yield from _limited(_foreign(info, tree, known))
            except (OSError, RetentiveError):
                yield found("unreadable", info.id, "the directory of its files")


def _difference(records: DirectorySnapshot, info: StoreInfo, edit: Change, behind: Collection[str]) -> Finding:
    """Return the finding for a file that differs from its record.

    The code says that the file is stale, was tampered with, or was edited externally. Recovery uses the same rules.
    """
    path = str(edit.path if edit.before is None else edit.before.path)
    kind = records.tree.state(path).kind
    subject = visible(path) + ("" if kind is FileKind.FILE else f" ({kind.value})")
    if path in behind and could_be_stale(records, path, records.tree.read(path)):
        return found("file_stale", info.id, subject)
    if edit.before is None:
        return found("file_new", info.id, path)
    return found("file_edited" if info.seal is None else "file_altered", info.id, subject)


def _foreign(info: StoreInfo, tree: FileTree, known: Set[str]) -> Iterator[Finding]:
    """Yield a finding for each file that cannot be a memory, and for each empty directory."""
    for path, reason in _foreign_files(tree, known, is_encrypted=info.seal is not None)[0].items():
        if path == ROOT + "/":
            continue
        if path.endswith("/"):
            yield found("directory_empty", info.id, visible(path[:-1]))
        else:
            yield found("file_foreign", info.id, f"{visible(path)} ({reason})")


def _written_number(base: int, synced: int) -> int:
    """Return the number of the version up to which the files are written, and were not lost since."""
    with suppress(OSError), OpenedDirectory(base, (PRIVATE,)) as private:
        (applied, written_in), mount = read_journal(private), mount_id(base)
        if mount is not None and written_in == digest_of(mount):
            return max(applied, synced)
    return synced


def examine_plain(root: str) -> Iterator[Finding]:
    """Yield findings about a directory that has no bookkeeping folder.

    The first finding has the number of files that can be memories. The others name the entries that cannot be memories.
    """
    base = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        others, usable = _foreign_files(FileTree(base, ("memories",), Scratch(-1)))
    finally:
        os.close(base)
    yield found("directory_plain", None, f"({usable} files can be memories)")
    yield from _limited(
        found("file_foreign", None, f"{visible(path)} ({reason})")
        for path, reason in others.items()
        if not path.endswith("/")
    )


def _limited(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield at most 1,000 findings of each code.

    If a code has more findings, an extra finding with this code shows how many were left out.
    """
    counts: Counter[str] = Counter()
    for one in findings:
        counts[one.code] += 1
        if counts[one.code] <= _MOST:
            yield one
    for code, count in counts.items():
        if count > _MOST:
            yield found(code, None, f"and {count - _MOST} more")


def restore_texts(connection: Connection, store_id: str, read: Callable[[str], bytes | None]) -> None:
    """Replace each damaged text in the database with the text of its file, if the file matches the recorded hash.

    `read` returns the bytes of the file at a path. The caller commits.
    """
    snapshot = SqlSnapshot(connection, store_id)
    for memory, _ in list(snapshot.list(ROOT)) if snapshot.head.seal is None else ():
        if hash_of(snapshot.get_unverified(memory.path).data) == memory.sha256:
            continue
        text = read(memory.path)
        if hash_of(text) == memory.sha256:
            connection.run(
                "UPDATE versions SET text = ? WHERE store = ? AND sha256 = ? AND id ="
                " (SELECT coalesce(v.text_of, v.id) FROM versions v WHERE v.store = ? AND v.id = ?)",
                (text, snapshot.store, memory.sha256, snapshot.store, memory.version_id),
            )


def _foreign_files(
    tree: FileTree, known: Set[str] = frozenset(), *, is_encrypted: bool = False
) -> tuple[dict[str, str], int]:
    """Return what cannot be a memory, by path with the reason, and the number of other files outside `known`."""
    others: dict[str, str] = {}
    files = tree.scan(ROOT, known, others=others)
    for path in files.keys() - known:
        reason = "the store is encrypted" if is_encrypted else _why_not(tree, path, files[path])
        if reason is not None:
            others[path] = reason
    return dict(sorted(others.items())), len(files.keys() - others.keys())


def _why_not(tree: FileTree, path: str, status: os.stat_result) -> str | None:
    if is_editor_file(path.rpartition("/")[2]):
        return "a temporary or backup file of an editor"
    if status.st_nlink > 1:
        return "a file with more than one hard link"
    if status.st_size > MAX_FILE_BYTES:
        return "too large"
    data = tree.read(path)
    if data is None:
        return "cannot be read"
    return None if is_text(data) else "binary"


def _left_over(base: int) -> int:
    """Return the number of temporary files that killed processes did not remove."""
    old = time.time() - _LEFT_AFTER_S
    with suppress(OSError), OpenedDirectory(base, (PRIVATE, "tmp")) as scratch, os.scandir(scratch) as entries:
        return sum(entry.stat(follow_symlinks=False).st_mtime < old for entry in entries)
    return 0
