"""Compares the files of a directory with its database, and changes nothing."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Set
from contextlib import closing, suppress
from functools import partial
from hashlib import sha256

from retentive.errors import RetentiveError
from retentive.storage.contract import Change, StoreInfo
from retentive.storage.exchange import Scratch
from retentive.storage.files.following import (
    changed_since,
    could_be_stale,
    mount_id,
    read_journal,
    synced_number,
)
from retentive.storage.files.layout import PRIVATE, parts_of
from retentive.storage.files.transaction import DirectorySnapshot
from retentive.storage.files.tree import MAX_FILE_BYTES, FileKind, FileTree, count_quarantined, opened_directory
from retentive.storage.findings import Finding, found
from retentive.storage.lock_file import LockFile
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.stores import select_stores
from retentive.values.paths import ROOT, is_editor_file, visible
from retentive.values.text import is_text


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
    behind = changed_since(connection, _written_number(base, synced))
    with closing(LockFile(PRIVATE, flags=os.O_RDONLY | os.O_DIRECTORY, directory=base)) as lock:
        for info in select_stores(connection, {}):
            tree = FileTree(base, parts_of(info), Scratch(-1))
            compared = partial(DirectorySnapshot, connection, info.id, tree, wants_stamps=False)
            try:
                edits = (records := compared()).external_edits(ROOT)
                if edits:
                    with lock.held(shared=True):  # a commit may be in progress, so compare again under the lock
                        edits = compared().external_edits(ROOT)
                doubtful = behind.get(info.id, {}).keys()
                yield from (_difference(records, info, edit, doubtful) for edit in edits)
                paths = connection.rows("SELECT path FROM memories WHERE store = ?", (records.store,))
                known = {str(path) for (path,) in paths} | {str(edit.path) for edit in edits}
                others, _ = _foreign_files(tree, known, is_encrypted=info.seal is not None)
                yield from (found("file_foreign", info.id, other) for other in others)
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


def _written_number(base: int, synced: int) -> int:
    """Return the number of the version up to which the files are written, and were not lost since."""
    with suppress(OSError), opened_directory(base, (PRIVATE,)) as private:
        (applied, written_in), mount = read_journal(private), mount_id(base)
        if mount is not None and written_in == sha256(mount.encode()).digest():
            return max(applied, synced)
    return synced


def examine_plain(root: str) -> Iterator[Finding]:
    """Examine a directory of memories without bookkeeping. Yields one finding for it, and one for each foreign file."""
    base = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        others, usable = _foreign_files(FileTree(base, ("memories",), Scratch(-1)))
    finally:
        os.close(base)
    yield found("directory_plain", None, f"({usable} files can be memories)")
    yield from (found("file_foreign", None, other) for other in others)


def _foreign_files(
    tree: FileTree, known: Set[str] = frozenset(), *, is_encrypted: bool = False
) -> tuple[list[str], int]:
    """Return what cannot be a memory, with the reason, and the number of other files outside `known`."""
    others: dict[str, str] = {}
    files = tree.scan(ROOT, known, others=others)
    for path in files.keys() - known:
        reason = "the store is encrypted" if is_encrypted else _why_not(tree, path, files[path])
        if reason is not None:
            others[path] = reason
    usable = len(files.keys() - others.keys())
    return [f"{visible(path)} ({reason})" for path, reason in sorted(others.items())], usable


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
