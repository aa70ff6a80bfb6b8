"""Files that are made whole or not at all, and what their failures mean."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from retentive.errors import InvalidInput, NotFound, PermissionDenied, StoreFull, Unavailable
from retentive.storage.disk import FILE_MODE, os_error, sync_directory


class NameTaken(InvalidInput):
    """Something has the name that a new file or directory was to have. It is left as it is."""

    code = "already_exists"


@contextmanager
def new_file(path: str) -> Iterator[IO[bytes]]:
    """A file for the owner only that has its name when the block ends without an error, and is gone if not.

    Raises `NameTaken` if something has the name. Nothing is ever seen under the name but the whole, durable file.
    """
    directory, name = os.path.split(os.path.abspath(path))
    check_free(path)
    part = os.path.join(directory, f".{name}.{secrets.token_hex(4)}.part")
    with said():
        file = os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE), "w+b")
    try:
        with said():
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
            finally:
                with suppress(OSError):  # of a disk that is full, while an error is on its way
                    file.close()
            check_free(path)
            os.rename(part, path)
            sync_directory(directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def check_free(path: str) -> None:
    """Raise `NameTaken` if something has this name already."""
    if os.path.lexists(path):
        raise NameTaken("there is a file or directory of that name already; nothing is overwritten")


@contextmanager
def said() -> Iterator[None]:
    """What the operating system refuses, as an error of ours, without the name of a file."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound("the file or the directory for it is not there") from None
    except OSError as error:
        raise _meaning(error) from None


def _meaning(error: OSError) -> Exception:
    meant = os_error(error)
    if isinstance(meant, StoreFull):
        return StoreFull("no space is left for the file; it was not made")
    if isinstance(meant, PermissionDenied):
        return PermissionDenied("the file may not be read or written by this process")
    return Unavailable(f"the file could not be read or written ({error.strerror})")
