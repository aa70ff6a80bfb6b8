"""Review API: list and show the proposals of actors under review, and decide on them.

Accepting applies the changes of proposals through the guard; refusing removes the proposals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias, TypedDict, Unpack

from retentive.engine.core import StorePart
from retentive.engine.guard import Guard
from retentive.engine.lists import EventType
from retentive.engine.operation import Outcome, Plan, Read, Write
from retentive.engine.pending import Pending, is_under_review
from retentive.errors import InvalidInput, NotFound, PermissionDenied, Refused
from retentive.history.plan import Clash, Conflict, Mode, State, applied, check_mode, combined, planned
from retentive.review.promotion import with_past
from retentive.review.proposals import (
    AFTER,
    BEFORE,
    Decision,
    DecisionOutcome,
    Obstacle,
    Proposal,
    ProposedChange,
    closing,
    decision_on,
    decisions,
    foundations,
    pending,
    text_key,
    text_of,
)
from retentive.storage.contract import Actor, Change, Recorded, Snapshot, as_actor, now_us, to_datetime
from retentive.values.paths import MemoryPath
from retentive.values.provenance import parse_provenance
from retentive.values.replies import REPLIES
from retentive.values.text import decoded, plain_name

__all__ = ["Decision", "DecisionOutcome", "Obstacle", "Proposal", "ProposedChange", "Review"]

Texts: TypeAlias = list[tuple[ProposedChange, str | None, str | None]]
"""List of changes, each with the text before and the text after the change. A text that does not exist is None."""


class Chosen(TypedDict, total=False):
    """Who decides, and whose proposals are selected. See `Review.accept`."""

    actor: Actor | str | None
    proposed_by: Actor | str | None
    session: str | None


class Review(StorePart):
    """Review of the proposals in one memory store. Threads may share the object. Methods raise `RetentiveError`."""

    def pending(self, *, actor: Actor | str | None = None, session: str | None = None) -> list[Proposal]:
        """Return the pending proposals, oldest first; with `actor` or `session`, only those made by it."""
        who, session = as_actor(actor), None if session is None else plain_name("a session", session)
        return [each for each in self._context.result_of(Read("review.list", pending)) if each.is_by(who, session)]

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

        return self._context.result_of(Read("review.show", work, facts=lambda _: {"proposals": [proposal_id]}))

    def accept(
        self, ids: Iterable[str] | None = None, *, mode: Mode = "refuse", **chosen: Unpack[Chosen]
    ) -> DecisionOutcome:
        """Apply proposals, all or none. The new versions are recorded with the actor who proposed them.

        If `ids` is None, all pending proposals are selected. With `proposed_by` or `session`, only the proposals of
        this actor or session are selected. The guards check the changes again. If a later change by somebody else is
        in the way, the result has an obstacle and nothing changes.

        `mode` is the same as for `History.undo`. With `merge`, the proposed text and the current text are merged line
        by line. With `force`, the proposal wins, and memories at its paths are deleted. With `partial`, the proposals
        that `merge` can apply are applied, and the result has the obstacles of the others.

        Accepting a proposal again has no effect. Raises `NotFound` for an unknown id, and `PermissionDenied` for an
        actor under review and for the author: the same actor, session, API key, or person whose key it is. With
        `partial`, proposals of the caller are obstacles.
        """
        return self._decide(ids, mode, is_accepted=True, **chosen)

    def refuse(self, ids: Iterable[str] | None = None, **chosen: Unpack[Chosen]) -> DecisionOutcome:
        """Remove proposals, and all proposals that build on them. The arguments and errors are those of `accept`.

        An actor can refuse its own proposals, also while it is under review. After `Backend.purge` has returned
        True, the storage contains no bytes of the proposed texts.
        """
        return self._decide(ids, is_accepted=False, **chosen)

    def decisions(self) -> list[Decision]:
        """Return the newest 1,000 decisions on proposals, newest first."""
        return self._context.result_of(Read("review.decisions", decisions))

    def _decide(
        self,
        ids: Iterable[str] | None,
        mode: Mode = "refuse",
        *,
        is_accepted: bool,
        actor: Actor | str | None = None,
        proposed_by: Actor | str | None = None,
        session: str | None = None,
    ) -> DecisionOutcome:
        context = self._context
        wanted = (ids,) if isinstance(ids, str) else None if ids is None else tuple(dict.fromkeys(ids))
        proposer, session = as_actor(proposed_by), None if session is None else plain_name("a session", session)
        if wanted is not None and (proposer or session):
            raise InvalidInput("specify the ids of proposals, or else an actor or a session")
        check_mode(mode)
        at = to_datetime(now_us(context.clock))
        decision = decide(wanted, at, mode, is_accepted=is_accepted, proposed_by=proposer, session=session)
        return context.result_of(decision, actor)


def decide(
    wanted: Sequence[str] | None,
    at: datetime,
    mode: Mode = "refuse",
    *,
    is_accepted: bool,
    proposed_by: Actor | None = None,
    session: str | None = None,
) -> Write[DecisionOutcome]:
    """Accept or refuse proposals, all or none, or with the mode `partial` all that have no obstacle.

    `wanted` lists the ids of the proposals. If it is None, all pending proposals of the actor `proposed_by` and of the
    `session` are selected, or those of all if these are None. If a selected proposal was already
    decided differently (refused instead of accepted, or accepted instead of refused), this is an obstacle.
    """

    def work(view: Snapshot, guard: Guard) -> Plan[DecisionOutcome]:
        if guard.settings.read_only:
            raise PermissionDenied("the memory store is read-only, so proposals cannot be accepted or refused")
        waiting, is_partial = pending(view), mode == "partial"
        below = foundations(waiting)
        ids = [each.id for each in waiting if each.is_by(proposed_by, session)] if wanted is None else wanted
        chosen = {proposal.id: proposal for proposal in waiting if proposal.id in ids}
        before = {each: _decided_before(view, each, is_accepted=is_accepted) for each in ids if each not in chosen}
        already = tuple(each for each, obstacle in before.items() if obstacle is None)
        obstacles = [obstacle for obstacle in before.values() if obstacle is not None]
        obstacles += _of_author(guard, chosen, is_accepted=is_accepted, is_partial=is_partial)
        recorded, authors, done = list[Change](), list[Actor | None](), set[str]()
        if is_accepted:
            recorded, authors, done, found = _accepted(view, guard, chosen, below, mode)
            obstacles += found
        closed = [each for each in waiting if each.id in done]
        if not is_accepted:
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

        def afterwards(view: Snapshot, _: Sequence[Recorded]) -> Plan[DecisionOutcome]:
            records = closing(view, closed, is_accepted=is_accepted, by=guard.actor, at=at)
            what: EventType = "accepted" if is_accepted else "refused"
            event = (what, [each.id for each in closed]) if closed else None
            return Plan(result, records=records, event=event)

        return Plan(result, recorded, authors=authors, afterwards=afterwards)

    def facts_kept(outcome: Outcome[DecisionOutcome], _: Snapshot) -> Mapping[str, object] | None:
        made = outcome.value()
        kept = {"done": made.done, "already": made.already, "with_them": made.with_them}
        return None if made.obstacles else kept

    return Write(
        "review.accept" if is_accepted else "review.refuse",
        work,
        facts=lambda made: {"proposals": [*made.done, *made.already, *made.with_them]},
        facts_kept=facts_kept,
        rebuilt=lambda kept, _: DecisionOutcome(tuple(kept["done"]), tuple(kept["already"]), tuple(kept["with_them"])),
        under_review="refuse" if is_accepted else "skip",  # an author may take back a proposal
        needs_external_edits=True,
    )


def _accepted(
    view: Snapshot, guard: Guard, chosen: Mapping[str, Proposal], below: Mapping[str, set[str]], mode: Mode
) -> tuple[list[Change], list[Actor | None], set[str], list[Obstacle]]:
    """Return the changes of the chosen proposals, their authors, the ids of the accepted ones, and the obstacles."""
    after, recorded, authors, done = Pending(view), list[Change](), list[Actor | None](), set[str]()
    obstacles = list[Obstacle]()
    for proposal in (each for each in chosen.values() if not each.identities & guard.identities):
        if missing := [each for each in below if each in below[proposal.id] - done]:
            text = f"the proposal builds on {', '.join(missing)}, which must be accepted first or in the same call"
            if mode == "partial" or not chosen.keys() >= set(missing):  # otherwise the others have the obstacles
                obstacles.append(Obstacle(proposal.id, None, text))
            continue
        changes, found = _apply(after, guard, proposal, mode)
        if found:
            obstacles += found
            continue
        after.add(changes)
        recorded += with_past(view, guard, proposal, changes)
        authors += [proposal.actor] * (len(recorded) - len(authors))
        done.add(proposal.id)
    return recorded, authors, done, obstacles


def _of_author(guard: Guard, chosen: Mapping[str, Proposal], *, is_accepted: bool, is_partial: bool) -> list[Obstacle]:
    """Return an obstacle for each proposal that the caller made itself and cannot accept.

    Raises `PermissionDenied` unless the mode is `partial`, and if an actor under review refuses those of others.
    """
    own = [each for each, proposal in chosen.items() if proposal.identities & guard.identities]
    if not is_accepted:
        if len(own) < len(chosen) and is_under_review(guard.settings, guard.actor):
            who = guard.actor or "an actor without a name"
            raise PermissionDenied(f"changes by {who} need review, so it can refuse only its own proposals")
        return []
    if own and not is_partial:
        raise PermissionDenied(f"the author of a proposal cannot accept it: {', '.join(own)}")
    return [Obstacle(each, None, "the author of a proposal cannot accept it") for each in own]


def _decided_before(view: Snapshot, proposal_id: str, *, is_accepted: bool) -> Obstacle | None:
    """Return an obstacle if an earlier decision on the proposal contradicts this one, otherwise None.

    Raises `NotFound` if no decision on the proposal is stored.
    """
    decision = decision_on(view, proposal_id)
    if decision is None:
        raise NotFound(f"there is no proposal {proposal_id} that awaits review")
    if decision.accepted == is_accepted:
        return None
    what = "accepted" if decision.accepted else "refused"
    return Obstacle(proposal_id, None, f"the proposal was already {what} by {decision.by or 'somebody'}")


def _apply(
    present: Snapshot, guard: Guard, proposal: Proposal, mode: Mode
) -> tuple[Sequence[Change], Sequence[Obstacle]]:
    """Return the changes that bring about a proposal in the present state, or the obstacles."""
    mode = "merge" if mode == "partial" else mode
    author = guard.accepting_for(proposal.actor, parse_provenance(proposal.changes[0].provenance_text))

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
