"""Sources of imports: a directory, or a tar file."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, NamedTuple

from retentive.errors import InvalidInput, NotFound, TooLarge
from retentive.storage.disk import expanded, need_posix
from retentive.transfer.archive import ABOUT
from retentive.transfer.tar import TarReader
from retentive.values.paths import is_reserved

MAX_FILE_BYTES = 256 * 1024 * 1024  # each file is loaded into memory
LAYOUT = "memories"  # the directory in which the official SDK's local tool and retentive keep memories
OWN = ".retentive"  # what the directory backend keeps beside the memories


class Item(NamedTuple):
    """File of a source. `name` is its path in the source, separated by `/`.

    `read` returns the bytes of the file, or the reason why it cannot be a memory, as a string.
    """

    name: str
    read: Callable[[], bytes | str]


@dataclass(frozen=True, slots=True)
class Source:
    """Files of an import.

    `items` yields all files, and the directories that are skipped. Read a file before you ask for the next one.
    `inside` is the only directory that is read, or None if all directories are read.
    """

    items: Callable[[], Iterator[Item]]
    inside: str | None = None


def left_out(name: str) -> str | None:
    """Return the path up to and including its first name that is never imported, such as `.git`, or None."""
    parts = name.split("/")
    at = next((number for number, part in enumerate(parts) if is_reserved(part) or part == OWN), None)
    return None if at is None else "/".join(parts[: at + 1])


def directory_source(path: str) -> Source:
    """Return the files below a directory, without symbolic links and devices. Raises `NotFound`.

    If the directory has a subdirectory `memories`, only this subdirectory is read.
    """
    need_posix("an import of a directory", "on this system import a tar file")
    path = expanded(path)
    if not os.path.isdir(path):
        raise NotFound("the file or directory does not exist")
    within = os.path.join(path, LAYOUT)
    if os.path.isdir(within) and not os.path.islink(within):
        return Source(partial(_walk, os.path.realpath(within)), LAYOUT)
    return Source(partial(_walk, os.path.realpath(path)))


def _walk(root: str) -> Iterator[Item]:
    def fail(error: OSError) -> None:
        raise error

    for directory, directories, files, descriptor in os.fwalk(root, onerror=fail):
        below = os.path.relpath(directory, root)
        prefix = "" if below == "." else below + "/"
        for name in sorted(directories):
            if left_out(name) or stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                directories.remove(name)  # not walked
                yield Item(prefix + name, lambda: "a symbolic link")
        directories.sort()
        for name in sorted(files):
            yield Item(prefix + name, partial(_read, name, descriptor))


def _read(name: str, descriptor: int) -> bytes | str:
    """Return the bytes of a regular file, or the reason why it cannot be read. Links are not followed."""
    try:
        mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode):  # checked before opening, because opening a device can have effects
            return "a symbolic link" if stat.S_ISLNK(mode) else "not a regular file"
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor), "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return f"larger than {MAX_FILE_BYTES >> 20} MB" if len(data) > MAX_FILE_BYTES else data


def tar_source(
    raw: IO[bytes],
    *,
    max_bytes: int | None = None,
    max_files: int | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> Source:
    """Return the files of a tar file of any program, without links and devices. The whole file is verified first.

    If the tar file has a directory `memories`, only the files in it are read. Raises `Damaged`, and `InvalidInput` for
    an export or a backup. Raises `TooLarge` if there are more than `max_files` files, or more than `max_bytes` bytes
    after decompression. A file of more than `max_file_bytes` is refused.
    """
    tar, files, inside = TarReader(raw, max_bytes=max_bytes), 0, None
    for entry in tar.entries():
        name = entry.name.removeprefix("./")
        if name == ABOUT and not files:
            raise InvalidInput("the file is an export or a backup; it can only be imported with its history (--whole)")
        if name.startswith(f"{LAYOUT}/") or (name == LAYOUT and entry.isdir()):
            inside = LAYOUT
        files += not entry.isdir()
        if max_files is not None and files > max_files:
            raise TooLarge(f"the archive has more than {max_files} files")
    tar.rest()
    return Source(partial(_entries, raw, f"{inside}/" if inside else "", max_file_bytes), inside)


def _entries(raw: IO[bytes], start: str, max_file_bytes: int) -> Iterator[Item]:
    tar = TarReader(raw)
    for entry in tar.entries():
        name = entry.name.removeprefix("./")
        if entry.isdir() or not name.startswith(start):
            continue
        why = None
        if not entry.isreg() or entry.issparse():
            why = "a symbolic link" if entry.issym() else "a hard link" if entry.islnk() else "not a regular file"
        elif entry.size > max_file_bytes:
            why = f"larger than {max_file_bytes} bytes"
        yield Item(name[len(start) :], partial(tar.data, entry.size) if why is None else partial(str, why))
