"""Exports and imports."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from retentive.wire.base import Answer, Below, Count, Fields, Name, QueryFlag, Sourced
from retentive.wire.stores import StoreObject


class ExportQuery(Fields):
    """Query of an export."""

    format: Literal["tar", "tar.gz", "files"] = Field(
        "tar",
        description="Format of the archive; `files` has the memories as plain files in its directory `memories`",
    )


class ImportQuery(Below, Sourced):
    """Query of an import of memories."""

    overwrite: QueryFlag = Field(False, description="Replace existing memories, which are kept otherwise")
    dry_run: QueryFlag = Field(False, description="Report the steps, and change nothing")


class StoreImportQuery(Fields):
    """Query of an import of a memory store."""

    key: Name | None = Field(None, description="Key of the memory store; default: the one in the export")


class ImportedFile(Answer):
    """What an import did with a file."""

    name: str
    path: str | None
    outcome: Literal["created", "replaced", "same", "exists", "left", "refused"]
    reason: str | None


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
