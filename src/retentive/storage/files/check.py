"""Compares the files of a directory with its database, and changes nothing."""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

from retentive.storage.contract import StoreInfo
from retentive.storage.exchange import Scratch
from retentive.storage.files.comparison import is_recorded
from retentive.storage.files.directories import OpenedDirectory
from retentive.storage.files.journal import digest_of, mount_id, read_journal
from retentive.storage.files.layout import PRIVATE, parts_of
from retentive.storage.files.numbering import newest_number, paths_changed_since, synced_number
from retentive.storage.files.sync import could_be_stale
from retentive.storage.files.tree import MAX_FILE_BYTES, FileKind, FileTree, count_quarantined, is_memory_path
from retentive.storage.findings import Finding, found
from retentive.storage.lock_file import LockFile
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.storage.sql.stores import select_stores
from retentive.values.paths import ROOT, is_editor_file, is_reserved, visible
from retentive.values.text import is_text

_LEFT_AFTER_S = 3_600.0  # a temporary file normally exists for a few milliseconds
_MOST = 1_000  # maximum number of findings of each code in one store


def examine_files(connection: Connection, base: int) -> Iterator[Finding]:
    """Compare the files of a directory with its database. Yields a finding for each difference.

    `base` is the descriptor of the directory.
    """
    synced, newest = synced_number(connection), newest_number(connection)
    unsynced = int(connection.rows("SELECT count(*) FROM versions WHERE store <> 0 AND seq > ?", (synced,))[0][0] or 0)
    if unsynced:
        yield found("files_unsynced", None, f"{unsynced} versions")
    if newest < synced:
        yield found("sync_ahead", None, f"{synced - newest} versions")
    if (aside := count_quarantined(base)) > 0:
        yield found("files_quarantined", None, f"{aside} files")
    if (left := _left_over(base)) > 0:
        yield found("files_left", None, f"{left} files")
    behind = paths_changed_since(connection, _written_number(base, min(synced, newest)))
    with closing(LockFile(PRIVATE, flags=os.O_RDONLY | os.O_DIRECTORY, directory=base)) as lock:
        for info in select_stores(connection, {}):
            store = _StoreFiles(connection, base, info, lock, behind.get(info.id, set()))
            try:
                yield from _limited(store.compare())
                yield from _limited(store.foreign())
            except OSError:
                yield found("unreadable", info.id, "the directory of its files")


def _written_number(base: int, synced: int) -> int:
    """Return the number of the version up to which the files are written, and were not lost since."""
    with suppress(OSError), OpenedDirectory(base, (PRIVATE,)) as private:
        journal, mount = read_journal(private), mount_id(base)
        if mount is not None and journal.mount == digest_of(mount):
            return max(journal.applied, synced)
    return synced


def examine_plain(root: str) -> Iterator[Finding]:
    """Yield findings about a directory that has no bookkeeping folder.

    The first finding has the number of files that can be memories. The others name the entries that cannot be memories.
    """
    base = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        tree, foreign, usable = FileTree(base, ("memories",), Scratch(-1)), list[Finding](), 0
        with OpenedDirectory(base, ("memories",)) as directory:
            for path, why in _walk(directory, ROOT):
                if path.endswith("/"):
                    continue
                if (reason := why or _no_text(tree.read(path))) is None:
                    usable += 1
                else:
                    foreign.append(found("file_foreign", None, f"{visible(path)} ({reason})"))
        yield found("directory_plain", None, f"({usable} files can be memories)")
        yield from _limited(iter(foreign))
    finally:
        os.close(base)


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


class _StoreFiles:
    """Comparison of the files of one store with its records.

    `behind` has the paths whose files may be older than their records.
    """

    def __init__(self, connection: Connection, base: int, info: StoreInfo, lock: LockFile, behind: set[str]) -> None:
        self._snapshot = SqlSnapshot(connection, info.id)
        self._id = info.id
        self._base, self._parts = base, parts_of(info)
        self._tree = FileTree(base, self._parts, Scratch(-1))
        self._behind = behind
        self._sealed = info.seal is not None
        self._lock = lock
        self._recorded = {memory.path for memory in self._snapshot.memories(ROOT)}

    def compare(self) -> Iterator[Finding]:
        """Yield a finding for each file that differs from its record."""
        for path in (*self._recorded, *sorted(self._behind - self._recorded)):
            if self._differs(path):
                with self._lock.held(shared=True):  # a commit may be in progress, so compare again under the lock
                    if self._differs(path):
                        kind = self._tree.state(path).kind
                        instead = "" if kind is FileKind.FILE else f" ({kind.value})"
                        yield found(self._code(path), self._id, visible(path) + instead)

    def _differs(self, path: str) -> bool:
        (entry, _), state = self._snapshot.get_marked(path), self._tree.state(path)
        if entry.memory is None:
            return path in self._behind and state.kind is FileKind.FILE
        return state.kind is not FileKind.FILE or not is_recorded(self._tree.read(path), entry)

    def _code(self, path: str) -> str:
        """Return the code of the finding for a file that differs from its record.

        The code says that the file is stale, was tampered with, or was edited externally. Recovery uses the same rules.
        """
        if path in self._behind:
            text = self._tree.read(path)
            if could_be_stale(self._snapshot, path, text):
                return "file_stale"
        return "file_altered" if self._sealed else "file_edited"

    def foreign(self) -> Iterator[Finding]:
        """Yield a finding for each file that has no record, and for each empty directory."""
        with (
            suppress(FileNotFoundError),
            OpenedDirectory(self._base, self._parts) as directory,
        ):  # the first memory creates it
            for path, why in _walk(directory, ROOT):
                if path.endswith("/"):
                    yield found("directory_empty", self._id, visible(path[:-1]))
                elif path not in self._recorded and path not in self._behind:
                    yield from self._without_record(path, why)

    def _without_record(self, path: str, why: str | None) -> Iterator[Finding]:
        why = why or ("the store is encrypted" if self._sealed else _no_text(self._tree.read(path)))
        if why is not None:
            yield found("file_foreign", self._id, f"{visible(path)} ({why})")
            return
        with self._lock.held(shared=True):  # the file may have been recorded or removed meanwhile
            has_record = self._snapshot.get_marked(path)[0].memory is not None
            if not has_record and self._tree.state(path).kind is FileKind.FILE:
                yield found("file_new", self._id, path)


def restore_texts(connection: Connection, store_id: str, read: Callable[[str], bytes | None]) -> None:
    """Replace each damaged text in the database with the text of its file, if the file matches the recorded hash.

    `read` returns the bytes of the file at a path. The caller commits.
    """
    snapshot = SqlSnapshot(connection, store_id)
    for memory in list(snapshot.memories(ROOT)) if snapshot.seal is None else ():
        entry, _ = snapshot.get_marked(memory.path)
        text = read(memory.path)
        if text != entry.data and is_recorded(text, entry):
            connection.run(
                "UPDATE versions SET text = ? WHERE store = ? AND sha256 = ? AND id ="
                " (SELECT text_of FROM memories WHERE store = ? AND path = ?)",
                (text, snapshot.store, memory.sha256, snapshot.store, memory.path),
            )


def _no_text(data: bytes | None) -> str | None:
    """Return the reason why `data` cannot be the text of a memory, or None if there is no such reason."""
    if data is None:
        return "cannot be read"
    return None if is_text(data) else "binary"


def _left_over(base: int) -> int:
    """Return the number of temporary files that killed processes did not remove."""
    old = time.time() - _LEFT_AFTER_S
    with suppress(OSError), OpenedDirectory(base, (PRIVATE, "tmp")) as scratch, os.scandir(scratch) as entries:
        return sum(entry.stat(follow_symlinks=False).st_mtime < old for entry in entries)
    return 0


def _walk(directory: int, under: str) -> Iterator[tuple[str, str | None]]:
    """Yield, in name order, the paths of all files and empty directories below a directory.

    The path of an empty directory ends with `/`. Each path comes with the reason why the entry cannot be a memory, or
    with None.
    """
    with os.scandir(directory) as entries:
        inside = sorted(entries, key=lambda entry: entry.name)
    if not inside and under != ROOT:
        yield under + "/", None
    for entry in inside:
        if is_reserved(entry.name):
            continue
        path = f"{under}/{entry.name}"
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        why = _why_not(path, status)
        if why is not None or not stat.S_ISDIR(status.st_mode):
            yield path, why
            continue
        try:
            with OpenedDirectory(directory, [entry.name]) as inner:
                yield from _walk(inner, path)
        except OSError:
            yield path, "cannot be opened"


def _why_not(path: str, status: os.stat_result) -> str | None:
    """Return the reason why an entry is ignored, or None if it can be a memory or a directory of memories."""
    if stat.S_ISLNK(status.st_mode):
        return "a link"
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        return "not a regular file"
    if not is_memory_path(path):
        return "an invalid name for a memory"
    if stat.S_ISDIR(status.st_mode):
        return None
    if is_editor_file(path.rpartition("/")[2]):
        return "a temporary or backup file of an editor"
    if status.st_nlink > 1:
        return "a file with more than one hard link"
    return "too large" if status.st_size > MAX_FILE_BYTES else None
