"""Review API: list and show the proposals of actors under review, and decide on them.

Accepting applies the changes of proposals through the guard; refusing removes the proposals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard
from retentive.engine.lists import EventType
from retentive.engine.operation import Outcome, Plan, Read, WriteOperation
from retentive.engine.pending import Pending
from retentive.errors import NotFound, PermissionDenied, Refused
from retentive.history.plan import Clash, Conflict, Mode, State, applied, check_mode, combined, planned
from retentive.review.proposals import (
    AFTER,
    BEFORE,
    Decision,
    DecisionOutcome,
    Obstacle,
    Proposal,
    ProposedChange,
    decision_on,
    decision_records,
    decisions,
    foundations,
    pending,
    text_key,
    text_of,
    without_proposal,
)
from retentive.storage.contract import Actor, Change, Recorded, Snapshot, as_actor, now_us, to_datetime
from retentive.values.paths import MemoryPath
from retentive.values.provenance import parse_provenance
from retentive.values.replies import REPLIES
from retentive.values.text import decoded

__all__ = ["Decision", "DecisionOutcome", "Obstacle", "Proposal", "ProposedChange", "Review"]

Texts: TypeAlias = list[tuple[ProposedChange, str | None, str | None]]
"""List of changes, each with the text before and the text after the change. A text that does not exist is None."""


class Review:
    """Review of the proposals in one memory store. Threads may share the object. Methods raise `RetentiveError`."""

    def __init__(self, context: StoreCore) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"<Review of {self._context.id}>"

    def pending(self, *, actor: Actor | str | None = None) -> list[Proposal]:
        """Return the pending proposals, oldest first. With `actor`, return only the proposals of this actor."""
        who = as_actor(actor)
        found = self._context.result_of(Read("review.list", pending))
        return [proposal for proposal in found if actor is None or proposal.actor == who]

    def show(self, proposal_id: str) -> tuple[Proposal, Texts]:
        """Return a pending proposal, and each of its changes with the text before and after the change.

        For a deletion or a rename, the text before the change is the current text of the memory. Raises `NotFound` if
        the proposal is unknown or already decided.
        """

        def work(snapshot: Snapshot) -> tuple[Proposal, Texts]:
            found = next((proposal for proposal in pending(snapshot) if proposal.id == proposal_id), None)
            if found is None:
                raise NotFound(f"there is no proposal {proposal_id} that awaits review")
            texts: Texts = []
            for number, change in enumerate(found.changes):
                key, before = text_key(proposal_id, number), None
                if change.operation == "modified":
                    before = text_of(snapshot, BEFORE, key, change.base_sha256)
                if change.has_text:
                    texts.append((change, before, text_of(snapshot, AFTER, key, change.sha256)))
                    continue
                memory = snapshot.find(change.memory_id)
                data = None if memory is None else snapshot.get(memory.path).data
                text = None if data is None else decoded(data)
                texts.append((change, text, None if change.operation == "deleted" else text))
            return found, texts

        return self._context.result_of(Read("review.show", work, facts_of=lambda _: {"proposals": [proposal_id]}))

    def accept(
        self,
        ids: Iterable[str] | None,
        *,
        actor: Actor | str | None,
        proposed_by: Actor | str | None = None,
        mode: Mode = "refuse",
    ) -> DecisionOutcome:
        """Apply proposals, all or none. The new versions are recorded with the actor who proposed them.

        If `ids` is None, all pending proposals are selected. With `proposed_by`, only the proposals of this actor are
        selected. The guards check the changes again. If a later change by somebody else is in the way, the result has
        an obstacle and nothing changes.

        `mode` is the same as for `History.undo`. With `merge`, the proposed text and the current text are merged line
        by line. With `force`, the proposal wins, and memories at its paths are deleted. With `partial`, the proposals
        that `merge` can apply are applied, and the result has the obstacles of the others.

        Accepting a proposal again has no effect. Raises `NotFound` for an unknown id, and `PermissionDenied` for an
        actor under review.
        """
        return self._decide(ids, actor, proposed_by, is_accepted=True, mode=mode)

    def refuse(
        self, ids: Iterable[str] | None, *, actor: Actor | str | None, proposed_by: Actor | str | None = None
    ) -> DecisionOutcome:
        """Remove proposals, and all proposals that build on them. The arguments and errors are those of `accept`.

        After `capabilities.purge` has returned True, the storage contains no bytes of the proposed texts.
        """
        return self._decide(ids, actor, proposed_by, is_accepted=False)

    def decisions(self) -> list[Decision]:
        """Return the newest 1,000 decisions on proposals, newest first."""
        return self._context.result_of(Read("review.decisions", decisions))

    def _decide(
        self,
        ids: Iterable[str] | None,
        actor: Actor | str | None,
        proposed_by: Actor | str | None,
        *,
        is_accepted: bool,
        mode: Mode = "refuse",
    ) -> DecisionOutcome:
        context = self._context
        wanted = (ids,) if isinstance(ids, str) else None if ids is None else tuple(dict.fromkeys(ids))
        proposer = as_actor(proposed_by)
        check_mode(mode)
        at = to_datetime(now_us(context.clock))
        return context.result_of(Decide(wanted, is_accepted, at, mode, proposer), actor)


@dataclass(frozen=True, slots=True)
class Decide(WriteOperation[DecisionOutcome]):
    """Accept or refuse proposals, all or none, or with the mode `partial` all that have no obstacle.

    `wanted` lists the ids of the proposals. If it is None, all pending proposals of the actor `proposed_by` are
    selected. If both are None, the pending proposals of all actors are selected. If a selected proposal was already
    decided differently (refused instead of accepted, or accepted instead of refused), this is an obstacle.
    """

    under_review = "refuse"
    allowed_when_archived = True
    needs_external_edits = True
    wanted: tuple[str, ...] | None
    is_accepted: bool
    at: datetime
    mode: Mode = "refuse"
    proposed_by: Actor | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        return "review.accept" if self.is_accepted else "review.refuse"

    def facts(self, result: Any) -> Mapping[str, object]:
        return {"proposals": [*result.done, *result.already, *result.with_them]}

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object] | None:
        result = outcome.value()
        if result.obstacles:
            return None
        return {"done": result.done, "already": result.already, "with_them": result.with_them}

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> DecisionOutcome:
        return DecisionOutcome(tuple(facts["done"]), tuple(facts["already"]), tuple(facts["with_them"]))

    def decide(self, view: Snapshot, guard: Guard) -> Plan[DecisionOutcome]:
        if guard.settings.read_only:
            raise PermissionDenied("the memory store is read-only, so proposals cannot be accepted or refused")
        waiting, is_partial = pending(view), self.mode == "partial"
        below = foundations(waiting)
        wanted = self.wanted
        if wanted is None:
            wanted = tuple(each.id for each in waiting if self.proposed_by is None or each.actor == self.proposed_by)
        chosen = {proposal.id: proposal for proposal in waiting if proposal.id in wanted}
        before = {each: self._decided_before(view, each) for each in wanted if each not in chosen}
        already = tuple(each for each, obstacle in before.items() if obstacle is None)
        obstacles = [obstacle for obstacle in before.values() if obstacle is not None]
        after, authors, done = Pending(view), list[Actor | None](), set[str]()
        for proposal in chosen.values() if self.is_accepted else ():
            if missing := [each for each in below if each in below[proposal.id] - done]:
                text = f"the proposal builds on {', '.join(missing)}, which must be accepted first or in the same call"
                if is_partial or not chosen.keys() >= set(missing):  # otherwise the others have the obstacles
                    obstacles.append(Obstacle(proposal.id, None, text))
                continue
            changes, found = self._apply(after, guard, proposal)
            if found:
                obstacles += found
                continue
            after.add(changes)
            authors += [proposal.actor] * len(changes)
            done.add(proposal.id)
        closed = [each for each in waiting if each.id in done]
        if not self.is_accepted:
            closed = [each for each in waiting if each.id in chosen or below[each.id] & chosen.keys()]
        if obstacles and not (is_partial and (closed or already)):
            return Plan(DecisionOutcome(obstacles=tuple(obstacles)))
        result = DecisionOutcome(
            done=tuple(each.id for each in closed if each.id in chosen),
            already=already,
            with_them=tuple(each.id for each in closed if each.id not in chosen),
            obstacles=tuple(obstacles),
            summaries={proposal.id: proposal.summary for proposal in closed},
        )

        def afterwards(recorded: Snapshot, _: Sequence[Recorded]) -> Plan[DecisionOutcome]:
            decided = [Decision(each.id, self.is_accepted, each.actor, guard.actor, self.at) for each in closed]
            records = [record for proposal in closed for record in without_proposal(proposal)]
            what: EventType = "accepted" if self.is_accepted else "refused"
            event = (what, [each.id for each in closed]) if closed else None
            return Plan(result, records=[*records, *decision_records(recorded, decided)], event=event)

        return Plan(result, after.changes, authors=authors, afterwards=afterwards)

    def _decided_before(self, view: Snapshot, proposal_id: str) -> Obstacle | None:
        """Return an obstacle if an earlier decision on the proposal contradicts this one, otherwise None.

        Raises `NotFound` if no decision on the proposal is stored.
        """
        decision = decision_on(view, proposal_id)
        if decision is None:
            raise NotFound(f"there is no proposal {proposal_id} that awaits review")
        if decision.accepted == self.is_accepted:
            return None
        what = "accepted" if decision.accepted else "refused"
        return Obstacle(proposal_id, None, f"the proposal was already {what} by {decision.by or 'somebody'}")

    def _apply(
        self, present: Snapshot, guard: Guard, proposal: Proposal
    ) -> tuple[Sequence[Change], Sequence[Obstacle]]:
        """Return the changes that bring about a proposal in the present state, or the obstacles."""
        mode: Mode = "merge" if self.mode == "partial" else self.mode
        made = parse_provenance(proposal.changes[0].provenance_text)
        author = guard.acting_for(proposal.actor, source=made.source, session=made.session, cause=made.cause)

        def text(state: State) -> str:
            return decoded(present.get(state.path).data) if state.text is None else state.text

        wanted, conflicts = dict[str, State | None](), list[Conflict]()
        for memory_id, (before, goal) in _proposed_states(present, proposal).items():
            memory = present.find(memory_id)
            now = None if memory is None else State.of(memory)
            base = now if before is None and mode == "force" else before
            if now is None and goal is not None and goal.text is None and mode == "force":
                continue  # the renamed memory no longer exists
            try:
                wanted[memory_id] = combined(base, now, goal, mode, text)
            except Clash as clash:
                path = next(state.path for state in (goal, before) if state is not None)
                conflicts.append(Conflict(path, memory_id, str(clash)))
        path = str(proposal.changes[0].path or proposal.changes[0].before)
        try:
            outcome = planned(present, wanted, conflicts, mode)
            if outcome.conflicts:
                found = ((each.path, f"{each.path}: {each.reason}") for each in outcome.conflicts)
                return (), [Obstacle(proposal.id, *each) for each in found]
            for step in outcome.steps:
                path = step.path
                if step.what in {"made", "moved"}:
                    author.check_name(MemoryPath.known(path))
            return applied(present, author, outcome.steps)[0], ()
        except Refused as refusal:
            values = {"path": path} | refusal.values
            return (), [Obstacle(proposal.id, str(values["path"]), REPLIES.error(refusal.key, values).text)]


def _proposed_states(view: Snapshot, proposal: Proposal) -> dict[str, tuple[State | None, State | None]]:
    """Return the state of each memory before and after a proposal. A renamed memory has no text."""
    states: dict[str, tuple[State | None, State | None]] = {}
    for number, change in enumerate(proposal.changes):
        key, text, before, after = text_key(proposal.id, number), None, None, None
        if change.operation == "modified":
            text = text_of(view, BEFORE, key, change.base_sha256)
        if change.before is not None and change.operation != "created":
            before = State(change.before, "", change.base_sha256 or "", 0, None, text)
        base, last = states.get(change.memory_id, (before, before))
        if change.has_text:
            text = text_of(view, AFTER, key, change.sha256)
            own = change.sha256 or "", change.size_bytes or 0, change.provenance_text
            after = State(change.path or "", "", *own, text)
        elif change.operation == "renamed" and last is not None:
            after = replace(last, path=change.path or "")
        states[change.memory_id] = base, after
    return states
