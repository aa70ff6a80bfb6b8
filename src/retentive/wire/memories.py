"""Memories."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from retentive.values.records import Memory
from retentive.wire.base import (
    Answer,
    AnswerPage,
    Count,
    Fields,
    FilePath,
    ObjectOf,
    Sha256,
    ShownPath,
    Sourced,
    UtcTime,
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


class MemoryObject(ObjectOf[Memory]):
    """Memory. `content` is null if the view is `basic`. `note` is there only if its path looks like a mistake."""

    id: str
    type: Literal["memory"] = "memory"
    memory_store_id: str
    memory_version_id: str
    path: ShownPath
    content: str | None
    content_sha256: Sha256
    content_size_bytes: Count
    created_at: UtcTime
    updated_at: UtcTime
    note: str | None = Field(None, exclude_if=lambda value: value is None)
    attributes: ClassVar = {
        "memory_version_id": "version_id",
        "content_sha256": "sha256",
        "content_size_bytes": "size_bytes",
    }


class PrefixObject(Answer):
    """Directory in a list of memories. Its path ends with `/`."""

    type: Literal["memory_prefix"] = "memory_prefix"
    path: ShownPath


class MemoryPage(AnswerPage[Annotated[MemoryObject | PrefixObject, Field(discriminator="type")]]):
    """Memories and directories in byte order of their paths."""


class MemoryDeleted(Answer):
    """Answer to the deletion of a memory."""

    id: str
    type: Literal["memory_deleted"] = "memory_deleted"
