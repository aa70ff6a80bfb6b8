"""How the files follow the database: after each commit, after a process was killed, and after a power cut.

The versions of a database are numbered: each gets a higher number (`seq`) than all versions before it. After each sync
of the file system, the database records the number of the version up to which the files are durable (`synced`). The
file `journal` records the number up to which the files are written. These files may not be durable yet.

The journal is never synced. It has a digest of the boot of the machine and of the mount of the file system. As long as
both are the same, no written file was lost. Otherwise the power may have been cut. The journal is opened for each use:
somebody may have removed or replaced it meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, cast

from retentive.errors import Damaged, RetentiveError
from retentive.storage.disk import FILE_MODE
from retentive.storage.files.transaction import StaleFiles, Unwritten
from retentive.storage.files.tree import FileKind, FileTree, Hash
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.snapshot import SqlSnapshot

UNKNOWN = bytes(32)
MountId: TypeAlias = Callable[[int], "str | None"]
"""Function that returns the identity of the mount of an open file. None if it is unknown."""
_Changed: TypeAlias = "tuple[str, str, str | None, bool, str | None, str | None]"
_NAME = "journal"
_LAYOUT = struct.Struct("<q32s")
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# Linux, include/uapi/linux/stat.h
_AT_EMPTY_PATH, _MNT_ID, _MNT_ID_UNIQUE = 0x1000, 0x1000, 0x4000
_MASK, _MNT_ID_AT = struct.Struct("<I"), struct.Struct("<144xQ")
_CHANGED = (
    "SELECT s.id, v.path, v.sha256, m.path IS NOT NULL, p.path, p.sha256"
    " FROM versions v JOIN stores s ON s.no = v.store"
    " LEFT JOIN memories m ON m.store = v.store AND m.path = v.path AND m.newest = v.id"
    " LEFT JOIN versions p ON p.store = v.store AND p.sha256 IS NOT NULL AND p.id ="
    " (SELECT max(b.id) FROM versions b WHERE b.store = v.store AND b.memory = v.memory AND b.id < v.id)"
    " WHERE v.seq > ? AND v.memory <> '' AND s.erased_at IS NULL AND s.seal IS NULL ORDER BY v.seq"
)


class Journal(NamedTuple):
    """Progress of writing files: the versions up to the number `applied` are in the files.

    `mount` is the digest of the mount in which the files were written. It is `UNKNOWN` if files may have been lost
    since the last sync.
    """

    applied: int = 0
    mount: bytes = UNKNOWN


@dataclass(slots=True)
class FileChange:
    """What happened to one path: the file must get the text of its memory, or go if there is no memory any more.

    `ours` has the hashes of what the file may contain before. A file that contains anything else was edited by a
    person. It is not replaced, and the next comparison finds the edit.
    """

    has_memory: bool = False
    ours: set[Hash] = field(default_factory=set)


def read_journal(directory: int) -> Journal:
    """Read the journal in the directory with this descriptor. Raises OSError."""
    try:
        file = os.open(_NAME, _READ, dir_fd=directory)
    except FileNotFoundError:
        return Journal()
    try:
        data = os.pread(file, _LAYOUT.size, 0)
    finally:
        os.close(file)
    return Journal(*_LAYOUT.unpack(data)) if len(data) == _LAYOUT.size else Journal()


def write_journal(directory: int, journal: Journal) -> None:
    """Replace the journal. Raises OSError."""
    file = os.open(_NAME, _WRITE, FILE_MODE, dir_fd=directory)
    try:
        if os.pwrite(file, _LAYOUT.pack(*journal), 0) != _LAYOUT.size:
            raise OSError("only a part of the journal was written")
    finally:
        os.close(file)


def newest_number(connection: Connection) -> int:
    """Return the number of the newest version, or 0 if there are no versions."""
    return cast("int | None", connection.rows("SELECT max(seq) FROM versions")[0][0]) or 0


def synced_number(connection: Connection) -> int:
    """Return the number `synced`: all versions up to this number are durable in the files."""
    return cast("int", connection.rows("SELECT seq FROM synced")[0][0])


def changed_since(connection: Connection, seq: int) -> dict[str, dict[str, FileChange]]:
    """Return the changes of files that the versions with numbers above `seq` need, by store id and path.

    A file may have any text that was recorded at its path at `seq` or later.
    """
    changed: dict[str, dict[str, FileChange]] = defaultdict(lambda: defaultdict(FileChange))
    rows = connection.rows(_CHANGED, (seq,))
    for store_id, path, digest, is_newest, path_before, digest_before in cast("list[_Changed]", rows):
        files = changed[store_id]
        if path_before:
            files[path_before].ours.add(digest_before)
        if path:  # an imported redacted version has none, and takes the memory before it away
            files[path].ours |= {digest, *([None] if path_before != path else ())}
            files[path].has_memory |= is_newest
    return changed


def write_files(
    records: SqlSnapshot, tree: FileTree, changes: dict[str, FileChange], own: Unwritten | None
) -> set[str]:
    """Let files follow the database. Returns the paths of those that could not be written.

    `own` has the paths that commands changed. Other versions were read from the files. If this is not known, because a
    process was killed, `own` is None.
    """
    failed = set()
    for path in sorted(changes, key=lambda path: changes[path].has_memory):  # removals free the names of directories
        change = changes[path]
        if own is not None and path not in own.paths:
            continue
        ours = {own.seen[path]} if own is not None and path in own.seen else change.ours
        try:
            if not change.has_memory:
                tree.drop(path, ours)
            elif (data := records.get(path).data) is not None:
                tree.put(path, data, ours)
        except (OSError, RetentiveError):
            failed.add(path)
    return failed


def stale_files(records: SqlSnapshot, tree: FileTree, paths: Iterable[str]) -> StaleFiles:
    """Return those of the entries at `paths` whose files a power cut may have left out of date.

    A file may be missing, or contain the text of any recorded version of the path, or a beginning of one. In tests with
    power failures, hundreds of files contained an earlier version and dozens were empty; no file contained any other
    text. On XFS, zeros may stand where a text was not written yet.
    """
    stale: StaleFiles = {}
    for path in paths:
        with suppress(Damaged):  # the file may be the only good copy
            entry, text = records.get(path), tree.read(path)
            if text == entry.data or tree.state(path).kind is FileKind.OTHER:
                continue
            start = (text or b"").rstrip(b"\0")
            if not start or _was_recorded(records, path, start):
                stale[path] = entry, text
    return stale


def _was_recorded(records: SqlSnapshot, path: str, start: bytes) -> bool:
    """Return whether the text of a version at a path begins with `start`."""
    for version in records.versions(path=path):
        with suppress(Damaged):
            if (records.version(version.id)[1] or b"").startswith(start):
                return True
    return False


def mount_id(descriptor: int) -> str | None:
    """Return a name of the boot of the machine and of the mount of an open file. Returns None if it is unknown.

    Since Linux 6.8, the number of a mount is never used again. Before, it may be used again after an unmount.
    """
    if not sys.platform.startswith("linux"):
        return None
    with suppress(OSError, AttributeError, ValueError), open("/proc/sys/kernel/random/boot_id") as file:
        found = ctypes.create_string_buffer(256)
        if ctypes.CDLL(None).statx(descriptor, b"", _AT_EMPTY_PATH, _MNT_ID | _MNT_ID_UNIQUE, found) == 0:
            mask = _MASK.unpack_from(found.raw)[0]
            if mask & (_MNT_ID | _MNT_ID_UNIQUE):
                device = os.fstat(descriptor).st_dev
                return f"{file.read().strip()} {device} {mask & _MNT_ID_UNIQUE} {_MNT_ID_AT.unpack_from(found.raw)[0]}"
    return None


def sync_file_system(descriptor: int) -> None:
    """Sync a file system to disk. `descriptor` is an open file on this file system. Raises OSError.

    Only Linux can sync a single file system (`syncfs`). On other systems, all file systems are synced.
    """
    if not sys.platform.startswith("linux"):
        os.sync()
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
