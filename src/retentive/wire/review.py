"""Proposals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import Field

from retentive.review.proposals import DecisionOutcome, Proposal, ProposedChange, ProposedOperation
from retentive.wire.actors import ActorObject
from retentive.wire.base import Answer, Count, Fields, Sha256, UtcTime, api_path, tool_path


class Acceptance(Fields):
    """Options of an acceptance."""

    merge: bool = Field(False, description="Merge with later changes by line")
    force: bool = Field(False, description="Overwrite later changes")


class ProposedChangeObject(Answer):
    """Proposed change to a memory. A list of proposals has no texts."""

    operation: ProposedOperation
    memory_id: str
    path: str | None
    path_before: str | None
    content_size_bytes: Count | None
    content_sha256: Sha256 | None
    before: str | None
    after: str | None

    @classmethod
    def of(cls, change: ProposedChange, before: str | None = None, after: str | None = None) -> Self:
        """Return the object of a change, with the text before and the text after it."""
        return cls(
            operation=change.operation,
            memory_id=change.memory_id,
            path=change.path and api_path(change.path),
            path_before=change.before and api_path(change.before),
            content_size_bytes=change.size_bytes,
            content_sha256=change.sha256,
            before=before,
            after=after,
        )


class ProposalObject(Answer):
    """Pending proposal."""

    id: str
    type: Literal["proposal"] = "proposal"
    proposed_by: ActorObject
    created_at: UtcTime
    changes: list[ProposedChangeObject]

    @classmethod
    def of(
        cls, proposal: Proposal, texts: Iterable[tuple[ProposedChange, str | None, str | None]] | None = None
    ) -> Self:
        """Return the object of a proposal. `texts` has its changes with their texts."""
        listed = ((each, None, None) for each in proposal.changes) if texts is None else texts
        changes = [ProposedChangeObject.of(*each) for each in listed]
        return cls(id=proposal.id, proposed_by=proposal.actor, created_at=proposal.at, changes=changes)

    def proposal(self, number: int) -> Proposal:
        """Return the proposal, without its texts."""
        changes = (
            ProposedChange(
                each.operation,
                each.memory_id,
                each.path_before and tool_path(each.path_before),
                each.path and tool_path(each.path),
                each.content_size_bytes,
                each.content_sha256,
                None,
                self.created_at,
            )
            for each in self.changes
        )
        return Proposal(self.id, self.proposed_by, self.created_at, tuple(changes), number)


class DecisionObject(Answer):
    """Answer to an acceptance or refusal."""

    type: Literal["proposal_decision"] = "proposal_decision"
    done: list[str]
    already: list[str]
    with_them: list[str]

    @classmethod
    def of(cls, outcome: DecisionOutcome) -> Self:
        """Return the object of an outcome without obstacles."""
        return cls(done=list(outcome.done), already=list(outcome.already), with_them=list(outcome.with_them))

    def outcome(self) -> DecisionOutcome:
        """Return the outcome."""
        return DecisionOutcome(tuple(self.done), tuple(self.already), tuple(self.with_them))
