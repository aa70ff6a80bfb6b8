"""What can be imported as memories: the files of a directory, a tree in a Git repository, the present of an export."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Protocol

from retentive.errors import InvalidInput, NotFound
from retentive.transfer.archive_reader import Archive
from retentive.values.paths import ROOT

MAX_FILE_BYTES = 256 * 1024 * 1024  # a file is taken into memory whole
LAYOUT = "memories"  # the directory in which the official SDK's local tool, and this one, keep memories
LEFT_OUT = frozenset({".git", ".retentive"})  # directories that hold no memories of a person's
TOO_LARGE = f"larger than {MAX_FILE_BYTES // 2**20} MB"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to import: its name with `/` between, and how to read it, or else why it cannot be a memory.

    `expected`: that it is none goes without saying, and nobody has to look after it.
    """

    name: str
    read: Callable[[], bytes | str]
    """Gives the bytes, or why there are none."""
    expected: bool = False


class Source(Protocol):
    """Where memories come from. `inside` names the directory `memories` if only what is in it is taken."""

    inside: str | None

    def count(self) -> int:
        """About how many there are."""

    def items(self) -> Iterator[Item]:
        """All of them, each good until the next."""


def refused(name: str, why: str) -> Item:
    """What cannot be a memory."""
    return Item(name, lambda: why)


def left(name: str) -> Item:
    """What holds no memories, and is left where it is."""
    return Item(name, lambda: "holds no memories", expected=True)


class DirectorySource:
    """The files below a directory; of one that has a directory `memories`, the files in that.

    Links are never followed; neither they nor devices are read. Raises `NotFound`.
    """

    def __init__(self, path: str) -> None:
        if not os.path.isdir(path):
            raise NotFound("there is no such file or directory")
        within = os.path.join(path, LAYOUT)
        has_layout = os.path.isdir(within) and not os.path.islink(within)
        self.inside = LAYOUT if has_layout else None
        self._root = os.path.realpath(within if has_layout else path)

    def count(self) -> int:
        """How many files there are."""
        return sum(len(files) for _, _, files, _ in self._walk())

    def items(self) -> Iterator[Item]:
        """All files, and what is not entered, each good until the next."""
        with closing(self._walk()) as walked:
            for directory, unfollowed, files, descriptor in walked:
                below = os.path.relpath(directory, self._root)
                prefix = "" if below == "." else below + "/"
                for name in unfollowed:
                    yield left(prefix + name) if name in LEFT_OUT else refused(prefix + name, "a symbolic link")
                for name in sorted(files):
                    yield Item(prefix + name, _file_reader(name, descriptor))

    def _walk(self) -> Generator[tuple[str, list[str], list[str], int], None, None]:
        """Directory by directory: its path, directories in it that are not entered, its files, its descriptor."""

        def failed(error: OSError) -> None:
            raise error

        for directory, directories, files, descriptor in os.fwalk(self._root, onerror=failed, follow_symlinks=False):
            unfollowed = [name for name in directories if name in LEFT_OUT or _is_link(name, descriptor)]
            directories[:] = sorted(set(directories) - set(unfollowed))
            yield directory, sorted(unfollowed), files, descriptor


class ArchiveSource:
    """The present memories in an export, without their history."""

    inside: str | None = None

    def __init__(self, archive: Archive) -> None:
        if archive.is_backup:
            raise InvalidInput("the file is a backup: `retentive restore-backup` takes it")
        (self._section,) = archive.sections
        if self._section.is_raw:
            raise InvalidInput("the memory store in the file is sealed")
        self._archive = archive

    def count(self) -> int:
        """How many memories there are."""
        return self._section.header.memories

    def items(self) -> Iterator[Item]:
        """All memories, in the order of the file."""
        paths = {text_of: memory.path for memory, text_of in self._section.memories()}
        for _, version_id, data in self._archive.texts():
            if version_id in paths:
                yield Item(paths[version_id][len(ROOT) + 1 :], lambda data=data: data)  # type: ignore[misc]


def _is_link(name: str, descriptor: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode)


def _file_reader(name: str, descriptor: int) -> Callable[[], bytes | str]:
    return lambda: _read(name, descriptor)


def _read(name: str, descriptor: int) -> bytes | str:
    """The bytes of a regular file, or why there are none. What is swapped for a link meanwhile is not followed."""
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return "a symbolic link"
        if not stat.S_ISREG(status.st_mode):  # looked at first: to open a device may do something
            return "no regular file"
        try:
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
        except PermissionError:
            return "may not be read by this process"
        except OSError as error:
            return f"cannot be read ({error.strerror})"
        with os.fdopen(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                return "no regular file"
            data = file.read(MAX_FILE_BYTES + 1)
            return TOO_LARGE if len(data) > MAX_FILE_BYTES else data
    return "is not there any more"
