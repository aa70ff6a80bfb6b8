"""Sources of imports: a directory, a tar file, or the current memories of an archive."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, Protocol

from retentive.errors import NotFound, TooLarge
from retentive.storage.disk import expanded, need_posix
from retentive.transfer.archive import Archive
from retentive.transfer.lines import Copied
from retentive.transfer.tar import TarReader
from retentive.values.paths import ROOT, is_reserved

MAX_FILE_BYTES = 256 * 1024 * 1024  # each file is loaded into memory
LAYOUT = "memories"  # the directory in which the official SDK's local tool and retentive keep memories
OWN = ".retentive"  # what the directory backend keeps beside the memories


@dataclass(frozen=True, slots=True)
class Item:
    """File of a source. `name` is its path in the source, separated by `/`.

    `is_memory` is True if a command made it, and False for a file that any program can have written.
    """

    name: str
    read: Callable[[], bytes | str]
    """Returns the bytes of the file, or the reason why it cannot be a memory, as a string."""
    is_memory: bool = False


class Source(Protocol):
    """Supplies the files of an import."""

    @property
    def inside(self) -> str | None:
        """The only directory that is read, or None if all directories are read."""

    def items(self) -> Iterator[Item]:
        """Yield all files, and the directories that are skipped. Read a file before you ask for the next one."""


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

    def items(self) -> Iterator[Item]:
        """Yield each file and each skipped directory. For example, a symbolic link to a directory is skipped."""
        for directory, directories, files, descriptor in os.fwalk(self._root, onerror=_fail):
            below = os.path.relpath(directory, self._root)
            prefix = "" if below == "." else below + "/"
            for name in sorted(directories):
                if left_out(name) or stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    directories.remove(name)  # not walked
                    yield Item(prefix + name, lambda: "a symbolic link")
            directories.sort()
            for name in sorted(files):
                yield Item(prefix + name, partial(_read, name, descriptor))


class ArchiveSource:
    """Current memories of an export, without their history."""

    inside: str | None = None

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def items(self) -> Iterator[Item]:
        """Yield all memories, in the order of the file."""
        names = {memory.version_id: memory.path[len(ROOT) + 1 :] for memory in self._archive.memories}
        for _, lines in self._archive.stores([self._archive.exported().id]):
            for line in lines:
                if isinstance(line, Copied) and line.data is not None and line.version.id in names:
                    yield Item(names[line.version.id], partial(bytes, line.data), is_memory=True)


class TarSource:
    """Files of a tar file of any program, without links and devices.

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
        self.inside: str | None = None
        tar, files = TarReader(raw, max_bytes=max_bytes), 0
        for entry in tar.entries():
            name = entry.name.removeprefix("./")
            if name.startswith(f"{LAYOUT}/") or (name == LAYOUT and entry.isdir()):
                self.inside = LAYOUT
            files += not entry.isdir()
            if max_files is not None and files > max_files:
                raise TooLarge(f"the archive has more than {max_files} files")
        tar.rest()

    def items(self) -> Iterator[Item]:
        """Yield all files."""
        start, tar = f"{LAYOUT}/" if self.inside else "", TarReader(self._raw)
        for entry in tar.entries():
            name = entry.name.removeprefix("./")
            if entry.isdir() or not name.startswith(start):
                continue
            why = None
            if not entry.isreg() or entry.issparse():
                why = "a symbolic link" if entry.issym() else "a hard link" if entry.islnk() else "not a regular file"
            elif entry.size > self._max_file_bytes:
                why = f"larger than {self._max_file_bytes} bytes"
            yield Item(name[len(start) :], partial(tar.data, entry.size) if why is None else partial(str, why))


def _fail(error: OSError) -> None:
    raise error


def _read(name: str, descriptor: int) -> bytes | str:
    """Return the bytes of a regular file, or the reason why it cannot be read. Links are not followed."""
    try:
        mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode):  # checked before opening, because opening a device can have effects
            return "a symbolic link" if stat.S_ISLNK(mode) else "not a regular file"
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor), "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return "no longer exists"
    except PermissionError:
        return "not readable by this process"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return f"larger than {MAX_FILE_BYTES >> 20} MB" if len(data) > MAX_FILE_BYTES else data
