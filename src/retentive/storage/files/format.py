"""Format number of the bookkeeping folder of a directory.

It covers the folder layout, the journal and the quarantine. The database has its own format number.
"""

from __future__ import annotations

import os
from contextlib import suppress

from retentive.errors import UnknownSchema
from retentive.storage.disk import FILE_MODE, sync_directory
from retentive.storage.sql.schema import ForeignSchema

FORMAT = 1
_NAME = "format"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_BYTES = 64


def check_format(private: str) -> None:
    """Raise `UnknownSchema` if the bookkeeping folder has an unknown format or is not ours; also OSError."""
    number = _number(private)
    if number is None:
        others = [name for name in os.listdir(private) if not name.startswith(_NAME)]
        number = _number(private)  # read again: another process may be creating the folder
        if number is None and others:
            raise ForeignSchema("the bookkeeping folder has no format number: retentive did not make it")
    if number is not None and number != FORMAT:
        raise UnknownSchema(f"the directory has format {number}, this retentive knows {FORMAT}: upgrade it to open it")


def write_format(private: str) -> None:
    """Write the format number into a new bookkeeping folder, before any other file. Raises OSError."""
    if _number(private) is not None:
        return
    scratch = os.path.join(private, f"{_NAME}.{os.getpid()}")
    with suppress(FileNotFoundError):
        os.unlink(scratch)
    descriptor = os.open(scratch, _NEW, FILE_MODE)
    try:
        os.write(descriptor, f"{FORMAT}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(scratch, os.path.join(private, _NAME))
    sync_directory(private)


def _number(private: str) -> int | None:
    """Format number of the folder, or None. Raises `UnknownSchema` if it is not a number; also OSError."""
    try:
        descriptor = os.open(os.path.join(private, _NAME), _READ)
    except FileNotFoundError:
        return None
    try:
        return int(os.read(descriptor, _MAX_BYTES))
    except ValueError:
        raise UnknownSchema("the format number of the directory cannot be read") from None
    finally:
        os.close(descriptor)
