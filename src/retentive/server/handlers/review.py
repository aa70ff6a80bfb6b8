"""Routes of proposals, and of trust: memories that are not trusted, confirmations and quarantine."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from retentive.engine.visibility import Level
from retentive.history.plan import Mode
from retentive.review.proposals import DecisionOutcome
from retentive.server.calls import RouteCall
from retentive.server.cursors import next_of, start_of
from retentive.server.errors import HttpError, finding
from retentive.server.handlers.memories import NO_MEMORY
from retentive.server.route import ADMIN, REVIEW, STORE, Routes
from retentive.wire.base import AnswerPage, Cursor, Limit, Under
from retentive.wire.errors import ObstacleObject
from retentive.wire.review import (
    Acceptance,
    Confirmation,
    ConfirmationResult,
    DecisionObject,
    DoubtedObject,
    ProposalObject,
    QuarantineResult,
    TrustPattern,
)

NO_PROPOSAL = "proposal"
PROPOSAL = f"{STORE}/proposals/{{proposal_id}}"
Proposer = Annotated[
    str | None, Field(max_length=300, description="List the proposals of this actor, such as session:s1")
]
route = Routes()


@route("GET", f"{STORE}/proposals", REVIEW)
def list_proposals(
    call: RouteCall, *, limit: Limit = 20, page: Cursor = None, actor: Proposer = None
) -> AnswerPage[ProposalObject]:
    """List the pending proposals, oldest first."""
    of = f"{call.path}?{actor}"
    after = int(start_of(page, of) or -1)
    rest = [each for each in call.store.review.pending(actor=actor) if each.number > after]
    shown = rest[:limit]
    following = str(shown[-1].number) if len(rest) > limit else None
    return AnswerPage[ProposalObject](data=list(map(ProposalObject.of, shown)), next_page=next_of(following, of))


@route("GET", PROPOSAL, REVIEW)
def retrieve_proposal(call: RouteCall) -> ProposalObject:
    """Retrieve a pending proposal with its texts."""
    with finding(NO_PROPOSAL):
        return ProposalObject.of(*call.store.review.show(call.ids["proposal_id"]))


@route("POST", f"{PROPOSAL}/accept", REVIEW, conflicts=True)
def accept_proposal(call: RouteCall, body: Acceptance) -> DecisionObject:
    """Apply a proposal.

    The actor of the new versions is the actor who made the proposal.
    """
    ids, actor = [call.ids["proposal_id"]], call.caller.actor
    mode: Mode = "force" if body.force else "merge" if body.merge else "refuse"
    with finding(NO_PROPOSAL):
        return _decided(call.store.review.accept(ids, actor=actor, mode=mode))


@route("POST", f"{PROPOSAL}/refuse", REVIEW, conflicts=True)
def refuse_proposal(call: RouteCall) -> DecisionObject:
    """Remove a proposal.

    Proposals that build on it are removed too.
    """
    with finding(NO_PROPOSAL):
        return _decided(call.store.review.refuse([call.ids["proposal_id"]], actor=call.caller.actor))


def _decided(outcome: DecisionOutcome) -> DecisionObject:
    if outcome.obstacles:
        message = "the proposal cannot be accepted or refused now, so nothing was changed"
        conflicts = list(map(ObstacleObject.of, outcome.obstacles))
        raise HttpError(409, "conflict_error", message, "conflict", fields={"conflicts": conflicts})
    return DecisionObject.of(outcome)


AtLevel = Annotated[Level | None, Field(description="Only memories at this level")]


@route("GET", f"{STORE}/doubted_memories", REVIEW)
def list_doubted_memories(
    call: RouteCall, *, limit: Limit = 20, page: Cursor = None, path_prefix: Under = "/", level: AtLevel = None
) -> AnswerPage[DoubtedObject]:
    """List the memories that are not trusted, hidden ones included, by path."""
    of = f"{call.path} {path_prefix} {level}"
    found = call.store.trust.page(path_prefix, level=level, after=start_of(page, of), limit=limit)
    return AnswerPage[DoubtedObject](data=list(map(DoubtedObject.of, found.items)), next_page=next_of(found.next, of))


@route("POST", f"{STORE}/trust/confirm", REVIEW)
def confirm_memories(call: RouteCall, body: Confirmation) -> ConfirmationResult:
    """Trust the present text of a memory, or of all memories below a directory."""
    with finding(NO_MEMORY):
        return ConfirmationResult(paths=call.store.trust.confirm(body.path))


@route("POST", f"{STORE}/trust/quarantine", ADMIN)
def quarantine_contributors(call: RouteCall, body: TrustPattern) -> QuarantineResult:
    """Hide all memories to which an actor, a session or a source contributed."""
    return QuarantineResult(pattern=body.pattern, changed=call.store.trust.quarantine(body.pattern))


@route("POST", f"{STORE}/trust/release", ADMIN)
def release_contributors(call: RouteCall, body: TrustPattern) -> QuarantineResult:
    """End the quarantine of contributors."""
    return QuarantineResult(pattern=body.pattern, changed=call.store.trust.release(body.pattern))
