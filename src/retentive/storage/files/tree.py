"""File tree of a memory store: examines, reads and writes the files below one directory, and no others.

Paths are opened one component at a time, relative to descriptors, and never through a symbolic link. If a directory is
replaced with a link during a command, the command reads and writes nothing behind the link. An entry that is neither a
regular file nor a directory has the kind `OTHER`. It is not followed, read, listed or removed. The same is true of a
directory with a reserved name, such as `.git`, and of what lies below it.

Also the names in a location that is a directory, and the check that its bookkeeping folder belongs to retentive.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import tempfile
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from hashlib import sha256
from itertools import groupby
from typing import NamedTuple, TypeAlias

from retentive.errors import InvalidInput, Refused, Unavailable
from retentive.storage.contract import DEFAULT_WORKSPACE, StoreInfo
from retentive.storage.disk import DIRECTORY_MODE, Scratch, exchange, os_error, rename_if_free
from retentive.storage.sql.schema import ForeignSchema
from retentive.values.paths import MAX_SEGMENTS, MemoryPath, is_reserved, visible

Hash: TypeAlias = "str | None"
"""Hash of the text of a file. None stands for no file."""
DEFAULT_KEY = "default"
PRIVATE = ".retentive"
"""Name of the bookkeeping folder, which contains the database, locks and temporary files."""
DATABASE = "memory.db"
MAX_FILE_BYTES = 256 * 1024 * 1024  # larger files are not read as memories
_IN_USE = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.ENOTDIR, errno.EACCES, errno.EPERM})
_MAX_REPORTS = 1_000
_FOLDER = re.compile(r"(?!memstore_)[a-z0-9][a-z0-9_-]{0,63}")  # valid on file systems that ignore case
_NEW = frozenset({"tmp", "live", "journal"})  # may be there before the database
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # nonblocking: the file may now be a pipe
_log = logging.getLogger("retentive")
_reported: set[str] = set()


class FileKind(Enum):
    """Kind of the entry at a path on disk."""

    MISSING = "missing"
    FILE = "file"
    DIRECTORY = "directory"
    BELOW_FILE = "below a file"
    OTHER_SPELLING = "another spelling"  # the name has another case or Unicode form on disk
    OTHER = "other"


class Found(NamedTuple):
    """State of an entry on disk. `file` is the result of `stat` if it is a regular file, otherwise None."""

    kind: FileKind
    file: os.stat_result | None = None


def hash_of(text: bytes | None) -> Hash:
    """Return the hash of the text of a file."""
    return None if text is None else sha256(text).hexdigest()


def stamp_of(status: os.stat_result) -> str:
    """Return the stamp of a file: its inode, size, mtime and ctime. Each change of the file changes the stamp.

    But within one tick of the clock of the file system, two changes may leave the same stamp.
    """
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


@contextmanager
def opened_directory(base: int, names: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """Open the directory `names` below the directory with the descriptor `base`. Follows no symbolic links.

    With `make`, missing directories are created. Raises OSError.
    """
    directory = os.dup(base)
    try:
        for name in names:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, DIRECTORY_MODE, dir_fd=directory)
            above, directory = directory, _open_directory(name, directory)
            os.close(above)  # even if this fails, it is closed
        yield directory
    finally:
        with suppress(OSError):  # even if this fails, it is closed
            os.close(directory)


def _open_directory(name: str, above: int) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=above)
    except OSError as error:
        if error.errno == errno.ELOOP:  # for a link, macOS reports ELOOP and Linux ENOTDIR
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        raise


class FileTree:
    """Files of one memory store.

    `base` is the descriptor of a directory. `parts` are the components of the path from this directory to the files.
    `folds` is true if the file system ignores case or the Unicode form of names.
    """

    def __init__(self, base: int, parts: Sequence[str], scratch: Scratch, *, folds: bool = False) -> None:
        self.folds = folds
        self.scratch = scratch
        self._base = base
        self._parts = list(parts)

    def _names(self, path: str) -> list[str]:
        return [*self._parts, *path.split("/")[2:]]

    def make(self) -> None:
        """Create the directory of the store. Raises OSError."""
        with opened_directory(self._base, self._parts, make=True):
            pass

    def state(self, path: str) -> Found:
        """Return the state of the entry on disk at a memory path."""
        names, directory = self._names(path), os.dup(self._base)
        try:
            for depth, name in enumerate(names, 1):
                status, is_inside = os.stat(name, dir_fd=directory, follow_symlinks=False), depth > len(self._parts)
                if self.folds and is_inside and name not in os.listdir(directory):
                    return Found(FileKind.OTHER_SPELLING)
                if stat.S_ISREG(status.st_mode) and is_inside:
                    return Found(FileKind.FILE, status) if depth == len(names) else Found(FileKind.BELOW_FILE)
                if not stat.S_ISDIR(status.st_mode) and is_inside:
                    return Found(FileKind.OTHER)
                if not stat.S_ISDIR(status.st_mode):
                    raise Unavailable(
                        "the directory of the memory store was replaced with a file or link; restore the directory"
                    )
                above, directory = directory, _open_directory(name, directory)
                os.close(above)  # even if this fails, it is closed
        except (FileNotFoundError, NotADirectoryError):
            return Found(FileKind.MISSING)  # if it was replaced meanwhile, the next check, under the lock, sees it
        except OSError as error:
            raise os_error(error) from None
        finally:
            with suppress(OSError):  # even if this fails, it is closed
                os.close(directory)
        return Found(FileKind.DIRECTORY)

    def read(self, path: str) -> bytes | None:
        """Return the contents of a regular file of at most 256 MB. Returns None for any other entry."""
        *above, name = self._names(path)
        try:
            with opened_directory(self._base, above) as directory:
                return _read(name, directory)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise os_error(error) from None

    def digests(self, paths: Iterable[str]) -> dict[str, Hash]:
        """Return the hashes of files by path. Adjacent paths share an open directory. Some paths may be left out."""
        found: dict[str, Hash] = {}
        for above, group in groupby(paths, key=lambda path: path.rpartition("/")[0]):
            with suppress(OSError), opened_directory(self._base, self._names(above)) as directory:
                for path in group:
                    found[path] = hash_of(_read(path.rpartition("/")[2], directory))
        return found

    def scan(
        self, under: str, known: Container[str] = (), *, others: dict[str, str] | None = None
    ) -> dict[str, os.stat_result]:
        """Find all files below a path whose names memories can have. Returns their stat results by memory path.

        The paths in `known` are known to be valid, so they are not checked again. All other entries are added to
        `others`, with the reason why they cannot be memories.
        """
        files: dict[str, os.stat_result] = {}
        try:
            with opened_directory(self._base, self._names(under)) as directory:
                _scan(directory, under, files, known, others)
        except FileNotFoundError:
            pass
        except NotADirectoryError:
            self.state(under)  # raises `Unavailable` if the directory of the store was replaced
        except OSError as error:
            raise os_error(error) from None
        return files

    def put(self, path: str, data: bytes, ours: Container[Hash]) -> None:
        """Write a file atomically, without a sync. Only its owner can read the file. Raises OSError.

        `ours` has the hashes of what the file may contain before. A person may have edited the file meanwhile: then it
        stays as it is.
        """
        *above, name = self._names(path)
        scratch, private = self.scratch.write(data), self.scratch.directory
        try:
            with opened_directory(self._base, above, make=True) as directory:
                if None in ours:
                    with suppress(FileExistsError):
                        rename_if_free(scratch, private, name, directory)
                        return
                text = _read(name, directory)
                if text is None or text == data or hash_of(text) not in ours:
                    return
                if not exchange(scratch, private, name, directory):
                    os.rename(scratch, name, src_dir_fd=private, dst_dir_fd=directory)
                elif not _may_go(scratch, private, ours):  # edited since the line before
                    exchange(scratch, private, name, directory)
        finally:
            self.scratch.discard(scratch)

    def drop(self, path: str, ours: Container[Hash]) -> None:
        """Remove a file if the hash of its text is in `ours`, and directories that become empty. Raises OSError."""
        *above, name = self._names(path)
        scratch, private = self.scratch.new_name(), self.scratch.directory
        with suppress(FileNotFoundError, NotADirectoryError), opened_directory(self._base, above) as directory:
            if _may_go(name, directory, ours):
                os.rename(name, scratch, src_dir_fd=directory, dst_dir_fd=private)
                if _may_go(scratch, private, ours):
                    self.scratch.discard(scratch)
                else:  # edited since the line before
                    rename_if_free(scratch, private, name, directory)
        self._remove_empty(above)

    def prune(self, path: str) -> None:
        """Remove empty directories at, below and above a path."""
        names = self._names(path)
        try:
            with suppress(FileNotFoundError, NotADirectoryError), opened_directory(self._base, names) as directory:
                _prune(directory)
            self._remove_empty(names)
        except OSError as error:
            raise os_error(error) from None

    def _remove_empty(self, names: Sequence[str]) -> None:
        for end in range(len(names), len(self._parts), -1):
            try:
                with opened_directory(self._base, names[: end - 1]) as directory:
                    os.rmdir(names[end - 1], dir_fd=directory)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in _IN_USE:
                    raise
                return


def _may_go(name: str, directory: int, ours: Container[Hash]) -> bool:
    text = _read(name, directory)
    return text is not None and hash_of(text) in ours


def _read(name: str, directory: int) -> bytes | None:
    """Return the contents of a regular file, or None for any other entry and for a file over the limit."""
    try:
        descriptor = os.open(name, _READ, dir_fd=directory)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:  # a link, or a socket
            return None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        return b"".join(iter(lambda: os.read(descriptor, status.st_size + 1), b""))
    finally:
        os.close(descriptor)


def _scan(
    directory: int, under: str, files: dict[str, os.stat_result], known: Container[str], others: dict[str, str] | None
) -> None:
    with os.scandir(directory) as scanned:
        entries = list(scanned)
    for entry in entries:
        path = f"{under}/{entry.name}"
        if path not in known and is_reserved(entry.name):
            continue
        try:
            if (reason := _why_ignored(entry, path, known)) is None and entry.is_file(follow_symlinks=False):
                files[path] = entry.stat(follow_symlinks=False)
            elif reason is None:
                with opened_directory(directory, (entry.name,)) as inner:
                    _scan(inner, path, files, known, others)
        except (FileNotFoundError, NotADirectoryError):  # removed, or replaced with a link
            continue
        except OSError:
            if others is None:
                raise
            reason = "cannot be opened"
        if others is not None and reason is not None:
            others[path] = reason


def _why_ignored(entry: os.DirEntry[str], path: str, known: Container[str]) -> str | None:
    """Return the reason why an entry is neither a file nor a directory of memories, or None."""
    if entry.is_symlink():
        return "a link"
    if not entry.is_file(follow_symlinks=False) and not entry.is_dir(follow_symlinks=False):
        return "not a regular file"
    if path in known:
        return None
    with suppress(Refused):
        if MemoryPath.parse(path).text == path:
            return None
    if path not in _reported and len(_reported) < _MAX_REPORTS:
        _reported.add(path)
        _log.warning("a file or directory is ignored, because no memory can have its name: %s", visible(path))
    return "an invalid name for a memory"


def _prune(directory: int, depth: int = 0) -> None:
    if depth > MAX_SEGMENTS:
        return
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and not is_reserved(entry.name)]
    for name in names:
        with suppress(OSError):
            with opened_directory(directory, (name,)) as inner:
                _prune(inner, depth + 1)
            os.rmdir(name, dir_fd=directory)


def parts_of(store: StoreInfo) -> tuple[str, ...] | None:
    """Return the components of the path of the directory with the files of a store. None if the store is encrypted.

    The directory is named after the store key if the key is valid on all file systems, otherwise after the store id.
    Outside the default workspace, the id is always used, because another workspace may have the same keys.
    """
    if store.seal is not None:
        return None
    key = (store.key or "") if store.workspace_id == DEFAULT_WORKSPACE else ""
    if key == DEFAULT_KEY:
        return ("memories",)
    return ("stores", key if _FOLDER.fullmatch(key) else store.id, "memories")


def check_private(private: str) -> None:
    """Raise `ForeignSchema` if the bookkeeping folder was not created by retentive, `InvalidInput` for links in it.

    The format of the folder is that of the database. Raises OSError if the folder cannot be read.
    """
    with os.scandir(private) as entries:
        names = {entry.name: entry.is_symlink() for entry in entries}
    if any(names.values()):
        raise InvalidInput(f"{PRIVATE} in the location must not contain symbolic links; remove them")
    if DATABASE not in names and any(name not in _NEW and not name.startswith(DATABASE) for name in names):
        raise ForeignSchema("the folder .retentive has no database of retentive; use another directory")


def temporary_folder() -> str:
    """Create a temporary directory for bookkeeping, and return its path."""
    try:
        return tempfile.mkdtemp(prefix="retentive-")
    except OSError as error:
        raise os_error(error) from None


def not_a_directory(name: str) -> InvalidInput:
    """Return the error for a link or file in place of the directory `name`."""
    return InvalidInput(f"{name} in the location must be a directory, not a link or a file")
