"""Read-only check of the files of a directory against its database."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from retentive.errors import Refused
from retentive.storage.contract import StoreInfo
from retentive.storage.files.folders import PRIVATE, parts_of
from retentive.storage.files.intents import newest_number, paths_changed_since, synced_number
from retentive.storage.files.quarantine import StoreTree, count_quarantined
from retentive.storage.files.sync import stale_paths
from retentive.storage.files.temporary import Scratch
from retentive.storage.files.tree import MAX_FILE_BYTES, Kind
from retentive.storage.findings import Finding, found
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot
from retentive.storage.sql.stores import select_stores
from retentive.values.paths import ROOT, MemoryPath, visible
from retentive.values.text import is_text

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LEFT_AFTER_S = 3_600.0  # a temporary file normally exists for milliseconds
_MOST = 1_000  # findings of one code for one store
_MAX_DEPTH = 64


class _Entry(NamedTuple):
    """Entry below the directory of a store; `why` is the reason it cannot be a memory, or None."""

    path: str
    why: str | None


def examine_files(connection: Connection, base: int) -> Iterator[Finding]:
    """Compare the files below the directory open as `base` with the database, and report foreign entries."""
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
    behind = paths_changed_since(connection, min(synced, newest))
    lock = _Lock(base)
    try:
        for info in select_stores(connection, None, None):
            tree = StoreTree(base, parts_of(info), Scratch(-1))
            paths = behind.get(info.id, set())
            store = _StoreFiles(connection, info.id, tree, lock, paths, sealed=info.seal is not None)
            yield from _store(store, base, info)
    finally:
        lock.close()


def _store(store: _StoreFiles, base: int, info: StoreInfo) -> Iterator[Finding]:
    try:
        yield from _first(store.compare())
        yield from _first(_beside(base, parts_of(info), info.id, store.is_memory))
    except OSError:
        yield found("unreadable", info.id, "the directory of its files")


def _first(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Limit findings to a thousand of each code, plus a count of the rest."""
    counts: dict[str, int] = {}
    for one in findings:
        counts[one.code] = counts.get(one.code, 0) + 1
        if counts[one.code] <= _MOST:
            yield one
    for code, count in counts.items():
        if count > _MOST:
            yield found(code, None, f"and {count - _MOST} more")


class _StoreFiles:
    """Files of one store, compared with its records. `behind` are paths whose files may not be written yet."""

    def __init__(
        self, connection: Connection, store_id: str, tree: StoreTree, lock: _Lock, behind: set[str], *, sealed: bool
    ) -> None:
        self._snapshot = SqlSnapshot(connection, store_id)
        self._id = store_id
        self._tree = tree
        self._behind = behind
        self._sealed = sealed
        self._lock = lock
        self._recorded = {memory.path for memory in self._snapshot.memories(ROOT)}

    def compare(self) -> Iterator[Finding]:
        """Yield a finding for each file that differs from its record."""
        for path in (*self._recorded, *sorted(self._behind - self._recorded)):
            if self._differs(path):
                with self._lock.held():  # its commit may be in progress: compare again under the lock
                    if self._differs(path):
                        yield found(self._code(path), self._id, visible(path) + self._instead(path))

    def _differs(self, path: str) -> bool:
        data, state = self._snapshot.get(path).data, self._tree.state(path)
        if data is None:
            return path in self._behind and state.kind is Kind.FILE
        return state.kind is not Kind.FILE or self._tree.read(path) != data

    def _code(self, path: str) -> str:
        """Finding code for a file that differs: stale, altered or external edit, as recovery would classify it."""
        if path in self._behind:
            text = self._tree.read(path)
            if not text or stale_paths(self._snapshot.connection, self._snapshot.store, {path: text}):
                return "file_stale"
        return "file_altered" if self._sealed else "file_edited"

    def _instead(self, path: str) -> str:
        """Kind of the entry at a path, in parentheses; empty for a regular file."""
        kind = self._tree.state(path).kind
        return "" if kind is Kind.FILE else f" ({kind.value})"

    def is_memory(self, entry: _Entry) -> Finding | None:
        """Finding for an entry that is not a memory, else None."""
        if entry.path in self._recorded or entry.path in self._behind:
            return None
        why = entry.why or ("the store is sealed" if self._sealed else _no_text(self._tree.read(entry.path)))
        if why is not None:
            return found("file_foreign", self._id, f"{visible(entry.path)} ({why})")
        with self._lock.held():  # it may have been recorded or removed meanwhile
            if self._snapshot.get(entry.path).memory is not None or self._tree.state(entry.path).kind is not Kind.FILE:
                return None
        return found("file_new", self._id, entry.path)


class _Lock:
    """Shared lock over database and files; writers wait for it."""

    def __init__(self, base: int) -> None:
        self._descriptor = os.open(f"{PRIVATE}/lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=base)

    @contextmanager
    def held(self) -> Iterator[None]:
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._descriptor)


def _no_text(data: bytes | None) -> str | None:
    """Reason that data is not a valid memory text, or None."""
    if data is None:
        return "cannot be read"
    return None if is_text(data) else "binary"


def _left_over(base: int) -> int:
    """Number of temporary files left by killed processes."""
    try:
        private = os.open(PRIVATE, _DIRECTORY, dir_fd=base)
    except OSError:
        return 0
    try:
        scratch = os.open("tmp", _DIRECTORY, dir_fd=private)
    except OSError:
        return 0
    finally:
        os.close(private)
    try:
        old = time.time() - _LEFT_AFTER_S
        with os.scandir(scratch) as entries:
            return sum(entry.stat(follow_symlinks=False).st_mtime < old for entry in entries)
    except OSError:
        return 0
    finally:
        os.close(scratch)


def _beside(
    base: int, parts: tuple[str, ...], store_id: str, look: Callable[[_Entry], Finding | None]
) -> Iterator[Finding]:
    """Findings for foreign files and empty directories below the directory of a store."""
    descriptor = base
    try:
        for name in parts:
            above = descriptor
            try:
                descriptor = os.open(name, _DIRECTORY, dir_fd=above)
            except FileNotFoundError:  # created with the first memory
                descriptor = above
                return
            finally:
                if above not in {base, descriptor}:
                    os.close(above)
        for entry in _walk(descriptor, ROOT, 0):
            if entry.path.endswith("/"):
                yield found("directory_empty", store_id, visible(entry.path[:-1]))
            elif (finding := look(entry)) is not None:
                yield finding
    finally:
        if descriptor != base:
            os.close(descriptor)


def _walk(directory: int, under: str, depth: int) -> Iterator[_Entry]:
    """Yield entries in name order; the path of an empty directory ends with `/`."""
    with os.scandir(directory) as entries:
        inside = sorted(entries, key=lambda entry: entry.name)
    if not inside and under != ROOT:
        yield _Entry(under + "/", None)
    for entry in inside:
        path = f"{under}/{entry.name}"
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(status.st_mode) and depth < _MAX_DEPTH:
            yield from _inner(entry.name, directory, path, depth)
        else:
            yield _Entry(path, _why_not(path, status))


def _inner(name: str, directory: int, path: str, depth: int) -> Iterator[_Entry]:
    if not _nameable(path):
        yield _Entry(path, "a name no memory can have")
        return
    try:
        inner = os.open(name, _DIRECTORY, dir_fd=directory)
    except OSError:
        yield _Entry(path, "cannot be opened")
        return
    try:
        yield from _walk(inner, path, depth + 1)
    finally:
        os.close(inner)


def _why_not(path: str, status: os.stat_result) -> str | None:
    if stat.S_ISLNK(status.st_mode):
        return "a link"
    if not stat.S_ISREG(status.st_mode):
        return "no regular file"
    if not _nameable(path):
        return "a name no memory can have"
    if status.st_nlink > 1:
        return "a file with a second name"
    return "too large" if status.st_size > MAX_FILE_BYTES else None


def _nameable(path: str) -> bool:
    try:
        return MemoryPath.parse(path).text == path
    except Refused:
        return False
