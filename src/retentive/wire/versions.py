"""Versions of memories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field

from retentive.values.provenance import Contributor, Provenance
from retentive.values.records import Operation, Version
from retentive.wire.actors import ActorObject
from retentive.wire.base import (
    Answer,
    AnyPath,
    Count,
    Fields,
    Sha256,
    UtcTime,
    api_path,
    tool_path,
)


class VersionRedaction(Fields):
    """Versions to redact."""

    memory_version_ids: Annotated[list[str], Field(max_length=100)] | None = Field(None, description="The versions")
    path: AnyPath | None = Field(None, description="Instead: all versions at or below a path but the present ones")


class FlagObject(Answer):
    """Flagged line of a text."""

    line: Count
    kind: str


class ContributorObject(Answer):
    """Contribution to a text."""

    at: str
    actor: str
    session: str
    source: str


class ProvenanceObject(Answer):
    """Origin of a version."""

    integration: str
    tool_use_id: str
    session: str
    source: str
    cause: str
    api_key_id: str = ""
    flags: list[FlagObject]
    contributors: list[ContributorObject]

    @classmethod
    def of(cls, given: Provenance, contributors: Sequence[Contributor] | None) -> Self:
        """Return the object of a provenance. `contributors` replaces its contributors."""
        return cls(
            integration=given.integration,
            tool_use_id=given.tool_use_id,
            session=given.session,
            source=given.source,
            cause=given.cause,
            api_key_id=given.api_key_id,
            flags=[FlagObject(line=line, kind=kind) for line, kind in given.flags],
            contributors=[ContributorObject(**each._asdict()) for each in contributors or given.contributors],
        )

    def text(self) -> str:
        """Return the text that a local store would keep."""
        plain = self.model_dump(exclude={"api_key_id", "flags", "contributors"})
        flags = [[each.line, each.kind] for each in self.flags]
        by = [[each.at, each.actor, each.session, each.source] for each in self.contributors]
        made = {**plain, "key": self.api_key_id, "flags": flags, "by": by}
        return json.dumps({name: value for name, value in made.items() if value}, separators=(",", ":"))


class VersionObject(Answer):
    """Version of a memory.

    `content` is null if the view is `basic`, and for a deletion. A redacted version has neither path, content, hash
    nor size. Hosted memory stores have neither revisions nor provenance.
    """

    id: str
    type: Literal["memory_version"] = "memory_version"
    memory_id: str
    memory_store_id: str
    operation: Operation
    path: str | None
    content: str | None
    content_sha256: Sha256 | None
    content_size_bytes: Count | None
    created_at: UtcTime
    created_by: ActorObject
    redacted_at: UtcTime | None
    redacted_by: ActorObject
    revision: Count = 0
    provenance: ProvenanceObject | None = None

    @classmethod
    def of(
        cls, given: Version, store_id: str, content: str | None, contributors: Sequence[Contributor] | None = None
    ) -> Self:
        """Return the object of a version.

        `contributors` lists all contributors, if the provenance of the version does not name them.
        """
        is_redacted = given.redacted_at is not None
        recorded = given.provenance_text is not None
        return cls(
            id=given.id,
            memory_id=given.memory_id,
            memory_store_id=store_id,
            operation=given.operation,
            path=None if is_redacted else api_path(given.path),
            content=content,
            content_sha256=None if is_redacted else given.sha256,
            content_size_bytes=None if is_redacted else given.size_bytes,
            created_at=given.created_at,
            created_by=given.actor,
            redacted_at=given.redacted_at,
            redacted_by=given.redacted_by,
            revision=given.revision,
            provenance=ProvenanceObject.of(given.provenance, contributors) if recorded else None,
        )

    def version(self) -> Version:
        """Return the version, without its text."""
        is_deletion = self.operation == "deleted"
        return Version(
            self.id,
            self.memory_id,
            self.operation,
            "" if self.path is None else tool_path(self.path),
            None if is_deletion else self.content_size_bytes,
            None if is_deletion else self.content_sha256,
            self.created_by,
            self.created_at,
            self.revision,
            redacted_at=self.redacted_at,
            redacted_by=self.redacted_by,
            provenance_text=None if self.provenance is None else self.provenance.text(),
        )


class VersionsRedacted(Answer):
    """Answer to a redaction of several versions."""

    type: Literal["versions_redacted"] = "versions_redacted"
    versions: Count
    pending: bool
