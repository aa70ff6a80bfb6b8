"""Proposals, promotions, and trust in memories."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import ClassVar, Literal, Self

from pydantic import Field

from retentive.review.promotion import Promoted
from retentive.review.proposals import Decision, DecisionOutcome, Obstacle, Proposal, ProposedChange, ProposedOperation
from retentive.review.trust import DoubtedMemory
from retentive.wire import base
from retentive.wire.history import FlagObject


class Promotion(base.Sourced):
    """Memories to propose to another memory store."""

    path: base.AnyPath = Field(description="Path of a memory or a directory; `/` is the whole store")
    to: str = Field(max_length=300, description="Id of the other memory store")
    new_path: base.AnyPath | None = Field(None, description="Path there; default: the same")


class PromotedObject(base.ObjectOf[Promoted]):
    """Answer to a promotion: the proposal in the other memory store, and how many memories and versions it has."""

    type: Literal["promotion"] = "promotion"
    proposal_id: str
    path: base.ShownPath
    memories: base.Count
    versions: base.Count


class Refusal(base.Fields):
    """Proposals to decide about at once: those with the ids, or all of an actor or of a session."""

    ids: list[str] | None = Field(None, min_length=1, max_length=1_000, description="Ids of the proposals")
    actor: str | None = Field(None, max_length=300, description="Actor who made the proposals")
    session: str | None = Field(None, max_length=300, description="Session in which the proposals were made")


class Acceptance(base.Fields):
    """Options of an acceptance."""

    merge: bool = Field(False, description="Merge with later changes by line")
    force: bool = Field(False, description="Overwrite later changes")


class Acceptances(Refusal, Acceptance):
    """Proposals to accept at once, all or none."""

    partial: bool = Field(False, description="Accept what `merge` can accept, and list the rest")


class ProposedChangeObject(base.ObjectOf[ProposedChange]):
    """Proposed change to a memory. A list of proposals has no texts."""

    operation: ProposedOperation
    memory_id: str
    path: base.ShownPath | None
    path_before: base.ShownPath | None
    content_size_bytes: base.Count | None
    content_sha256: base.Sha256 | None
    before: str | None
    after: str | None
    attributes: ClassVar = {"path_before": "before", "content_size_bytes": "size_bytes", "content_sha256": "sha256"}


class ProposalObject(base.ObjectOf[Proposal]):
    """Pending proposal."""

    id: str
    type: Literal["proposal"] = "proposal"
    proposed_by: base.ActorObject
    session: str = ""
    created_at: base.UtcTime
    changes: list[ProposedChangeObject]

    attributes: ClassVar = {"proposed_by": "actor", "created_at": "at"}

    @classmethod
    def of(
        cls, given: Proposal, texts: Iterable[tuple[ProposedChange, str | None, str | None]] | None = None, **_: object
    ) -> Self:
        """Return the object of a proposal. `texts` has its changes with their texts."""
        shown = ((each, None, None) for each in given.changes) if texts is None else texts
        changes = [ProposedChangeObject.of(each, before=before, after=after) for each, before, after in shown]
        return super().of(given, changes=changes)

    def value(self, **more: object) -> Proposal:
        """Return the proposal, without its texts. `more` has its number."""
        made = {"provenance_text": json.dumps({"session": self.session}), "created_at": self.created_at}
        changes = tuple(each.value(base_sha256=None, **made) for each in self.changes)
        return super().value(changes=changes, **more)


class ObstacleObject(base.ObjectOf[Obstacle]):
    """Reason why a proposal cannot be accepted or refused."""

    path: base.ShownPath | None
    proposal_id: str
    reason: str

    attributes: ClassVar = {"reason": "text"}


class DecisionObject(base.ObjectOf[DecisionOutcome]):
    """Answer to an acceptance or refusal."""

    type: Literal["proposal_decision"] = "proposal_decision"
    done: list[str]
    already: list[str]
    with_them: list[str]
    conflicts: list[ObstacleObject] = Field(default_factory=list)

    attributes: ClassVar = {"conflicts": "obstacles"}


class DecidedObject(base.ObjectOf[Decision]):
    """Earlier decision on a proposal."""

    type: Literal["decision"] = "decision"
    proposal_id: str
    accepted: bool
    proposed_by: base.ActorObject
    decided_by: base.ActorObject
    decided_at: base.UtcTime

    attributes: ClassVar = {"proposed_by": "actor", "decided_by": "by", "decided_at": "at"}


class Confirmation(base.Fields):
    """Memories to trust."""

    path: base.AnyPath = Field(description="Path of a memory or a directory; `/` is the whole store")


class TrustPattern(base.Fields):
    """Contributors to distrust, or to trust again."""

    pattern: str = Field(
        min_length=1, max_length=300, description="Pattern of contributors, such as session:s1 or source:web:*"
    )


class DoubtedObject(base.ObjectOf[DoubtedMemory]):
    """Memory that is not trusted."""

    type: Literal["doubted_memory"] = "doubted_memory"
    memory_id: str
    path: base.ShownPath
    level: Literal["unconfirmed", "quarantined"]
    contributors: list[str]
    flags: list[FlagObject]


class ConfirmationResult(base.Answer):
    """Memories that are trusted now."""

    type: Literal["trust_confirmation"] = "trust_confirmation"
    paths: list[base.ShownPath]


class QuarantineResult(base.Answer):
    """Answer to a quarantine or its end."""

    type: Literal["quarantine_change"] = "quarantine_change"
    pattern: str
    changed: bool
