"""Exports and imports."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from retentive.wire.base import Answer, Count, ObjectOf, ShownPath
from retentive.wire.stores import StoreObject


class ImportedFile(ObjectOf[Any]):
    """What an import did with a file."""

    name: str
    path: ShownPath | None
    outcome: Literal["created", "replaced", "same", "exists", "left", "refused"]
    reason: str | None
    attributes: ClassVar = {"outcome": "became", "reason": "why"}


class ImportResult(Answer):
    """Answer to an import of memories."""

    type: Literal["import_result"] = "import_result"
    files: list[ImportedFile]
    dry_run: bool
    proposed: bool


class StoreImported(Answer):
    """Answer to an import of a memory store."""

    type: Literal["import_of_memory_store"] = "import_of_memory_store"
    memory_store: StoreObject
    memories: Count
    content_size_bytes: Count
    versions: Count
    added_versions: Count
