"""File tree of a memory store: examines, reads and writes the files below one directory, and no others.

Paths are opened one component at a time, relative to descriptors, and never through a symbolic link. If a directory is
replaced with a link during a command, the command reads and writes nothing behind the link. An entry that is neither a
regular file nor a directory has the kind `OTHER`. It is not followed, read, listed or removed. The same is true of a
directory with a reserved name, such as `.git`, and of what lies below it.

People cannot edit the files of an encrypted store. If such a file differs from its record in the database, it was
tampered with or damaged. It is then moved to `.retentive/quarantine`, and the recorded text is written to its path.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

from retentive.errors import Refused, RetentiveError, Unavailable
from retentive.storage.disk import DIRECTORY_MODE, os_error
from retentive.storage.exchange import Scratch, exchange, rename_if_free
from retentive.storage.files.layout import PRIVATE
from retentive.values.paths import MAX_SEGMENTS, MemoryPath, is_reserved, visible

MAX_FILE_BYTES = 256 * 1024 * 1024  # larger files are not read as memories
_IN_USE = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.ENOTDIR, errno.EACCES, errno.EPERM})
_MAX_REPORTS = 1_000
_READ_BYTES = 1 << 20
_QUARANTINE = (PRIVATE, "quarantine")
_NAME_BYTES = 200  # part of the old name that a quarantined file keeps; with the time prefix it fits NAME_MAX
_ALTERED = (
    "a file was altered, removed or damaged; the recorded text was restored, and an altered file is in"
    " .retentive/quarantine: %s"
)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # nonblocking: the file may now be a pipe
_log = logging.getLogger("retentive")


class FileKind(Enum):
    """Kind of the entry at a path on disk."""

    MISSING = "missing"
    FILE = "file"
    DIRECTORY = "directory"
    BELOW_FILE = "below a file"
    OTHER = "other"


class Found(NamedTuple):
    """State of an entry on disk. `status` is the result of `stat`, or None if nothing has this path."""

    kind: FileKind
    status: os.stat_result | None = None


MISSING = Found(FileKind.MISSING)


def stamp_of(status: os.stat_result) -> str:
    """Return the stamp of a file: its inode, size, mtime and ctime. Each change of the file changes the stamp.

    But within one tick of the clock of the file system, two changes may leave the same stamp.
    """
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


class FileTree:
    """Files of one memory store.

    `base` is the descriptor of a directory. `parts` are the components of the path from this directory to the files.
    `folds` is true if the file system ignores case or the Unicode form of names.
    """

    def __init__(self, base: int, parts: Sequence[str], scratch: Scratch, *, folds: bool = False) -> None:
        self.folds = folds
        self._base = base
        self._parts = tuple(parts)
        self._scratch = scratch

    def make(self) -> None:
        """Create the directory of the store. Raises OSError."""
        with self._opened(self._parts, make=True):
            pass

    def now_ns(self) -> int:
        """Return the current time by the clock of the file system, or 0 if it is unknown."""
        try:
            return self._scratch.now_ns()
        except OSError:
            return 0

    def state(self, path: str) -> Found:
        """Return the state of the entry on disk at a memory path."""
        *above, name = self._names(path)
        try:
            with self._opened(above) as directory:
                return _found(os.stat(name, dir_fd=directory, follow_symlinks=False))
        except FileNotFoundError:
            return MISSING
        except NotADirectoryError:
            return self._obstacle(above)
        except OSError as error:
            raise os_error(error) from None

    def _obstacle(self, names: Sequence[str]) -> Found:
        """Return what a path below `names` is, if one of the directories is not a directory."""
        for end in range(1, len(names) + 1):
            *above, name = names[:end]
            try:
                with self._opened(above) as directory:
                    kind = _found(os.stat(name, dir_fd=directory, follow_symlinks=False)).kind
            except (FileNotFoundError, NotADirectoryError):
                return MISSING  # removed at the same time; the next check runs under the lock
            if kind is not FileKind.DIRECTORY and end <= len(self._parts):
                raise Unavailable(
                    "the directory of the memory store was replaced with a file or link; restore the directory"
                )
            if kind is not FileKind.DIRECTORY:
                return Found(FileKind.BELOW_FILE if kind is FileKind.FILE else FileKind.OTHER)
        return MISSING

    def read(self, path: str) -> bytes | None:
        """Return the contents of a regular file of at most 256 MB. Returns None for any other entry."""
        *above, name = self._names(path)
        try:
            with self._opened(above) as directory:
                return _read(name, directory)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise os_error(error) from None

    def scan(
        self, under: str, known: Container[str] = (), *, others: dict[str, str] | None = None
    ) -> dict[str, os.stat_result]:
        """Find all files below a path whose names memories can have. Returns their stat results by memory path.

        The paths in `known` are known to be valid, so they are not checked again. All other entries are added to
        `others`, with the reason why they cannot be memories. The path of an empty directory gets a `/` at the end.
        """
        files: dict[str, os.stat_result] = {}
        names = self._names(under)
        try:
            with self._opened(names) as directory:
                _scan(directory, under, files, known, others)
        except FileNotFoundError:
            pass
        except NotADirectoryError:
            self._obstacle(names)
        except OSError as error:
            raise os_error(error) from None
        return files

    def put(self, path: str, data: bytes, is_ours: Callable[[bytes | None], bool]) -> None:
        """Write a file atomically, without a sync. Only its owner can read the file. Raises OSError.

        `is_ours` tells whether a text may be replaced. It gets None if there is no file. A person may have edited the
        file meanwhile: then it stays as it is.
        """
        *above, name = self._names(path)
        scratch, private = self._scratch.write(data), self._scratch.directory
        is_moved = False
        try:
            with self._opened(above, make=True) as directory:
                if is_ours(None):
                    with suppress(FileExistsError):
                        rename_if_free(scratch, private, name, directory)
                        is_moved = True
                if is_moved or not _may_go(name, directory, is_ours):
                    return
                if not exchange(scratch, private, name, directory):
                    os.rename(scratch, name, src_dir_fd=private, dst_dir_fd=directory)
                    is_moved = True
                elif not _may_go(scratch, private, is_ours):  # edited since the line before
                    exchange(scratch, private, name, directory)
        finally:
            if not is_moved:
                self._scratch.discard(scratch)

    def drop(self, path: str, is_ours: Callable[[bytes | None], bool]) -> None:
        """Remove a file if `is_ours` returns True for its text, and directories that become empty. Raises OSError."""
        *above, name = self._names(path)
        private, scratch = self._scratch.directory, self._scratch.new_name()
        with suppress(FileNotFoundError, NotADirectoryError):
            with self._opened(above) as directory:
                if _may_go(name, directory, is_ours):
                    os.rename(name, scratch, src_dir_fd=directory, dst_dir_fd=private)
                    if _may_go(scratch, private, is_ours):
                        self._scratch.discard(scratch)
                    else:  # edited since the line before
                        rename_if_free(scratch, private, name, directory)
            self._remove_empty(above)

    def prune(self, path: str) -> None:
        """Remove empty directories at, below and above a path."""
        names = self._names(path)
        try:
            with suppress(FileNotFoundError, NotADirectoryError), self._opened(names) as directory:
                _prune(directory)
            self._remove_empty(names)
        except OSError as error:
            raise os_error(error) from None

    def repair(self, path: str, data: bytes) -> None:
        """Move the entry at a path to quarantine, write the recorded text `data` to the path, and log a warning.

        If this fails, it is tried again when the file is next compared with its record.
        """
        with suppress(OSError, RetentiveError):
            self.prune(path)
            with suppress(FileNotFoundError):  # the file or a directory above it is missing
                self._quarantine(path)
            self.put(path, data, lambda text: text is None)
        _log.warning(_ALTERED, visible(path))

    def _quarantine(self, path: str) -> None:
        """Move the entry at a path to quarantine. Raises OSError.

        If an entry above it is not a directory, move that entry instead.
        """
        names = self._names(path)
        for end in range(len(self._parts) + 1, len(names) + 1):
            *above, name = names[:end]
            with self._opened(above) as directory:
                found = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
                if end < len(names) and stat.S_ISDIR(found):
                    continue
                with self._opened(_QUARANTINE, make=True) as quarantine:
                    rename_if_free(name, directory, _new_name(name), quarantine)
            return

    def exact(self, path: str) -> bool:
        """Return True if the names on disk have exactly the spelling of the path, with the same case and Unicode form.

        Components of the path that do not exist on disk are not compared.
        """
        names = self._names(path)
        for end in range(len(self._parts) + 1, len(names) + 1):
            *above, name = names[:end]
            try:
                with self._opened(above) as directory:
                    os.stat(name, dir_fd=directory, follow_symlinks=False)
                    if name not in os.listdir(directory):
                        return False
            except OSError:
                return True
        return True

    def _remove_empty(self, names: Sequence[str]) -> None:
        for end in range(len(names), len(self._parts), -1):
            *above, name = names[:end]
            try:
                with self._opened(above) as directory:
                    os.rmdir(name, dir_fd=directory)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in _IN_USE:
                    raise
                return

    def _names(self, path: str) -> list[str]:
        return [*self._parts, *path.split("/")[2:]]

    def _opened(self, names: Sequence[str], *, make: bool = False) -> OpenedDirectory:
        return OpenedDirectory(self._base, names, make=make)


class OpenedDirectory:
    """Context manager that opens a subdirectory without following symbolic links, and yields its file descriptor.

    `base` is the descriptor of a directory, and `names` are the components of the path below it. With `make`, missing
    directories are created. Raises OSError. This is a class, because a generator takes twice the time.
    """

    def __init__(self, base: int, names: Sequence[str], *, make: bool = False) -> None:
        self._base = self._descriptor = base
        self._names = names
        self._make = make

    def __enter__(self) -> int:
        try:
            for name in self._names:
                inner = _open_directory(name, self._descriptor, make=self._make)
                self.__exit__()
                self._descriptor = inner
        except BaseException:
            self.__exit__()
            raise
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        descriptor, self._descriptor = self._descriptor, self._base
        if descriptor != self._base:
            os.close(descriptor)


def _open_directory(name: str, above: int, *, make: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=above)
    except FileNotFoundError:
        if not make:
            raise
    except OSError as error:
        if error.errno == errno.ELOOP:  # for a link, macOS reports ELOOP and Linux ENOTDIR
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        raise
    with suppress(FileExistsError):
        os.mkdir(name, DIRECTORY_MODE, dir_fd=above)
    return os.open(name, _DIRECTORY, dir_fd=above)


def _found(status: os.stat_result) -> Found:
    if stat.S_ISREG(status.st_mode):
        return Found(FileKind.FILE, status)
    return Found(FileKind.DIRECTORY if stat.S_ISDIR(status.st_mode) else FileKind.OTHER, status)


def _may_go(name: str, directory: int, is_ours: Callable[[bytes | None], bool]) -> bool:
    text = _read(name, directory)
    return text is not None and is_ours(text)


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
        parts = [os.read(descriptor, status.st_size + 1)]
        while parts[-1]:
            parts.append(os.read(descriptor, _READ_BYTES))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _scan(
    directory: int,
    under: str,
    files: dict[str, os.stat_result],
    known: Container[str],
    others: dict[str, str] | None,
) -> None:
    found: dict[str, str] = {}
    with os.scandir(directory) as scanned:
        entries = list(scanned)
    for entry in entries:
        path = f"{under}/{entry.name}"
        if is_reserved(entry.name):
            continue
        try:
            if (reason := _why_ignored(entry, path, known)) is not None:
                found[path] = reason
            elif entry.is_file(follow_symlinks=False):
                files[path] = entry.stat(follow_symlinks=False)
            else:
                with OpenedDirectory(directory, (entry.name,)) as inner:
                    _scan(inner, path, files, known, others)
        except (FileNotFoundError, NotADirectoryError):  # removed, or replaced with a link
            continue
        except OSError:
            if others is None:
                raise
            found[path] = "cannot be opened"
    if others is not None:
        others |= found if entries else {under + "/": "empty"}


def _why_ignored(entry: os.DirEntry[str], path: str, known: Container[str]) -> str | None:
    """Return the reason why an entry is neither a file nor a directory of memories, or None."""
    if entry.is_symlink():
        return "a link"
    if not entry.is_file(follow_symlinks=False) and not entry.is_dir(follow_symlinks=False):
        return "not a regular file"
    if path in known or is_memory_path(path):
        return None
    _report_name(path)
    return "an invalid name for a memory"


def is_memory_path(path: str) -> bool:
    """Return True if a memory can have this path."""
    try:
        return MemoryPath.parse(path).text == path
    except Refused:
        return False


def count_quarantined(base: int) -> int:
    """Return the number of entries in the quarantine of a location. `base` is the descriptor of the location."""
    with suppress(OSError), OpenedDirectory(base, _QUARANTINE) as quarantine:
        return len(os.listdir(quarantine))
    return 0


def _new_name(name: str) -> str:
    now_ns = time.time_ns()
    at = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_ns // 1_000_000_000))
    return f"{at}.{now_ns % 1_000_000_000:09d}-{os.fsencode(name)[:_NAME_BYTES].decode('utf-8', 'ignore')}"


_reported: set[str] = set()


def _report_name(path: str) -> None:
    """Log a warning that a path on disk is not a valid memory path. Logs each path only once."""
    if path not in _reported and len(_reported) < _MAX_REPORTS:
        _reported.add(path)
        _log.warning("a file or directory is ignored, because no memory can have its name: %s", visible(path))


def _prune(directory: int, depth: int = 0) -> None:
    if depth > MAX_SEGMENTS:
        return
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and not is_reserved(entry.name)]
    for name in names:
        with suppress(OSError):
            with OpenedDirectory(directory, (name,)) as inner:
                _prune(inner, depth + 1)
            os.rmdir(name, dir_fd=directory)
