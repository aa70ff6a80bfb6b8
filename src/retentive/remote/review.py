"""Proposals in a memory store on a server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from retentive.errors import NotFound
from retentive.history.plan import Mode
from retentive.remote.methods import RemotePart, exchange, get, no_route, pages, post, unsupported
from retentive.remote.requests import HttpExchange, segment
from retentive.review.proposals import DecisionOutcome, Proposal, ProposedChange
from retentive.review.session import Review
from retentive.values.records import Actor, as_actor
from retentive.wire.base import AnswerPage
from retentive.wire.errors import ErrorAnswer
from retentive.wire.review import DecisionObject, ProposalObject

if TYPE_CHECKING:
    pass


class RemoteReview(RemotePart, Review):
    """Review over HTTP. One call can accept or refuse only one proposal."""

    @exchange
    def pending(self, *, actor: Actor | str | None = None) -> HttpExchange[list[Proposal]]:
        """Return the pending proposals, oldest first. With `actor`, return only the proposals of that actor."""
        who = as_actor(actor)
        found = yield from pages(
            self._store, "/proposals", AnswerPage[ProposalObject], actor=None if who is None else str(who)
        )
        return [each.proposal(number) for number, each in enumerate(found)]

    @exchange
    def show(
        self, proposal_id: str
    ) -> HttpExchange[tuple[Proposal, list[tuple[ProposedChange, str | None, str | None]]]]:
        """Return a pending proposal.

        For each of its changes, also return the text before and the text after the change.
        """
        try:
            found = yield from get(self._store, ProposalObject, f"/proposals/{segment(proposal_id)}")
        except NotFound:
            raise NotFound(f"there is no proposal {proposal_id} that awaits review") from None
        proposal = found.proposal(0)
        texts = ((each.before, each.after) for each in found.changes)
        return proposal, [(change, *both) for change, both in zip(proposal.changes, texts, strict=True)]

    @exchange
    def accept(
        self,
        ids: Iterable[str] | None,
        *,
        actor: Actor | str | None,
        proposed_by: Actor | str | None = None,
        mode: Mode = "refuse",
    ) -> HttpExchange[DecisionOutcome]:
        """Apply a proposal. `ids` must contain exactly one id, and `proposed_by` must be None.

        So `partial` is the same as `merge`.
        """
        body = {"merge": mode in {"merge", "partial"}, "force": mode == "force"}
        return (yield from self._decided("accept", ids, actor, proposed_by, body))

    @exchange
    def refuse(
        self, ids: Iterable[str] | None, *, actor: Actor | str | None, proposed_by: Actor | str | None = None
    ) -> HttpExchange[DecisionOutcome]:
        """Remove a proposal and all proposals that build on it. `ids` must contain exactly one id."""
        return (yield from self._decided("refuse", ids, actor, proposed_by, None))

    def _decided(
        self,
        verb: str,
        ids: Iterable[str] | None,
        actor: Actor | str | None,
        proposed_by: Actor | str | None,
        body: dict[str, bool] | None,
    ) -> HttpExchange[DecisionOutcome]:
        chosen = [ids] if isinstance(ids, str) else [] if ids is None else list(dict.fromkeys(ids))
        if len(chosen) != 1 or proposed_by is not None:
            raise no_route(f"a call to {verb} several proposals")
        path = f"/proposals/{segment(chosen[0])}/{verb}"
        found: DecisionObject | ErrorAnswer = yield from post(
            self._store, DecisionObject, path, body, actor, returns_conflicts=True
        )
        return found.decision() if isinstance(found, ErrorAnswer) else found.outcome()

    decisions = unsupported("review.decisions")
