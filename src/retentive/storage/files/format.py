"""Format number of the bookkeeping folder of a directory.

It covers what is beside the database, which has a number of its own: the layout of folders, the journal, quarantine.
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
    """Raises `UnknownSchema` if the bookkeeping folder is of an unknown format, or of something else; OSError."""
    number = _number(private)
    if number is None:
        others = [name for name in os.listdir(private) if not name.startswith(_NAME)]
        number = _number(private)  # once more: another process may have been making the folder
        if number is None and others:
            raise ForeignSchema("the bookkeeping folder has no format number: retentive did not make it")
    if number is not None and number != FORMAT:
        raise UnknownSchema(f"the directory has format {number}, this retentive knows {FORMAT}: upgrade it to open it")


def write_format(private: str) -> None:
    """Give a new bookkeeping folder the format number, before anything else is in it. Raises OSError."""
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
    """The format number of the folder, None without one. Raises `UnknownSchema` if it cannot be read; OSError."""
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
