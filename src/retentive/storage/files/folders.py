"""Names below the root of a directory."""

from __future__ import annotations

import re

from retentive.storage.contract import StoreInfo

DEFAULT_KEY = "default"
PRIVATE = ".retentive"
"""Bookkeeping folder: database, locks, temporary files and quarantine."""
_FOLDER = re.compile(r"(?!memstore_)[a-z0-9][a-z0-9_-]{0,63}")  # safe on file systems that fold case


def parts_of(store: StoreInfo) -> tuple[str, ...]:
    """Path components of a store below the root: its key if that is a portable name, else its id."""
    if store.key == DEFAULT_KEY:
        return ("memories",)
    key = store.key or ""
    return ("stores", key if _FOLDER.fullmatch(key) else store.id, "memories")
