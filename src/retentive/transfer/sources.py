"""Sources of imports: a directory, a tar file, or the current memories of an export."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, Protocol

from retentive.errors import NotFound, TooLarge
from retentive.storage.disk import expanded, need_posix
from retentive.transfer.archive_reader import Archive
from retentive.transfer.plain_tar import PlainEntry, PlainTar
from retentive.values.paths import ROOT, is_reserved

MAX_FILE_BYTES = 256 * 1024 * 1024  # each file is loaded into memory
LAYOUT = "memories"  # the directory in which the official SDK's local tool and retentive keep memories
OWN = ".retentive"  # what the directory backend keeps beside the memories
TOO_LARGE = f"larger than {MAX_FILE_BYTES // 2**20} MB"


class Source(Protocol):
    """Supplies the files of an import."""

    @property
    def inside(self) -> str | None:
        """The only directory that is read, or None if all directories are read."""

    def count(self) -> int:
        """Return the number of files."""

    def items(self) -> Iterator[Item]:
        """Yield all files, and the directories that are skipped."""


@dataclass(frozen=True, slots=True)
class Item:
    """File of a source. `name` is its path in the source, separated by `/`.

    `is_memory` is True if a command made it, and False for a file that any program can have written.
    """

    name: str
    read: Callable[[], bytes | str]
    """Returns the bytes of the file, or the reason why it cannot be a memory, as a string."""
    is_memory: bool = False


def refused(name: str, why: str) -> Item:
    """Return an item for a file that cannot be a memory. `why` is the reason."""
    return Item(name, lambda: why)


def left_out(name: str) -> str | None:
    """Return the path up to and including its first name that is never imported, such as `.git`, or None."""
    parts = name.split("/")
    at = next((number for number, part in enumerate(parts) if is_reserved(part) or part == OWN), None)
    return None if at is None else "/".join(parts[: at + 1])


class DirectorySource:
    """Files below a directory.

    If the directory has a subdirectory `memories`, only this subdirectory is read, and `inside` is the name of this
    subdirectory. Symbolic links and devices are not read. Raises `NotFound`.
    """

    def __init__(self, path: str) -> None:
        need_posix("an import of a directory", "on this system import an archive")
        path = expanded(path)
        if not os.path.isdir(path):
            raise NotFound("the file or directory does not exist")
        within = os.path.join(path, LAYOUT)
        has_layout = os.path.isdir(within) and not os.path.islink(within)
        self.inside = LAYOUT if has_layout else None
        self._root = os.path.realpath(within if has_layout else path)

    def count(self) -> int:
        """Return the number of files."""
        return sum(len(files) for _, _, files, _ in self._walk())

    def items(self) -> Iterator[Item]:
        """Yield each file and each skipped directory. For example, a symbolic link to a directory is skipped.

        The caller must read a file before it asks for the next one.
        """
        with closing(self._walk()) as walked:
            for directory, unfollowed, files, descriptor in walked:
                below = os.path.relpath(directory, self._root)
                prefix = "" if below == "." else below + "/"
                for name in unfollowed:
                    yield refused(prefix + name, "a symbolic link")
                for name in sorted(files):
                    yield Item(prefix + name, partial(_read, name, descriptor))

    def _walk(self) -> Generator[tuple[str, list[str], list[str], int], None, None]:
        """Yield each directory that is read: its path, its skipped subdirectories, its files and its descriptor."""

        def failed(error: OSError) -> None:
            raise error

        for directory, directories, files, descriptor in os.fwalk(self._root, onerror=failed, follow_symlinks=False):
            unfollowed = [name for name in directories if left_out(name) or _is_link(name, descriptor)]
            directories[:] = sorted(set(directories) - set(unfollowed))
            yield directory, sorted(unfollowed), files, descriptor


class ArchiveSource:
    """Current memories of an export, without their history."""

    inside: str | None = None

    def __init__(self, archive: Archive) -> None:
        self._section = archive.exported()
        self._archive = archive

    def count(self) -> int:
        """Return the number of memories."""
        return self._section.header.memories

    def items(self) -> Iterator[Item]:
        """Yield all memories, in the order of the file."""
        paths = {text_of: memory.path for memory, text_of in self._section.memories()}
        for _, version_id, data in self._archive.texts():
            if version_id in paths:
                yield Item(paths[version_id][len(ROOT) + 1 :], partial(bytes, data), is_memory=True)


class TarSource:
    """Files of a tar file, without links and devices. For an export, use `ArchiveSource` instead.

    If the tar file has a directory `memories`, only the files in it are read. Raises `Damaged`. Raises `TooLarge` if
    there are more than `max_files` files, or more than `max_bytes` bytes after decompression. A file of more than
    `max_file_bytes` is refused.
    """

    def __init__(
        self,
        raw: IO[bytes],
        *,
        max_bytes: int | None = None,
        max_files: int | None = None,
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self._raw = raw
        self._max_file_bytes = max_file_bytes
        self._count, inside = 0, 0
        is_inside = False
        for entry in PlainTar(raw, max_bytes=max_bytes).plain():
            is_inside = is_inside or _name_in(entry).startswith(f"{LAYOUT}/")
            self._count += not entry.name.endswith("/")
            inside += _name_in(entry).startswith(f"{LAYOUT}/") and not entry.name.endswith("/")
            if max_files is not None and self._count > max_files:
                raise TooLarge(f"the archive has more than {max_files} files")
        self.inside = LAYOUT if is_inside else None
        self._count = inside if is_inside else self._count

    def count(self) -> int:
        """Return the number of files."""
        return self._count

    def items(self) -> Iterator[Item]:
        """Yield all files. The caller must read a file before it asks for the next one."""
        start, tar = f"{LAYOUT}/" if self.inside else "", PlainTar(self._raw)
        for entry in tar.plain():
            name = _name_in(entry)
            if name.endswith("/") or not name.startswith(start):
                continue
            name = name[len(start) :]
            if entry.why is not None:
                yield refused(name, entry.why)
            elif entry.size > self._max_file_bytes:
                yield refused(name, f"larger than {self._max_file_bytes} bytes")
            else:
                yield Item(name, partial(tar.read, entry.size))


def _name_in(entry: PlainEntry) -> str:
    return entry.name.removeprefix("./")


def _is_link(name: str, descriptor: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode)


def _read(name: str, descriptor: int) -> bytes | str:
    """Return the bytes of a regular file, or the reason why it cannot be read. Links are not followed."""
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return "a symbolic link"
        if not stat.S_ISREG(status.st_mode):  # checked before opening, because opening a device can have effects
            return "not a regular file"
        try:
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
        except PermissionError:
            return "not readable by this process"
        except OSError as error:
            return f"cannot be read ({error.strerror})"
        with os.fdopen(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                return "not a regular file"
            data = file.read(MAX_FILE_BYTES + 1)
            return TOO_LARGE if len(data) > MAX_FILE_BYTES else data
    return "no longer exists"
