"""Memories."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from retentive.values.records import Memory
from retentive.wire.base import (
    Answer,
    AnswerPage,
    Count,
    Fields,
    FilePath,
    Sha256,
    Sourced,
    UtcTime,
    api_path,
    tool_path,
)


class MemoryCreation(Fields):
    """New memory."""

    path: FilePath = Field(description="Path, which begins with `/`")
    content: str = Field(description="Text of the memory")


class ContentHash(Fields):
    """Condition of a change."""

    type: Literal["content_sha256"]
    content_sha256: Sha256


class MemoryUpdate(Sourced):
    """Changes of a memory."""

    content: str | None = Field(None, description="New text")
    path: FilePath | None = Field(None, description="New path")
    precondition: ContentHash | None = Field(None, description="Hash that the content must have")


class MemoryObject(Answer):
    """Memory. `content` is null if the view is `basic`. `note` is there only if its path looks like a mistake."""

    id: str
    type: Literal["memory"] = "memory"
    memory_store_id: str
    memory_version_id: str
    path: str
    content: str | None
    content_sha256: Sha256
    content_size_bytes: Count
    created_at: UtcTime
    updated_at: UtcTime
    note: str | None = Field(None, exclude_if=lambda value: value is None)

    @classmethod
    def of(cls, memory: Memory, store_id: str, content: str | None, *, note: str | None = None) -> Self:
        """Return the object of a memory."""
        return cls(
            id=memory.id,
            memory_store_id=store_id,
            memory_version_id=memory.version_id,
            path=api_path(memory.path),
            content=content,
            content_sha256=memory.sha256,
            content_size_bytes=memory.size_bytes,
            created_at=memory.created_at,
            updated_at=memory.updated_at,
            note=note,
        )

    def memory(self) -> Memory:
        """Return the memory, without its text."""
        size, path = self.content_size_bytes, tool_path(self.path)
        version_id, sha256 = self.memory_version_id, self.content_sha256
        return Memory(self.id, path, size, sha256, version_id, self.created_at, self.updated_at)


class PrefixObject(Answer):
    """Directory in a list of memories. Its path ends with `/`."""

    type: Literal["memory_prefix"] = "memory_prefix"
    path: str


class MemoryPage(AnswerPage[Annotated[MemoryObject | PrefixObject, Field(discriminator="type")]]):
    """Memories and directories in byte order of their paths."""


class MemoryDeleted(Answer):
    """Answer to the deletion of a memory."""

    id: str
    type: Literal["memory_deleted"] = "memory_deleted"
