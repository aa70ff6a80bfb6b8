"""Creates files that get their names only when they are complete, and converts errors of the operating system."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from retentive.errors import AlreadyExists, NotFound, PermissionDenied, StorageReadOnly, StoreFull, Unavailable
from retentive.storage.disk import BINARY, CLOSE_ON_EXEC, FILE_MODE, os_error, sync_directory

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | CLOSE_ON_EXEC | BINARY


class NameTaken(AlreadyExists):
    """Error: the name for a new file or directory is in use. Nothing was overwritten."""


@contextmanager
def new_file(path: str) -> Iterator[IO[bytes]]:
    """Yield a new file that only its owner can read.

    The file gets its name when the block ends without an error. By then it is complete and synced to disk. After an
    error, the file is removed. Raises `NameTaken`.
    """
    directory, name = os.path.split(os.path.abspath(path))
    check_free(path)
    part = os.path.join(directory, f".{name}.{secrets.token_hex(4)}.part")
    with mapped_os_errors():
        file = os.fdopen(os.open(part, _NEW, FILE_MODE), "w+b")
    try:
        with mapped_os_errors():
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
            finally:
                with suppress(OSError):  # on a full disk this fails too, and only the first error is raised
                    file.close()
            check_free(path)
            os.rename(part, path)
            sync_directory(directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def check_free(path: str) -> None:
    """Raise `NameTaken` if a file or directory has this name."""
    if os.path.lexists(path):
        raise NameTaken("a file or directory with this name exists and was not overwritten; choose another name")


@contextmanager
def mapped_os_errors() -> Iterator[None]:
    """Convert errors of the operating system to errors of retentive.

    The messages of the new errors do not contain names of files.
    """
    try:
        yield
    except FileNotFoundError:
        raise NotFound("the file or its directory does not exist") from None
    except OSError as error:
        raise _mapped(error) from None


def _mapped(error: OSError) -> Exception:
    mapped = os_error(error)
    if isinstance(mapped, StoreFull):
        return StoreFull("the disk is full; the file was not written")
    if isinstance(mapped, StorageReadOnly):
        return StorageReadOnly("the file cannot be written, because its file system is read-only")
    if isinstance(mapped, PermissionDenied):
        return PermissionDenied("this process has no permission to read or write the file")
    return Unavailable(f"the file could not be read or written ({error.strerror})")
