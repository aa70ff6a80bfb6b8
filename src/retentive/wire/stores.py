"""Memory stores, their exports and imports."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from retentive.values.properties import Properties, StoreInfo
from retentive.wire.base import Answer, Count, Fields, Name, ObjectOf, ShownPath, UtcTime


class StoreCreation(Fields):
    """New memory store."""

    name: Name = Field(description="Display name")
    description: str | None = Field(None, max_length=1_024, description="What the store is for")
    metadata: dict[str, str] | None = Field(None, description="At most 16 texts by name")
    key: Name | None = Field(None, description="Key, unique in the workspace; if it is taken, the answer is that store")


class StoreUpdate(Fields):
    """Changes of a memory store."""

    name: Name | None = Field(None, description="Display name")
    description: str | None = Field(None, max_length=1_024, description="What the store is for")
    metadata: dict[str, str | None] | None = Field(None, description="Texts by name; null removes one")


class StoreObject(ObjectOf[StoreInfo]):
    """Memory store. Hosted memory stores have neither a key nor sizes."""

    id: str
    type: Literal["memory_store"] = "memory_store"
    name: str
    description: str
    metadata: dict[str, str]
    key: str | None = None
    memory_count: Count | None = None
    content_size_bytes: Count | None = None
    created_at: UtcTime
    updated_at: UtcTime
    archived_at: UtcTime | None

    attributes: ClassVar = {"memory_count": "memories", "content_size_bytes": "size_bytes"}

    def value(self, **_: object) -> StoreInfo:
        """Return the description of the memory store."""
        updated_at = None if self.updated_at == self.created_at else self.updated_at
        about = Properties(self.name, self.description, self.metadata, updated_at, self.archived_at)
        sizes = self.memory_count or 0, self.content_size_bytes or 0
        return StoreInfo(self.id, self.key, self.name, self.created_at, *sizes, properties=about.to_text())


class StoreDeleted(Answer):
    """Answer to the erasure of a memory store."""

    id: str
    type: Literal["memory_store_deleted"] = "memory_store_deleted"


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
