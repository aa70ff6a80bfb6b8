"""Names in a location that is a directory, and the check that its bookkeeping folder belongs to retentive."""

from __future__ import annotations

import os
import re
import tempfile

from retentive.errors import InvalidInput
from retentive.storage.contract import DEFAULT_WORKSPACE, StoreInfo
from retentive.storage.disk import os_error
from retentive.storage.sql.schema import ForeignSchema

DEFAULT_KEY = "default"
PRIVATE = ".retentive"
"""Name of the bookkeeping folder, which contains the database, locks and temporary files."""
DATABASE = "memory.db"
_FOLDER = re.compile(r"(?!memstore_)[a-z0-9][a-z0-9_-]{0,63}")  # valid on file systems that ignore case
_NEW = frozenset({"tmp", "live", "journal"})  # may be there before the database


def parts_of(store: StoreInfo) -> tuple[str, ...] | None:
    """Return the components of the path of the directory with the files of a store. None if the store is encrypted.

    The directory is named after the store key if the key is valid on all file systems, otherwise after the store id.
    Outside the default workspace, the id is always used, because another workspace may have the same keys.
    """
    if store.seal is not None:
        return None
    key = (store.key or "") if store.workspace_id == DEFAULT_WORKSPACE else ""
    if key == DEFAULT_KEY:
        return ("memories",)
    return ("stores", key if _FOLDER.fullmatch(key) else store.id, "memories")


def check_private(private: str) -> None:
    """Raise `ForeignSchema` if the bookkeeping folder was not created by retentive, `InvalidInput` for links in it.

    The format of the folder is that of the database. Raises OSError if the folder cannot be read.
    """
    with os.scandir(private) as entries:
        names = {entry.name: entry.is_symlink() for entry in entries}
    if any(names.values()):
        raise InvalidInput(f"{PRIVATE} in the location must not contain symbolic links; remove them")
    if DATABASE not in names and any(name not in _NEW and not name.startswith(DATABASE) for name in names):
        raise ForeignSchema("the folder .retentive has no database of retentive; use another directory")


def temporary_folder() -> str:
    """Create a temporary directory for bookkeeping, and return its path."""
    try:
        return tempfile.mkdtemp(prefix="retentive-")
    except OSError as error:
        raise os_error(error) from None


def not_a_directory(name: str) -> InvalidInput:
    """Return the error for a link or file in place of the directory `name`."""
    return InvalidInput(f"{name} in the location must be a directory, not a link or a file")
