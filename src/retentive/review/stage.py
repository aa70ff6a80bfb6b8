"""The pipeline stage `under_review`, which turns changes by actors under review into proposals."""

from __future__ import annotations

from typing import Any

from retentive.engine.attempt import Attempt, Proceed
from retentive.engine.events import record_event
from retentive.engine.operation import Outcome
from retentive.engine.proposing import is_under_review, with_own_proposals
from retentive.errors import PermissionDenied
from retentive.storage.contract import Actor, Snapshot, now_us, sortable_id, to_datetime
from retentive.values.settings import Settings

PREFIX = "prop_"


def under_review(proceed: Proceed, attempt: Attempt[Any]) -> Outcome[Any]:
    """Run an operation. If the actor is under review, the changes are recorded as a proposal, not as versions.

    Raises `PermissionDenied` for an operation that cannot be proposed.
    """
    if not is_under_review(attempt.settings, attempt.actor):
        return proceed(attempt)
    if attempt.operation.under_review == "refuse":
        raise PermissionDenied(
            f"changes by {attempt.actor or 'an actor without a name'} need review, "
            f"but {attempt.operation.name} cannot be submitted for review"
        )
    return _propose(proceed, attempt)


def _propose(proceed: Proceed, attempt: Attempt[Any]) -> Outcome[Any]:
    from retentive.review.overlay import ProposedTransaction  # noqa: PLC0415 - rarely needed
    from retentive.review.proposals import PROPOSAL, REVIEWED  # noqa: PLC0415 - rarely needed

    tx = attempt.tx
    if attempt.proposal is None:
        at = now_us(attempt.context.clock)
        attempt.proposal = sortable_id(PREFIX, at), at
    proposal_id, at = attempt.proposal
    if attempt.outcome is not None and (tx.get_record(PROPOSAL, proposal_id) or tx.get_record(REVIEWED, proposal_id)):
        return attempt.outcome  # an earlier run was committed, and only the reply to its commit was lost
    own = ProposedTransaction(
        tx,
        attempt.actor,
        proposal_id=proposal_id,
        at=to_datetime(at),
        limits=(attempt.settings.max_proposals, attempt.settings.max_proposals_each),
    )
    attempt.tx = own
    outcome = proceed(attempt)
    outcome.proposed = own.recorded
    if own.recorded:
        record_event(tx, "proposed", attempt.actor, [proposal_id])
    attempt.outcome = outcome
    return outcome


def seen_by(actor: Actor | None, snapshot: Snapshot, settings: Settings) -> Snapshot:
    """Old name of `with_own_proposals`."""
    return with_own_proposals(snapshot, settings, actor)
