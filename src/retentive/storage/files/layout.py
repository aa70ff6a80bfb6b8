"""Layout of a location that is a directory: names of its files, and the format number of the bookkeeping folder.

The format number covers the journal, the quarantine and the layout of the folder. The database has its own format.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from retentive.errors import UnknownSchema
from retentive.storage.contract import DEFAULT_WORKSPACE, StoreInfo
from retentive.storage.disk import FILE_MODE, sync_directory
from retentive.storage.sql.schema import ForeignSchema

DEFAULT_KEY = "default"
PRIVATE = ".retentive"
"""Name of the bookkeeping folder, which contains the database, locks, temporary files and the quarantine."""
_FOLDER = re.compile(r"(?!memstore_)[a-z0-9][a-z0-9_-]{0,63}")  # valid on file systems that ignore case
FORMAT = 1
_NAME = "format"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_BYTES = 64


def parts_of(store: StoreInfo) -> tuple[str, ...]:
    """Return the components of the path of the directory that contains the files of a store.

    The directory is named after the store key if the key is valid on all file systems, otherwise after the store id.
    Outside the default workspace, the id is always used, because another workspace may have the same keys.
    """
    key = (store.key or "") if store.workspace_id == DEFAULT_WORKSPACE else ""
    if key == DEFAULT_KEY:
        return ("memories",)
    return ("stores", key if _FOLDER.fullmatch(key) else store.id, "memories")


def check_format(private: str) -> None:
    """Raise `UnknownSchema` if the bookkeeping folder has an unknown format or was not created by retentive.

    Raises `OSError` if the folder cannot be read.
    """
    number = _number(private)
    if number is None:
        others = [name for name in os.listdir(private) if not name.startswith(_NAME)]
        number = _number(private)  # read again, since another process may be creating the folder
        if number is None and others:
            raise ForeignSchema(
                "the folder .retentive has no format number, so retentive did not create it; use another directory"
            )
    if number is not None and number != FORMAT:
        known = f"this version of retentive supports only format {FORMAT}"
        raise UnknownSchema(f"the directory has format {number}, but {known}; upgrade retentive")


def write_format(private: str) -> None:
    """Write the format number into a new bookkeeping folder, before any other file. Raises OSError."""
    if _number(private) is not None:
        return
    scratch = os.path.join(private, f"{_NAME}.{os.getpid()}")
    with suppress(FileNotFoundError):
        os.unlink(scratch)
    with os.fdopen(os.open(scratch, _NEW, FILE_MODE), "wb") as file:
        file.write(f"{FORMAT}\n".encode())
        file.flush()
        os.fsync(file.fileno())
    os.rename(scratch, os.path.join(private, _NAME))
    sync_directory(private)


def _number(private: str) -> int | None:
    """Return the format number of the folder, or None if there is no format file. Raises `UnknownSchema`, OSError."""
    try:
        with os.fdopen(os.open(os.path.join(private, _NAME), _READ), "rb") as file:
            return int(file.read(_MAX_BYTES))
    except FileNotFoundError:
        return None
    except ValueError:
        raise UnknownSchema("the file .retentive/format does not contain a format number") from None
