"""Compares the files of a directory with its database, and changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from contextlib import closing
from functools import partial

from retentive.errors import RetentiveError
from retentive.storage.disk import Scratch
from retentive.storage.files.transaction import DirectorySnapshot
from retentive.storage.files.tree import MAX_FILE_BYTES, PRIVATE, FileKind, FileTree, parts_of
from retentive.storage.findings import Finding, found
from retentive.storage.lock_file import LockFile
from retentive.storage.sql.backend import select_stores
from retentive.storage.sql.connection import Connection
from retentive.values.paths import ROOT, is_editor_file, visible
from retentive.values.text import is_text


def examine_files(connection: Connection, base: int) -> Iterator[Finding]:
    """Compare the files of a directory with its database. Yields a finding for each difference.

    `base` is the descriptor of the directory.
    """
    with closing(LockFile(PRIVATE, flags=os.O_RDONLY | os.O_DIRECTORY, directory=base)) as lock:
        for info in select_stores(connection, {}):
            if (parts := parts_of(info)) is None:
                continue
            tree = FileTree(base, parts, Scratch(-1))
            compared = partial(DirectorySnapshot, connection, info.id, tree, wants_stamps=False)
            try:
                edits = (records := compared()).external_edits(ROOT)
                if edits:
                    with lock.held(shared=True):  # a commit may be in progress, so compare again under the lock
                        edits = compared().external_edits(ROOT)
                for edit in edits:
                    path = str(edit.path if edit.before is None else edit.before.path)
                    kind = tree.state(path).kind
                    subject = visible(path) + ("" if kind is FileKind.FILE else f" ({kind.value})")
                    yield found("file_new" if edit.before is None else "file_edited", info.id, subject)
                paths = connection.rows("SELECT path FROM memories WHERE store = ?", (records.store,))
                known = {str(path) for (path,) in paths} | {str(edit.path) for edit in edits}
                yield from (found("file_foreign", info.id, other) for other in _foreign_files(tree, known)[0])
            except (OSError, RetentiveError):
                yield found("unreadable", info.id, "the directory of its files")


def examine_plain(root: str) -> Iterator[Finding]:
    """Examine a directory of memories without bookkeeping. Yields one finding for it, and one for each foreign file."""
    base = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        others, usable = _foreign_files(FileTree(base, ("memories",), Scratch(-1)))
    finally:
        os.close(base)
    yield found("directory_plain", None, f"({usable} files can be memories)")
    yield from (found("file_foreign", None, other) for other in others)


def _foreign_files(tree: FileTree, known: Set[str] = frozenset()) -> tuple[list[str], int]:
    """Return what cannot be a memory, with the reason, and the number of other files outside `known`."""
    others: dict[str, str] = {}
    files = tree.scan(ROOT, known, others=others)
    for path in files.keys() - known:
        if (reason := _why_not(tree, path, files[path])) is not None:
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
