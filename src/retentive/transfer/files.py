"""Creates files that get their names only when they are complete, and converts errors of the operating system."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, TypeAlias, TypeVar

from retentive.errors import (
    AlreadyExists,
    InvalidInput,
    NotFound,
    PermissionDenied,
    RetentiveError,
    StorageReadOnly,
    StoreFull,
    Unavailable,
)
from retentive.storage.disk import BINARY, CLOSE_ON_EXEC, DIRECTORY_MODE, FILE_MODE, os_error, sync_directory

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | CLOSE_ON_EXEC | BINARY

CHUNK = 64 * 1024
T = TypeVar("T")
TransferProgress: TypeAlias = Callable[[int, int | None], None]
"""Function that shows progress. It gets the number of versions or files that are done, and the total if it is known."""
_MESSAGES: Mapping[type[RetentiveError], str] = {
    StoreFull: "the disk is full; the file was not written",
    StorageReadOnly: "the file cannot be written, because its file system is read-only",
    PermissionDenied: "this process has no permission to read or write the file",
}


def counted(items: Iterable[T], progress: TransferProgress | None, total: int | None = None) -> Iterator[T]:
    """Yield the items, and show the number of those that are done."""
    for number, item in enumerate(items, start=1):
        yield item
        if progress is not None:
            progress(number, total)


def spool(directory: str | None = None) -> IO[bytes]:
    """Return a temporary file without a name. Closing the file removes it."""
    return tempfile.TemporaryFile(dir=directory)


def pieces(raw: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a file from its beginning."""
    raw.seek(0)
    return iter(lambda: raw.read(CHUNK), b"")


@contextmanager
def new_file(path: str) -> Iterator[IO[bytes]]:
    """Yield a new file that only its owner can read.

    The file gets its name when the block ends without an error. By then it is complete and synced to disk. After an
    error, the file is removed. Raises `AlreadyExists`.
    """
    check_free(path)
    with _named_at_the_end(os.path.abspath(path)) as part:
        file = os.fdopen(os.open(part, _NEW, FILE_MODE), "w+b")
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        finally:
            with suppress(OSError):  # on a full disk this fails too, and only the first error is raised
                file.close()
        check_free(path)


def replace_file(path: str, data: bytes) -> None:
    """Write a file at once: a reader sees its old content or the new one. Links and the mode of the file stay."""
    path = os.path.realpath(path)
    with _named_at_the_end(path) as part, os.fdopen(os.open(part, _NEW, 0o666), "wb") as file:
        if os.path.exists(path):
            os.chmod(part, stat.S_IMODE(os.stat(path).st_mode))
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def new_directory(target: str) -> Iterator[str]:
    """Yield the temporary path of a new directory, which gets the name `target` like a file of `new_file`."""
    with _named_at_the_end(target) as part:
        os.mkdir(part, DIRECTORY_MODE)
        yield part
        for directory, _, _ in os.walk(part):  # the names of the files must be on disk too
            sync_directory(directory)


@contextmanager
def _named_at_the_end(target: str) -> Iterator[str]:
    directory, name = os.path.split(target)
    part = os.path.join(directory, f".{name}.{secrets.token_hex(4)}.part")
    with mapped_os_errors():
        try:
            yield part
            os.replace(part, target)  # of directories, it replaces only an empty one
            sync_directory(directory)
        except BaseException:
            with suppress(OSError):
                shutil.rmtree(part) if os.path.isdir(part) else os.unlink(part)
            raise


def check_free(path: str) -> None:
    """Raise `AlreadyExists` if a file or directory has this name."""
    if os.path.lexists(path):
        raise AlreadyExists("a file or directory with this name exists and was not overwritten; choose another name")


@contextmanager
def mapped_os_errors() -> Iterator[None]:
    """Convert errors of the operating system to errors of retentive.

    The messages of the new errors do not contain names of files.
    """
    try:
        yield
    except FileNotFoundError:
        raise NotFound("the file or its directory does not exist") from None
    except IsADirectoryError:
        raise InvalidInput("this is a directory; name a file") from None
    except OSError as error:
        kind = type(os_error(error))
        if kind in _MESSAGES:
            raise kind(_MESSAGES[kind]) from None
        raise Unavailable(f"the file could not be read or written ({error.strerror})") from None
