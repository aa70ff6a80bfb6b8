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
import os
import re
import stat
import time
from collections.abc import Container, Sequence
from contextlib import suppress
from enum import Enum
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from retentive.errors import Refused, RetentiveError, Unavailable
from retentive.storage.disk import os_error
from retentive.storage.exchange import Scratch, exchange, rename_if_free
from retentive.storage.files.directories import OpenedDirectory
from retentive.storage.files.layout import PRIVATE
from retentive.storage.files.listing import FileListing, is_unchanged, list_directory
from retentive.values.paths import MAX_PATH_BYTES, MAX_SEGMENTS, ROOT, MemoryPath, is_reserved, visible

MAX_FILE_BYTES = 256 * 1024 * 1024  # larger files are not read as memories
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_ROOMY_BYTES = MAX_PATH_BYTES - 100  # in a directory with a path up to this length, plain names are within all limits
_IN_USE = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.ENOTDIR, errno.EACCES, errno.EPERM})
_MAX_REPORTS = 1_000
_ROOT_LENGTH = len(ROOT)
_READ_BYTES = 1 << 20
_QUARANTINE = (PRIVATE, "quarantine")
_NAME_BYTES = 200  # part of the old name that a quarantined file keeps; with the time prefix it fits NAME_MAX
_ALTERED = (
    "a file was altered, removed or damaged; the recorded text was restored, and an altered file is in"
    " .retentive/quarantine: %s"
)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # nonblocking: the file may now be a pipe


class FileKind(Enum):
    """Kind of the entry at a path on disk."""

    MISSING = "missing"
    FILE = "file"
    DIRECTORY = "directory"
    BELOW_FILE = "below a file"
    OTHER = "other"


Mark: TypeAlias = tuple[int, ...]
"""Inode, size, mtime and ctime of a file. Each change of the file changes them. Empty if the file is missing."""


class Found(NamedTuple):
    """State of an entry on disk.

    `settled` is true if the last change is older than a tick of the file system. If it is false, the next change may
    leave `mark` as it is.
    """

    kind: FileKind
    mark: Mark = ()
    settled: bool = False
    size_bytes: int = 0
    links: int = 1


class Expected(NamedTuple):
    """File that was compared with its record: its mark, and the digest of its text if the mark alone proves nothing."""

    mark: Mark = ()
    digest: bytes = b""


MISSING = Found(FileKind.MISSING)
OTHER = Found(FileKind.OTHER)
NO_FILE = Expected()


def expect_file(found: Found, data: bytes | None) -> Expected:
    """Return what `put` and `drop` must find: the file `found`, which contains `data`."""
    return Expected(found.mark, b"" if found.settled or data is None else sha256(data).digest())


class FileTree:
    """Files of one memory store.

    `base` is the descriptor of a directory. `parts` are the components of the path from this directory to the files.
    """

    def __init__(self, base: int, parts: Sequence[str], scratch: Scratch) -> None:
        self._base = base
        self._parts = tuple(parts)
        self._root = "/".join(parts)
        self._scratch = scratch

    def make(self) -> None:
        """Create the directory of the store. Raises OSError."""
        with self._opened(self._parts, make=True):
            pass

    def state(self, path: str) -> Found:
        """Return the state of the entry on disk at a memory path."""
        try:
            return self.found(self._status(path))
        except FileNotFoundError:
            return MISSING
        except NotADirectoryError:
            return self._obstacle(self._names(path)[:-1])
        except OSError as error:
            raise os_error(error) from None

    def found(self, status: os.stat_result) -> Found:
        """Return the state of an entry on disk, from its stat result."""
        if stat.S_ISREG(status.st_mode):
            settled = status.st_ctime_ns + self._scratch.tick_ns < time.time_ns()
            return Found(FileKind.FILE, mark_of(status), settled, status.st_size, status.st_nlink)
        return Found(FileKind.DIRECTORY) if stat.S_ISDIR(status.st_mode) else OTHER

    def _status(self, path: str) -> os.stat_result:
        """Return the stat result of the entry at a path. Raises OSError, also if an entry above it is no directory.

        The kernel resolves the whole path, which takes less time than opening each directory. If a directory is
        replaced with a link during the call, the link may be followed. This is harmless, because only the stat result
        is read: files are opened and renamed relative to the descriptors of their directories.
        """
        found = self._root + path[_ROOT_LENGTH:]
        end, base = found.find("/"), self._base
        while end > 0:
            if not stat.S_ISDIR(os.stat(found[:end], dir_fd=base, follow_symlinks=False).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            end = found.find("/", end + 1)
        return os.stat(found, dir_fd=base, follow_symlinks=False)

    def _obstacle(self, names: Sequence[str]) -> Found:
        """Return the state of a path below an entry that is not a directory.

        The state is `BELOW_FILE` if this entry is a file, otherwise `OTHER`.
        """
        for end in range(1, len(names) + 1):
            *above, name = names[:end]
            try:
                with self._opened(above) as directory:
                    kind = self.found(os.stat(name, dir_fd=directory, follow_symlinks=False)).kind
            except (FileNotFoundError, NotADirectoryError):
                return MISSING  # removed at the same time; the next check runs under the lock
            if kind is not FileKind.DIRECTORY and end <= len(self._parts):
                raise Unavailable(
                    "the directory of the memory store was replaced with a file or link; restore the directory"
                )
            if kind is not FileKind.DIRECTORY:
                return Found(FileKind.BELOW_FILE) if kind is FileKind.FILE else OTHER
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
            if error.errno == errno.ELOOP:  # the file was replaced with a link
                return None
            raise os_error(error) from None

    def scan(self, under: str, known: Container[str] = ()) -> tuple[dict[str, os.stat_result], FileListing | None]:
        """Find all files below a path. Returns their stat results by memory path, and a listing of all entries.

        A file is left out of the stat results if no memory can have its name. The listing is None if there is no
        directory at the path. The paths in `known` are known to be valid, so they are not checked again.
        """
        files: dict[str, os.stat_result] = {}
        names = self._names(under)
        try:
            with self._opened(names) as directory:
                return files, _scan(directory, under, files, known)
        except FileNotFoundError:
            pass
        except NotADirectoryError:
            self._obstacle(names)
        except OSError as error:
            raise os_error(error) from None
        return files, None

    def has_listing(self, under: str, listing: FileListing) -> bool:
        """Return True if the directory at a path still has the entries of `listing`. Returns False if in doubt."""
        with suppress(OSError), self._opened(self._names(under)) as directory:
            return is_unchanged(listing, directory)
        return False

    def put(self, path: str, data: bytes, expected: Expected) -> None:
        """Write a file atomically, without a sync. Only its owner can read the file. Raises OSError.

        `expected` is the file to replace. If it was edited meanwhile, it is not replaced.
        """
        *above, name = self._names(path)
        scratch = self._scratch.write(data)
        used = False
        try:
            with self._opened(above, make=True) as directory:
                used = self._swap(scratch, name, directory, expected)
        finally:
            if not used:
                self._scratch.discard(scratch)

    def _swap(self, scratch: str, name: str, directory: int, expected: Expected) -> bool:
        """Rename the temporary file `scratch` to its target. Returns True if the name `scratch` is now free."""
        private = self._scratch.directory
        if not expected.mark:
            with suppress(FileExistsError):
                rename_if_free(scratch, private, name, directory)
                return True
        elif exchange(scratch, private, name, directory):
            if not _is_as_expected(scratch, private, expected):
                exchange(scratch, private, name, directory)
        elif _is_as_expected(name, directory, expected):
            os.rename(scratch, name, src_dir_fd=private, dst_dir_fd=directory)
            return True
        return False

    def move(self, old: str, new: str) -> None:
        """Rename a file if the new name is free. Raises OSError."""
        *above, name = self._names(old)
        *new_above, new_name = self._names(new)
        with suppress(FileNotFoundError, FileExistsError):
            with self._opened(above) as source, self._opened(new_above, make=True) as target:
                rename_if_free(name, source, new_name, target)
            self._remove_empty(above)

    def drop(self, path: str, expected: Expected) -> None:
        """Remove a file if it is still the one that is expected, and remove directories that become empty.

        Raises OSError.
        """
        *above, name = self._names(path)
        private, scratch = self._scratch.directory, self._scratch.new_name()
        with suppress(FileNotFoundError, NotADirectoryError):
            with self._opened(above) as directory:
                os.rename(name, scratch, src_dir_fd=directory, dst_dir_fd=private)
                if _is_as_expected(scratch, private, expected):
                    self._scratch.discard(scratch)
                else:
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
            if self.state(path).kind is FileKind.DIRECTORY:
                self.prune(path)
            with suppress(FileNotFoundError):  # the file or a directory above it is missing
                self._quarantine(path)
            self.put(path, data, NO_FILE)
        _warn(_ALTERED, path)

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


def mark_of(status: os.stat_result) -> Mark:
    """Return the mark of a regular file: its inode, size and times."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _is_as_expected(name: str, directory: int, expected: Expected) -> bool:
    """Return True if a file was not changed since it was compared. The ctime is ignored: a rename changes it."""
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode) or mark_of(status)[:-1] != expected.mark[:-1]:
        return False
    return not expected.digest or sha256(_read(name, directory) or b"").digest() == expected.digest


def _read(name: str, directory: int) -> bytes | None:
    descriptor = os.open(name, _READ, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        data = os.read(descriptor, status.st_size + 1)
        if len(data) <= status.st_size:  # fewer bytes than requested: end of the file
            return data
        parts = [data]
        while parts[-1]:
            parts.append(os.read(descriptor, _READ_BYTES))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _scan(directory: int, under: str, files: dict[str, os.stat_result], known: Container[str]) -> FileListing:
    roomy = under.count("/") <= MAX_SEGMENTS and len(under.encode("utf-8", "surrogatepass")) < _ROOMY_BYTES
    listing, found = list_directory(directory)
    for name, status in zip(listing.names, found, strict=True):
        if status is None or is_reserved(name):
            continue
        path = f"{under}/{name}"
        if not (path in known or (roomy and _PLAIN_NAME.fullmatch(name)) or is_memory_path(path)):
            _report_name(path)
        elif stat.S_ISREG(status.st_mode):
            files[path] = status
        elif stat.S_ISDIR(status.st_mode):
            # The directory may have been removed or replaced with a link.
            with suppress(FileNotFoundError, NotADirectoryError), OpenedDirectory(directory, (name,)) as inner:
                listing.inner.append((name, _scan(inner, path, files, known)))
    return listing


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
        _warn("a file or directory is ignored, because no memory can have its name: %s", path)


def _warn(message: str, path: str) -> None:
    import logging  # noqa: PLC0415 - needed rarely, and slow to import

    logging.getLogger("retentive").warning(message, visible(path))


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
