"""Snapshot and transaction of a memory store in a directory. Both compare the files with their records.

A file is unchanged if its stamp (inode, size, mtime and ctime) is the one that is stored with the version in the table
`files`. Otherwise the text is compared. A stamp is stored only if the last change is older than any clock tick of a
file system, since a later change within the same tick would leave it as it is (Git's rule for racy timestamps).
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from typing import TypeAlias, cast

from retentive.errors import Refused, Unavailable
from retentive.storage.contract import (
    EXTERNAL,
    Actor,
    Again,
    Change,
    Clock,
    Deleted,
    Entry,
    Memory,
    NewId,
    Recorded,
    create_or_update,
    verified,
)
from retentive.storage.files.tree import FileKind, FileTree, Hash, hash_of, stamp_of
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot, StoreHead, below
from retentive.storage.sqlite.backend import SqliteTransaction
from retentive.values.paths import ROOT, ancestors, is_editor_file
from retentive.values.provenance import Contributor, of_external_edit
from retentive.values.records import RECOVERY
from retentive.values.text import is_text

_FileRow: TypeAlias = "tuple[str, str, str | None, str | None]"
StaleFiles: TypeAlias = "dict[str, tuple[Entry, bytes | None]]"
"""Entries whose files a power cut may have left out of date, by path, each with the contents of its file."""
_MAX_TRIES = 5
_SETTLED_NS = 3_000_000_000  # longer than the clock tick of any file system; FAT stores every second second
_MANY_BYTES = 1_000_000  # if a read compares this much text, it is worth a commit to store the stamps
_FILE_BYTES = 20_000  # reading so many bytes takes as long as opening a file
_NO_TEXT = ""  # version in the table `files` of a file that cannot be a memory
_FILES = (  # the hash is read only where a stamp is missing
    f"SELECT path, '{_NO_TEXT}', stamp, NULL FROM files WHERE store = ? AND path > ? AND path < ?"
    f" AND version = '{_NO_TEXT}' UNION ALL SELECT m.path, m.newest, f.stamp, CASE WHEN f.stamp IS NULL THEN"
    " (SELECT v.sha256 FROM versions v WHERE v.store = m.store AND v.id = m.newest) END FROM memories m"
    " LEFT JOIN files f ON f.store = m.store AND f.path = m.path AND f.version = m.newest"
    " WHERE m.store = ? AND m.path > ? AND m.path < ?"
)


class ExternalEdit(Exception):
    """A read found a file that differs from its record. The read is repeated in a transaction that records the edit."""


class Unwritten:
    """Paths whose files do not follow the database yet. At, above and below these paths, the database is right.

    `seen` has the hash of the text that was in the file, by path, if it is known.
    """

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self.paths: set[str] = set()
        self.seen: dict[str, Hash] = {}
        self._above: set[str] = set()
        self.add(paths)

    def see(self, path: str, digest: Hash) -> None:
        """Note the hash of the text in a file, unless an earlier change of the batch has changed the path."""
        if path not in self.paths:
            self.seen.setdefault(path, digest)

    def add(self, paths: Iterable[str]) -> None:
        """Add paths that a transaction changes."""
        for path in paths:
            self.paths.add(path)
            self._above.update(ancestors(path))

    def covers(self, path: str) -> bool:
        """Return True if the file at a path, or a file above or below it, is not written yet."""
        return path in self.paths or path in self._above or not self.paths.isdisjoint(ancestors(path))


class DirectorySnapshot(SqlSnapshot):
    """Snapshot that compares files with their records in the database before it answers a query.

    Methods raise `ExternalEdit` if a file differs, or if much text was compared because stamps are missing and
    `wants_stamps` is true.
    """

    _is_locked = False

    def __init__(self, connection: Connection, store_id: str, tree: FileTree, *, wants_stamps: bool = True) -> None:
        super().__init__(connection, store_id)
        self._start(tree, Unwritten(), wants_stamps=wants_stamps)

    def _start(self, tree: FileTree, unwritten: Unwritten, *, wants_stamps: bool) -> None:
        self.tree = tree
        self._unwritten = unwritten
        self._wants_stamps = wants_stamps
        self._clean: set[str] = set()  # paths below which the files were compared
        self._stamps: dict[str, tuple[str, os.stat_result]] = {}  # version and state of files whose text was compared
        self._compared_bytes = 0

    def get(self, path: str) -> Entry:
        for _ in range(_MAX_TRIES):
            entry = self.get_unverified(path)
            if self._unwritten.covers(path) or self._is_as_recorded(path, entry):
                break
            edits = self.external_edits(path)
            if not edits:
                self._check_usable(path, entry)
                break
            self._differs(edits)
        if entry.memory is not None:
            verified(entry.data, entry.memory.sha256, entry.memory.seal, path)
        return entry  # if the file changes continuously, the latest recorded state is a valid answer

    def list(
        self, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        edits = self.external_edits(under)
        if edits:
            self._differs(edits)
        return super().list(under, start=start, limit=limit, one_level=one_level, texts=texts)

    def _differs(self, edits: Sequence[Change]) -> None:
        raise ExternalEdit

    def _settled(self) -> Sequence[tuple[int, str, str, str]]:
        """Return the rows for the table `files` of compared files whose stamp each later change must change."""
        before_ns = self.tree.scratch.now_ns() - _SETTLED_NS
        return [
            (self.store, path, version, stamp_of(status))
            for path, (version, status) in self._stamps.items()
            if max(status.st_ctime_ns, status.st_mtime_ns) < before_ns and path not in self._unwritten.paths
        ]

    def external_edits(self, path: str) -> Sequence[Change]:
        """Return the changes that make the records match the files at, above and below a path.

        Deletions come first, because a directory may have taken the place of a deleted file. The files below a path are
        compared once.
        """
        at = () if path == ROOT else (*ancestors(path), path)
        edits = [self._edit(one, self.tree.state(one).file) for one in at]
        if not any(path == one or path.startswith(one + "/") for one in self._clean):
            edits += self._edits_below(path)
            self._clean.add(path)
        return sorted((edit for edit in edits if edit is not None), key=lambda change: change.path is not None)

    def _edits_below(self, under: str) -> Sequence[Change | None]:
        rows = cast("list[_FileRow]", self.connection.rows(_FILES, (self.store, *below(under)) * 2))
        recorded = {path: (version, stamp, digest) for path, version, stamp, digest in rows}
        memories = {path for path, (version, _, _) in recorded.items() if version != _NO_TEXT}
        files, edits = self.tree.scan(under, memories), list[Change | None]()
        digests = self.tree.digests(path for path, (_, _, digest) in recorded.items() if digest and path in files)
        for path in sorted(memories | files.keys()):
            file, (version, stamp, digest) = files.get(path), recorded.get(path, (_NO_TEXT, None, None))
            if file is not None and path in digests and digests[path] == digest:
                self._note(path, version, file)
            elif file is None or stamp != stamp_of(file):
                edits.append(self._edit(path, file))
        if self._wants_stamps and self._compared_bytes > _MANY_BYTES and self._settled():
            raise ExternalEdit
        return edits

    def _edit(self, path: str, file: os.stat_result | None) -> Change | None:
        """Return the change that makes the record match the file at a path, or None if it matches."""
        if self._unwritten.covers(path):
            return None
        entry = self.get_unverified(path)
        memory = entry.memory
        if memory is not None and file is not None and self._is_recorded(path, entry):
            self._note(path, memory.version_id, file)
            return None
        text = None if file is None else self._text(path, file, is_new=memory is None)
        if text is None:
            return None if memory is None else Deleted(memory)
        earlier = None if memory is None else memory.provenance_text
        own = Contributor(f"{self.head.revision:x}", str(EXTERNAL))
        return create_or_update(memory, path, text, of_external_edit(earlier, own))

    def _is_as_recorded(self, path: str, entry: Entry) -> bool:
        """Return True if one look at a file shows that it is as recorded."""
        if entry.memory is not None:
            return self._is_recorded(path, entry)
        kind = self.tree.state(path).kind
        if kind is FileKind.OTHER_SPELLING:
            raise Refused("path_folds", path=path)
        return kind is FileKind.MISSING and not entry.below and entry.above is None

    def _check_usable(self, path: str, entry: Entry) -> None:
        """Raise `Refused` if a path without a memory has something that cannot become one."""
        kind = self.tree.state(path).kind
        if entry.exists or entry.above is not None or kind in {FileKind.MISSING, FileKind.DIRECTORY}:
            return
        if not self._is_locked:  # another process may just have written the file, so compare again under the lock
            raise ExternalEdit
        is_file = {"is_file": True} if kind is FileKind.FILE else {}  # no link, and not a file above the path
        raise Refused("path_taken", path=path, **is_file)

    def _is_recorded(self, path: str, entry: Entry) -> bool:
        """Return True if a file contains the recorded text. If that is damaged in the database, its hash decides."""
        text = self.tree.read(path)
        if text is None or entry.memory is None:
            return False
        return text == entry.data or hash_of(text) == entry.memory.sha256

    def _text(self, path: str, file: os.stat_result, *, is_new: bool) -> bytes | None:
        """Return the text of a file if it can be a memory, otherwise None.

        The text must be UTF-8 without NUL. A file with a second hard link may belong to another application, so it
        cannot become a memory. Nor can a backup file of an editor become a new memory.
        """
        if is_new and is_editor_file(path.rpartition("/")[2]):
            return None
        text = self.tree.read(path) if file.st_nlink == 1 else None
        if text is not None and is_text(text):
            return text
        self._note(path, _NO_TEXT, file)
        return None

    def _note(self, path: str, version: str, file: os.stat_result) -> None:
        self._stamps[path] = version, file
        self._compared_bytes += _FILE_BYTES + file.st_size


class DirectoryTransaction(DirectorySnapshot, SqliteTransaction):
    """Transaction that records external edits.

    The transactions of a batch share `unwritten`. `sync` makes the files of all earlier commits durable.
    """

    _is_locked = True

    def __init__(
        self,
        connection: Connection,
        store_id: str,
        heads: dict[str, StoreHead],
        tree: FileTree,
        *,
        unwritten: Unwritten,
        sync: Callable[[Connection], None],
        clock: Clock,
        new_id: NewId,
    ) -> None:
        SqliteTransaction.__init__(self, connection, store_id, heads, clock=clock, new_id=new_id)
        self._start(tree, unwritten, wants_stamps=False)
        self._sync = sync

    def finish(self) -> bool:
        """Store the stamps of compared files if this transaction is committed anyway, or if there are many."""
        if self._stamps and (self.changed or self._compared_bytes > _MANY_BYTES):
            stamps = self._settled()
            sql = "INSERT OR REPLACE INTO files (store, path, version, stamp) VALUES (?, ?, ?, ?)"
            for stamp in stamps:
                self.connection.run(sql, stamp)
            self.changed = self.changed or bool(stamps)
        return SqliteTransaction.finish(self)

    def _differs(self, edits: Sequence[Change]) -> None:
        """Record changes that were made to the files from outside."""
        for edit in edits:
            if edit.before is not None:
                self._unwritten.seen[edit.before.path] = None
            if edit.path is not None:
                self._unwritten.seen[edit.path] = hash_of(edit.data)
        SqliteTransaction.record(self, edits, EXTERNAL)

    def recover(self, stale: StaleFiles) -> None:
        """After a power cut, record what the stale files contain. Then change them back to what was recorded."""
        for path, (entry, text) in stale.items():
            if text is not None and b"\0" in text and entry.data is not None:  # no version can have this text
                with suppress(OSError):
                    self.tree.put(path, entry.data, {hash_of(text)})
            with suppress(Refused):
                self.get(path)
        for path, (entry, _) in sorted(stale.items(), key=lambda item: item[1][0].memory is not None):
            with suppress(Refused):  # something else stands there now
                self._change_back(path, entry)

    def _change_back(self, path: str, entry: Entry) -> None:
        now, before = SqliteTransaction.get(self, path), entry.memory
        if now.data == entry.data or now.above is not None or now.below:
            return
        if before is not None:
            again, data = Again(before.id, before.created_at), entry.data or b""
            self.record([create_or_update(now.memory, path, data, before.provenance_text, again)], RECOVERY)
        elif now.memory is not None:
            self.record([Deleted(now.memory)], RECOVERY)

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        leaving = {change.before.path for change in changes if change.before is not None}
        entering = {change.path for change in changes if change.path is not None}
        added = [
            change.path
            for change in changes
            if change.path is not None and (change.before is None or change.before.path != change.path)
        ]
        if self.tree.folds:
            self._check_spelling(added, leaving)
        freed = self._unwritten.paths | leaving
        for path in added:
            self._check_free(path, freed)
        for change in changes:
            if (memory := change.before) is not None:
                self._unwritten.see(memory.path, memory.sha256)
            if change.path is not None:
                self._unwritten.see(change.path, None)
        self._unwritten.add(leaving | entering)
        result = super().record(changes, actor)
        for path in leaving - entering:
            self.connection.run("DELETE FROM files WHERE store = ? AND path = ?", (self.store, path))
        return result

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        self._need_synced(version_ids)
        super().redact(version_ids, actor)

    def prune(self, version_ids: Sequence[str]) -> None:
        self._need_synced(version_ids)
        super().prune(version_ids)

    def _need_synced(self, version_ids: Iterable[str]) -> None:
        """Make the files of versions that will be removed durable, because recovery needs the versions until then."""
        later = "SELECT 1 FROM versions WHERE store = ? AND id = ? AND seq > (SELECT seq FROM synced)"
        newest = (self.store, max(version_ids, default=""))
        if self.connection.rows(later, newest):
            self._sync(self.connection)
            if self.connection.rows(later, newest):
                raise Unavailable("the files of the memory store could not be written yet")

    def _check_spelling(self, added: Sequence[str], leaving: Set[str]) -> None:
        """Raise `Refused` if a new path differs only in its spelling from another path whose file is not written yet.

        On a file system that ignores case or Unicode form, both paths would have the same file.
        """
        waiting = sorted(path for path in self._unwritten.paths - leaving if self.get_unverified(path).memory)
        spelled: dict[str, str] = {}
        for path in (*waiting, *added):
            for name in (*ancestors(path), path):
                plain = name.translate({0x200C: None, 0x200D: None})  # HFS+ ignores joiners
                folded = unicodedata.normalize("NFD", unicodedata.normalize("NFD", plain).casefold())
                if spelled.setdefault(folded, name) != name:
                    raise Refused("path_folds", path=path)

    def _check_free(self, path: str, freed: Set[str]) -> None:
        """Raise `Refused` if a new path already has a file or directory that is not part of the memory store.

        `freed` has the paths that become free through this and earlier changes.
        """
        if not freed.isdisjoint((path, *ancestors(path))):
            return
        found = self.tree.state(path)
        if found.kind is FileKind.DIRECTORY:
            self.tree.prune(path)
            files = self.tree.scan(path).keys()
            if files and files <= freed:
                return
            found = self.tree.state(path)
        if found.kind is not FileKind.MISSING:
            raise Refused("path_taken", path=path)
