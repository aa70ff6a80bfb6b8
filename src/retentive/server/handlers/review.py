"""Handlers of the routes for proposals."""

from __future__ import annotations

from collections.abc import Callable

from retentive.errors import NotFound
from retentive.history.plan import Mode
from retentive.review.proposals import DecisionOutcome, Proposal, ProposedChange
from retentive.review.session import Review
from retentive.server import objects
from retentive.server.calls import Json, RouteCall
from retentive.server.cursors import page_of
from retentive.server.errors import HttpError, missing
from retentive.server.objects import api_path

NO_PROPOSAL = "proposal"


def list_proposals(call: RouteCall, *, actor: str | None, limit: int, page: str | None) -> Json:
    """List pending proposals, oldest first."""
    found = call.store.review.pending(actor=actor)
    return page_of(
        found, lambda each: f"{each.number:020d}", _proposal, limit=limit, page=page, of=f"{call.path}?{actor}"
    )


def retrieve_proposal(call: RouteCall) -> Json:
    """Return a pending proposal. Each of its changes has the text before and the text after the change."""
    try:
        proposal, texts = call.store.review.show(call.ids["proposal_id"])
    except NotFound:
        raise missing(NO_PROPOSAL) from None
    changes = [{**_change(each), "before": before, "after": after} for each, before, after in texts]
    return {**_proposal(proposal), "changes": changes}


def accept_proposal(call: RouteCall, *, merge: bool, force: bool) -> Json:
    """Apply a proposal. The actor of the new versions is the actor who made the proposal."""

    def decide(review: Review, proposal_id: str) -> DecisionOutcome:
        mode: Mode = "force" if force else "merge" if merge else "refuse"
        return review.accept([proposal_id], actor=call.caller.actor, mode=mode)

    return _decided(call, decide)


def refuse_proposal(call: RouteCall) -> Json:
    """Refuse a proposal and all proposals that build on it. They are removed."""
    return _decided(call, lambda review, proposal_id: review.refuse([proposal_id], actor=call.caller.actor))


def _decided(call: RouteCall, decide: Callable[[Review, str], DecisionOutcome]) -> Json:
    try:
        outcome = decide(call.store.review, call.ids["proposal_id"])
    except NotFound:
        raise missing(NO_PROPOSAL) from None
    if outcome.obstacles:
        conflicts = [
            {"proposal_id": each.proposal_id, "path": each.path and api_path(each.path), "reason": each.text}
            for each in outcome.obstacles
        ]
        message = "the proposal cannot be accepted or refused now, so nothing was changed"
        raise HttpError(409, "conflict_error", message, "conflict", fields={"conflicts": conflicts})
    return {
        "type": "proposal_decision",
        "done": list(outcome.done),
        "already": list(outcome.already),
        "with_them": list(outcome.with_them),
    }


def _proposal(given: Proposal) -> Json:
    return {
        "id": given.id,
        "type": "proposal",
        "proposed_by": objects.actor(given.actor),
        "created_at": objects.time(given.at),
        "changes": [{**_change(each), "before": None, "after": None} for each in given.changes],
    }


def _change(given: ProposedChange) -> Json:
    return {
        "operation": given.operation,
        "memory_id": given.memory_id,
        "path": given.path and api_path(given.path),
        "path_before": given.before and api_path(given.before),
        "content_size_bytes": given.size_bytes,
        "content_sha256": given.sha256,
    }
