"""Proposals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, Self

from pydantic import Field

from retentive.review.proposals import DecisionOutcome, Proposal, ProposedChange, ProposedOperation
from retentive.wire.actors import ActorObject
from retentive.wire.base import Count, Fields, ObjectOf, Sha256, ShownPath, UtcTime


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
