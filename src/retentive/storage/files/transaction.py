"""Snapshot and transaction of a memory store in a directory. Both compare the files with their records.

A file is unchanged if its stamp (inode, size, mtime and ctime) is the one that is stored with the version in the table
`files`. Otherwise the text is compared. A stamp is stored only if the last change is older than any clock tick of a
file system, since a later change within the same tick would leave it as it is (Git's rule for racy timestamps).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

from retentive.errors import Refused
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
from retentive.storage.files.tree import FileKind, FileTree, Found, stamp_of
from retentive.storage.files.writing import FilePlan, StaleFiles, hash_of
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot, StoreHead, below
from retentive.storage.sql.transaction import SqlTransaction
from retentive.values.paths import ROOT, ancestors, is_editor_file
from retentive.values.provenance import Contributor, of_external_edit
from retentive.values.records import RECOVERY
from retentive.values.text import is_text

_MAX_TRIES = 5
_SETTLED_NS = 3_000_000_000  # longer than the clock tick of any file system; FAT stores every second second
_MANY_BYTES = 1_000_000  # if a read compares this much text, it is worth a commit to store the stamps
_FILE_BYTES = 20_000  # reading so many bytes takes as long as opening a file
ExternalEdits: TypeAlias = list[Change]
NO_TEXT = ""
"""Version in the table `files` of a file that cannot be a memory."""


class ExternalEdit(Exception):
    """A read found a file that differs from its record. The read is repeated in a transaction that records the edit."""


class Unsynced(Exception):
    """Versions cannot be removed yet: their files may not be durable, so recovery may still need the versions."""


class DirectorySnapshot(SqlSnapshot):
    """Snapshot that compares files with their records in the database before it answers a query.

    Methods raise `ExternalEdit` if a file differs, or if much text was compared because stamps are missing and
    `wants_stamps` is true.
    """

    def __init__(self, connection: Connection, store_id: str, tree: FileTree, *, wants_stamps: bool = True) -> None:
        super().__init__(connection, store_id)
        self._start(tree, FilePlan(), wants_stamps=wants_stamps, is_locked=False)

    def _start(self, tree: FileTree, plan: FilePlan, *, wants_stamps: bool, is_locked: bool) -> None:
        self.tree = tree
        self.plan = plan
        self._wants_stamps = wants_stamps
        self._is_locked = is_locked
        self._clean: set[str] = set()  # paths below which the files were compared
        self._free: set[str] = set()  # paths that had no file
        self._stamps: dict[str, tuple[str, os.stat_result]] = {}  # version and state of files whose text was compared
        self._compared_bytes = 0

    def get(self, path: str) -> Entry:
        for _ in range(_MAX_TRIES):
            entry = self.get_unverified(path)
            if self.plan.outdates(path) or self._is_as_recorded(path, entry):
                break
            self._differs(self.external_edits(path))
        if entry.memory is not None:
            verified(entry.data, entry.memory.sha256, entry.memory.seal, path)
        return entry  # if the file changes continuously, the latest recorded state is a valid answer

    def list(
        self, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        if not self._is_clean_below(under):
            self._differs(self.external_edits(under))
        return super().list(under, start=start, limit=limit, one_level=one_level, texts=texts)

    def _is_clean_below(self, under: str) -> bool:
        if any(under == path or under.startswith(path + "/") for path in self._clean):
            return True
        self._clean.add(under)
        if self._edits_below(under):
            return False
        return not (self._wants_stamps and self._compared_bytes > _MANY_BYTES and self._settled())

    def _differs(self, edits: Sequence[Change]) -> None:
        raise ExternalEdit

    def _settled(self) -> dict[str, tuple[str, os.stat_result]]:
        """Return the versions and states of compared files, if each later change must give the file another stamp."""
        before_ns = self.tree.now_ns() - _SETTLED_NS
        return {
            path: (version, status)
            for path, (version, status) in self._stamps.items()
            if max(status.st_ctime_ns, status.st_mtime_ns) < before_ns and path not in self.plan.ours
        }

    def external_edits(self, path: str) -> ExternalEdits:
        """Return the changes that make the records match the files at, above and below a path.

        Deletions come first, because a directory may have taken the place of a deleted file.
        """
        at = () if path == ROOT else (*ancestors(path), path)
        edits = [edit for one in at if (edit := self._edit(one, _file(self.tree.state(one)))) is not None]
        edits += self._edits_below(path)
        return sorted(edits, key=lambda change: change.path is not None)

    def _edits_below(self, under: str) -> ExternalEdits:
        bounds = (self.store, *below(under))
        where = "WHERE {0}.store = ? AND {0}.path > ? AND {0}.path < ?"
        memories = self.connection.rows(
            "SELECT m.path, m.newest, v.sha256 FROM memories m LEFT JOIN versions v"
            f" ON v.store = m.store AND v.id = m.newest {where.format('m')}",
            bounds,
        )
        recorded = {str(path): (str(version), sha256) for path, version, sha256 in memories}
        rows = self.connection.rows(f"SELECT path, version, stamp FROM files {where.format('files')}", bounds)
        stamps = {path: (version, stamp) for path, version, stamp in rows}
        files = self.tree.scan(under, recorded)
        edits = []
        for path in sorted(recorded.keys() | files.keys()):
            file, (version, recorded_hash) = files.get(path), recorded.get(path, (NO_TEXT, None))
            if file is not None and stamps.get(path) == (version, stamp_of(file)):
                continue
            if file is not None and version and hash_of(self.tree.read(path)) == recorded_hash:
                self._note(path, version, file)
                continue
            if (edit := self._edit(path, file)) is not None:
                edits.append(edit)
        return edits

    def _edit(self, path: str, file: os.stat_result | None) -> Change | None:
        """Return the change that makes the record match the file at a path, or None if it matches."""
        if self.plan.outdates(path):
            return None
        entry = self.get_unverified(path)
        memory = entry.memory
        if memory is not None and file is not None and self._is_recorded(path, entry):
            return None
        text = None if file is None else self._text(path, file, is_new=memory is None)
        if text is None:
            return None if memory is None else Deleted(memory)
        earlier = None if memory is None else memory.provenance_text
        own = Contributor(f"{self.head.revision:x}", str(EXTERNAL))
        return create_or_update(memory, path, text, of_external_edit(earlier, own))

    def _is_as_recorded(self, path: str, entry: Entry) -> bool:
        if entry.memory is not None:
            return self._is_recorded(path, entry)
        found = self.tree.state(path)
        if self.tree.folds and not self.tree.exact(path):
            raise Refused("path_folds", path=path)
        if self._is_taken(path, found) and not (entry.below or entry.above):
            if not self._is_locked:
                return False  # another process may just have written the file, so compare again under the lock
            is_file = {"is_file": True} if found.kind is FileKind.FILE else {}  # no link, and not a file above the path
            raise Refused("path_taken", path=path, **is_file)
        match found.kind:
            case FileKind.MISSING:
                self._free.add(path)
                return not entry.below and entry.above is None
            case FileKind.BELOW_FILE:
                return not entry.below and entry.above is not None
            case FileKind.DIRECTORY:
                return entry.above is None and self._is_clean_below(path)
            case _:
                return False

    def _is_taken(self, path: str, found: Found) -> bool:
        if found.kind is FileKind.BELOW_FILE:
            files = [(above, _file(self.tree.state(above))) for above in ancestors(path)]
            return any(file is not None and self._text(above, file, is_new=True) is None for above, file in files)
        file = _file(found)
        return found.kind is FileKind.OTHER or (file is not None and self._text(path, file, is_new=True) is None)

    def _is_recorded(self, path: str, entry: Entry) -> bool:
        """Return True if a file contains the recorded text. If that is damaged in the database, its hash decides."""
        text = self.tree.read(path)
        if text is None or entry.memory is None:
            return False
        return text == entry.data or hash_of(text) == entry.memory.sha256

    def _text(self, path: str, file: os.stat_result, *, is_new: bool) -> bytes | None:
        """Return the text of a file if it can be a memory, otherwise None.

        The text must be UTF-8 without NUL. A file with a second hard link may belong to another application, so it
        cannot become a memory. In an encrypted store, no file can be a new memory, and elsewhere no backup file of an
        editor.
        """
        if is_new and (self.head.seal is not None or is_editor_file(path.rpartition("/")[2])):
            return None
        text = self.tree.read(path) if file.st_nlink == 1 else None
        if text is not None and is_text(text):
            return text
        self._note(path, NO_TEXT, file)
        return None

    def _note(self, path: str, version: str, file: os.stat_result) -> None:
        self._stamps[path] = version, file
        self._compared_bytes += _FILE_BYTES + file.st_size


def _file(found: Found) -> os.stat_result | None:
    return found.status if found.kind is FileKind.FILE else None


class DirectoryTransaction(DirectorySnapshot, SqlTransaction):
    """Transaction that records external edits, and plans which files to write after the commit.

    The transactions of a batch share one `plan`. At the paths of the plan, the files are not compared.
    """

    def __init__(
        self,
        connection: Connection,
        store_id: str,
        head: StoreHead | None,
        tree: FileTree,
        plan: FilePlan,
        *,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        SqlTransaction.__init__(self, connection, store_id, head, clock=clock, new_id=new_id)
        self._start(tree, plan, wants_stamps=False, is_locked=True)

    def finish(self) -> None:
        """Store the stamps of compared files if this transaction is committed anyway, or if there are many."""
        if self._stamps and (self.changed or self._compared_bytes > _MANY_BYTES):
            stamps = [(self.store, path, version, stamp_of(file)) for path, (version, file) in self._settled().items()]
            sql = "INSERT OR REPLACE INTO files (store, path, version, stamp) VALUES (?, ?, ?, ?)"
            self.connection.run_many(sql, stamps)
            self.changed = self.changed or bool(stamps)

    def _differs(self, edits: Sequence[Change]) -> None:
        """Record external edits. In an encrypted store, reverse them instead."""
        if self.head.seal is None:
            self.record_external(edits)
            return
        for edit in edits:
            data = None if edit.before is None else self.get_unverified(edit.before.path).data
            if edit.before is not None and data is not None:
                self.tree.repair(edit.before.path, data)

    def record_external(self, edits: Sequence[Change]) -> None:
        """Record changes that were made to the files from outside."""
        SqlTransaction.record(self, edits, EXTERNAL)

    def recover(self, stale: StaleFiles) -> None:
        """After a power cut, record what the stale files contain. Then change them back to what was recorded."""
        for path, (entry, text) in stale.items():
            if text is not None and b"\0" in text and entry.data is not None:
                self.tree.repair(path, entry.data)  # no version can have this text
        for path in stale:
            with suppress(Refused):
                self.get(path)
        for path, (entry, _) in sorted(stale.items(), key=lambda item: item[1][0].memory is not None):
            with suppress(Refused):  # something else stands there now
                self._change_back(path, entry)

    def _change_back(self, path: str, entry: Entry) -> None:
        now, before = SqlTransaction.get(self, path), entry.memory
        if now.data == entry.data or now.above is not None or now.below:
            return
        if before is not None:
            again, data = Again(before.id, before.created_at), entry.data or b""
            self.record([create_or_update(now.memory, path, data, before.provenance_text, again)], RECOVERY)
        elif now.memory is not None:
            self.record([Deleted(now.memory)], RECOVERY)

    def record(self, changes: Sequence[Change], actor: Actor | None) -> list[Recorded]:
        leaving = {change.before.path for change in changes if change.before is not None}
        for change in changes:
            if change.path is not None and (change.before is None or change.before.path != change.path):
                self._check_spelling(change.path, change.before)
                self._check_free(change.path, leaving)
        for change in changes:
            if change.before is not None:
                memory = change.before
                is_plain = self.head.seal is None and memory.seal is None  # otherwise the hash may be that of its text
                recorded = None if is_plain else self.get_unverified(memory.path).data
                self.plan.add(memory.path, memory.sha256 if is_plain else hash_of(recorded), is_gone=True)
            if change.path is not None:
                self.plan.add(change.path, None, is_gone=False, text=None if change.sealing else change.data)
        result = super().record(changes, actor)
        for path in leaving - {change.path for change in changes}:
            self.connection.run("DELETE FROM files WHERE store = ? AND path = ?", (self.store, path))
        return result

    def redact(self, version_ids: Sequence[str], actor: Actor | None) -> None:
        self._check_synced(version_ids)
        super().redact(version_ids, actor)

    def prune(self, version_ids: Sequence[str]) -> None:
        self._check_synced(version_ids)
        super().prune(version_ids)

    def _check_synced(self, version_ids: Iterable[str]) -> None:
        later = "SELECT 1 FROM versions WHERE store = ? AND id = ? AND seq > (SELECT seq FROM synced)"
        newest = max(version_ids, default="")
        if self.connection.rows(later, (self.store, newest)):
            raise Unsynced

    def _check_spelling(self, path: str, before: Memory | None) -> None:
        """Raise `Refused` if a new path differs only in its spelling from another path whose file is not written yet.

        On a file system that ignores case or Unicode form, both paths would have the same file.
        """
        if not self.tree.folds:
            return
        if before is not None:
            self.plan.spellings.remove(before.path)
        if self.plan.spellings.clashes(path):
            raise Refused("path_folds", path=path)
        self.plan.spellings.add(path)

    def _check_free(self, path: str, leaving: set[str]) -> None:
        """Raise `Refused` if a new path already has a file or directory that is not part of the memory store.

        `leaving` has the paths that become free through the current changes.
        """
        freed = self.plan.ours.keys() | leaving
        if path in self._free or any(one in freed for one in (path, *ancestors(path))):
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
