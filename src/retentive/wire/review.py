"""Proposals, and trust in memories."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, Self

from pydantic import Field

from retentive.review.proposals import DecisionOutcome, Proposal, ProposedChange, ProposedOperation
from retentive.review.trust import DoubtedMemory
from retentive.wire.actors import ActorObject
from retentive.wire.base import Answer, AnyPath, Count, Fields, ObjectOf, Sha256, ShownPath, UtcTime
from retentive.wire.versions import FlagObject


class Acceptance(Fields):
    """Options of an acceptance."""

    merge: bool = Field(False, description="Merge with later changes by line")
    force: bool = Field(False, description="Overwrite later changes")


class ProposedChangeObject(ObjectOf[ProposedChange]):
    """Proposed change to a memory. A list of proposals has no texts."""

    operation: ProposedOperation
    memory_id: str
    path: ShownPath | None
    path_before: ShownPath | None
    content_size_bytes: Count | None
    content_sha256: Sha256 | None
    before: str | None
    after: str | None
    attributes: ClassVar = {"path_before": "before", "content_size_bytes": "size_bytes", "content_sha256": "sha256"}


class ProposalObject(ObjectOf[Proposal]):
    """Pending proposal."""

    id: str
    type: Literal["proposal"] = "proposal"
    proposed_by: ActorObject
    created_at: UtcTime
    changes: list[ProposedChangeObject]

    attributes: ClassVar = {"proposed_by": "actor", "created_at": "at"}

    @classmethod
    def of(
        cls, given: Proposal, texts: Iterable[tuple[ProposedChange, str | None, str | None]] | None = None, **_: object
    ) -> Self:
        """Return the object of a proposal. `texts` has its changes with their texts."""
        listed = ((each, None, None) for each in given.changes) if texts is None else texts
        changes = [ProposedChangeObject.of(each, before=before, after=after) for each, before, after in listed]
        return super().of(given, changes=changes)

    def value(self, **more: object) -> Proposal:
        """Return the proposal, without its texts. `more` has its number."""
        changes = tuple(each.value(base_sha256=None, created_at=self.created_at) for each in self.changes)
        return super().value(changes=changes, **more)


class DecisionObject(ObjectOf[DecisionOutcome]):
    """Answer to an acceptance or refusal."""

    type: Literal["proposal_decision"] = "proposal_decision"
    done: list[str]
    already: list[str]
    with_them: list[str]


DoubtedLevel = Literal["unconfirmed", "quarantined"]


class Confirmation(Fields):
    """Memories to trust."""

    path: AnyPath = Field(description="Path of a memory or a directory; `/` is the whole store")


class TrustPattern(Fields):
    """Contributors to distrust, or to trust again."""

    pattern: str = Field(
        min_length=1, max_length=300, description="Pattern of contributors, such as session:s1 or source:web:*"
    )


class DoubtedObject(ObjectOf[DoubtedMemory]):
    """Memory that is not trusted."""

    type: Literal["doubted_memory"] = "doubted_memory"
    memory_id: str
    path: ShownPath
    level: DoubtedLevel
    contributors: list[str]
    flags: list[FlagObject]

    @classmethod
    def of(cls, given: DoubtedMemory, **_: object) -> Self:
        """Return the object of a memory."""
        return super().of(given, flags=FlagObject.each_of(given.flags))

    def value(self, **_: object) -> DoubtedMemory:
        """Return the memory."""
        return super().value(flags=tuple((each.line, each.kind) for each in self.flags))


class ConfirmationResult(Answer):
    """Memories that are trusted now."""

    type: Literal["trust_confirmation"] = "trust_confirmation"
    paths: list[ShownPath]


class QuarantineResult(Answer):
    """Answer to a quarantine or its end."""

    type: Literal["quarantine_change"] = "quarantine_change"
    pattern: str
    changed: bool
