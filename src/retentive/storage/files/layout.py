"""Layout of a directory: names below its root, and the format number of the bookkeeping folder.

The number covers the folder layout, the journal and the quarantine. The database has its own format number.
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
"""Name of the bookkeeping folder for the database, locks, temporary files and quarantine."""
_FOLDER = re.compile(r"(?!memstore_)[a-z0-9][a-z0-9_-]{0,63}")  # valid on file systems that ignore case
FORMAT = 1
_NAME = "format"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_BYTES = 64


def parts_of(store: StoreInfo) -> tuple[str, ...]:
    """Path components of the directory of a store: the store key if it is a portable name, otherwise the store id.

    Only keys of the default workspace name directories, because another workspace may have the same keys.
    """
    key = (store.key or "") if store.workspace_id == DEFAULT_WORKSPACE else ""
    if key == DEFAULT_KEY:
        return ("memories",)
    return ("stores", key if _FOLDER.fullmatch(key) else store.id, "memories")


def check_format(private: str) -> None:
    """Raise `UnknownSchema` if the format of the bookkeeping folder is unknown or was not written by retentive.

    Raises OSError too.
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
    """Format number of the folder, or None. Raises `UnknownSchema` if the file contains no number, and OSError."""
    try:
        with os.fdopen(os.open(os.path.join(private, _NAME), _READ), "rb") as file:
            return int(file.read(_MAX_BYTES))
    except FileNotFoundError:
        return None
    except ValueError:
        raise UnknownSchema("the file .retentive/format must contain a format number, and does not") from None
