"""Versions of memories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from retentive.history.removal import Removed
from retentive.values.provenance import Contributor, Flags, Provenance
from retentive.values.records import Operation, Version
from retentive.wire.actors import ActorObject
from retentive.wire.base import (
    Answer,
    AnyPath,
    Count,
    Fields,
    ObjectOf,
    Sha256,
    ShownPath,
    UtcTime,
)


class VersionRedaction(Fields):
    """Versions to redact."""

    memory_version_ids: Annotated[list[str], Field(max_length=100)] | None = Field(None, description="The versions")
    path: AnyPath | None = Field(None, description="Instead: all versions at or below a path but the present ones")


class FlagObject(Answer):
    """Flagged line of a text."""

    line: Count
    kind: str

    @classmethod
    def each_of(cls, flags: Flags) -> list[Self]:
        """Return the object of each flagged line."""
        return [cls(line=line, kind=kind) for line, kind in flags]


class ContributorObject(ObjectOf[Contributor]):
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
            flags=FlagObject.each_of(given.flags),
            contributors=list(map(ContributorObject.of, contributors or given.contributors)),
        )

    def text(self) -> str:
        """Return the text that a local store would keep."""
        plain = self.model_dump(exclude={"api_key_id", "flags", "contributors"})
        flags = [[each.line, each.kind] for each in self.flags]
        by = [[each.at, each.actor, each.session, each.source] for each in self.contributors]
        made = {**plain, "key": self.api_key_id, "flags": flags, "by": by}
        return json.dumps({name: value for name, value in made.items() if value}, separators=(",", ":"))


class VersionObject(ObjectOf[Version]):
    """Version of a memory.

    `content` is null if the view is `basic`, and for a deletion. A redacted version has neither path, content, hash
    nor size. Hosted memory stores have neither revisions nor provenance.
    """

    id: str
    type: Literal["memory_version"] = "memory_version"
    memory_id: str
    memory_store_id: str
    operation: Operation
    path: ShownPath | None
    content: str | None
    content_sha256: Sha256 | None
    content_size_bytes: Count | None
    created_at: UtcTime
    created_by: ActorObject
    redacted_at: UtcTime | None
    redacted_by: ActorObject
    revision: Count = 0
    provenance: ProvenanceObject | None = None

    attributes: ClassVar = {"content_sha256": "sha256", "content_size_bytes": "size_bytes", "created_by": "actor"}

    @classmethod
    def of(cls, given: Version, contributors: Sequence[Contributor] | None = None, **more: object) -> Self:
        """Return the object of a version. `more` has the id of its store, and its text.

        `contributors` lists all contributors, if the provenance of the version does not name them.
        """
        if given.redacted_at is not None:
            more |= {"path": None, "content_sha256": None, "content_size_bytes": None}
        recorded = given.provenance_text is not None
        more["provenance"] = ProvenanceObject.of(given.provenance, contributors) if recorded else None
        return super().of(given, **more)

    def value(self, **more: object) -> Version:
        """Return the version, without its text."""
        if self.operation == "deleted":
            more |= {"size_bytes": None, "sha256": None}
        text = None if self.provenance is None else self.provenance.text()
        return super().value(path=self.path or "", provenance_text=text, **more)


class VersionsRedacted(ObjectOf[Removed]):
    """Answer to a redaction of several versions."""

    type: Literal["versions_redacted"] = "versions_redacted"
    versions: Count
    pending: bool
