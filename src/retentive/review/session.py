"""Review API: list and show the proposals of actors under review, and decide on them.

Accepting applies the changes of proposals through the guard; refusing removes the proposals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

from retentive.engine.core import StoreCore
from retentive.engine.events import EventType
from retentive.engine.guard import Guard
from retentive.engine.operation import Outcome, Plan, Read, Write
from retentive.engine.pending import Pending
from retentive.errors import Conflict, NotFound, PermissionDenied, Refused
from retentive.review.proposals import (
    AFTER,
    BEFORE,
    Decision,
    DecisionOutcome,
    Obstacle,
    ObstacleKind,
    Proposal,
    ProposedChange,
    decision_on,
    decision_records,
    decisions,
    foundations,
    pending,
    proposal_record,
    text_key,
    text_of,
    without_proposal,
)
from retentive.storage.contract import (
    Actor,
    Again,
    Change,
    Entry,
    Memory,
    Moved,
    Recorded,
    Snapshot,
    as_actor,
    now_us,
    to_datetime,
)
from retentive.values.diff import merge as merge_texts
from retentive.values.paths import MemoryPath
from retentive.values.provenance import provenance_of
from retentive.values.replies import Replies
from retentive.values.text import decoded

__all__ = ["Decision", "DecisionOutcome", "Obstacle", "Proposal", "ProposedChange", "Review"]

Texts: TypeAlias = list[tuple[ProposedChange, str | None, str | None]]
"""List of changes, each with the text before and the text after the change. A text that does not exist is None."""


class DecisionBlocked(Conflict):
    """Error if obstacles prevent the decision."""

    def __init__(self, obstacles: Sequence[Obstacle]) -> None:
        super().__init__("obstacles prevent a decision on the proposals")
        self.obstacles = tuple(obstacles)


class Review:
    """Review of the proposals in one memory store. Threads may share the object. Methods raise `RetentiveError`."""

    def __init__(self, context: StoreCore) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"<Review of {self._context.id}>"

    def pending(self, *, actor: Actor | str | None = None) -> list[Proposal]:
        """Return the pending proposals, oldest first. With `actor`, return only the proposals of this actor."""
        with self._context.checking("review.list"):
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
        merge: bool = False,
        force: bool = False,
        partial: bool = False,
    ) -> DecisionOutcome:
        """Apply proposals, all or none. The new versions are recorded with the actor who proposed them.

        If `ids` is None, all pending proposals are selected. With `proposed_by`, only the proposals of this actor are
        selected. The guards check the changes again. If somebody else changed an affected memory after the proposal,
        the result has an obstacle and nothing changes.

        `merge` and `force` overcome such obstacles. With `merge`, the proposed text and the current text are merged
        line by line, and a proposed edit is applied even if the memory was renamed. With `force`, the proposed text
        replaces the current text, and a proposed deletion deletes the memory even if it was changed after the proposal.
        With `partial`, the proposals without an obstacle are applied, and the result has the obstacles of the others.

        Accepting a proposal again has no effect. Raises `NotFound` for an unknown id, and `PermissionDenied` for an
        actor under review.
        """
        options = {"merge": merge, "force": force, "partial": partial}
        return self._decide(ids, actor, proposed_by, is_accepted=True, **options)

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
        **options: bool,
    ) -> DecisionOutcome:
        context = self._context
        wanted = (ids,) if isinstance(ids, str) else None if ids is None else tuple(dict.fromkeys(ids))
        with context.checking("review.accept" if is_accepted else "review.refuse", actor):
            proposer = as_actor(proposed_by)
        at = to_datetime(now_us(context.clock))
        operation = Decide(wanted, is_accepted, at, context.replies, proposed_by=proposer, **options)
        try:
            return context.result_of(operation, actor)
        except DecisionBlocked as blocked:
            return DecisionOutcome(obstacles=blocked.obstacles)


@dataclass(frozen=True, slots=True)
class Decide(Write[DecisionOutcome]):
    """Accept or refuse proposals, all or none, or with `partial` all that have no obstacle.

    `wanted` lists the ids of the proposals. If it is None, all pending proposals of the actor `proposed_by` are
    selected. If both are None, the pending proposals of all actors are selected. If a selected proposal was already
    decided differently (refused instead of accepted, or accepted instead of refused), this is an obstacle. Raises
    `NotFound` and `PermissionDenied`. Raises `DecisionBlocked` if there are obstacles.
    """

    under_review = "refuse"
    allowed_when_archived = True
    wanted: tuple[str, ...] | None
    is_accepted: bool
    at: datetime
    replies: Replies
    merge: bool = False
    force: bool = False
    partial: bool = False
    proposed_by: Actor | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the operation: `review.accept` or `review.refuse`."""
        return "review.accept" if self.is_accepted else "review.refuse"

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the facts for the audit entry: the ids of the proposals."""
        return {"proposals": [*result.done, *result.already, *result.with_them]}

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object]:
        """Return the ids of the decided proposals."""
        result = outcome.value()
        return {"done": result.done, "already": result.already, "with_them": result.with_them}

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> DecisionOutcome:
        """Return the result of the first run, without the summaries."""
        return DecisionOutcome(tuple(facts["done"]), tuple(facts["already"]), tuple(facts["with_them"]))

    def decide(self, view: Snapshot, guard: Guard) -> Plan[DecisionOutcome]:
        """Return the changes of the accepted proposals, and the records of all decisions."""
        if guard.settings.read_only:
            raise PermissionDenied("the memory store is read-only, so proposals cannot be accepted or refused")
        waiting = pending(view)
        below = foundations(waiting)
        wanted = self.wanted
        if wanted is None:
            wanted = tuple(each.id for each in waiting if self.proposed_by is None or each.actor == self.proposed_by)
        chosen = {proposal.id: proposal for proposal in waiting if proposal.id in wanted}
        before = {each: self._decided_before(view, each) for each in wanted if each not in chosen}
        already = tuple(each for each, obstacle in before.items() if obstacle is None)
        obstacles = [obstacle for obstacle in before.values() if obstacle is not None]
        after, authors, done = Pending(view), list[Actor | None](), set[str]()
        changed: set[str] = set()  # proposals with changes that nobody had already made
        ids: dict[str, str] = {}  # proposed memory -> memory of somebody else that gets its text
        for proposal in chosen.values() if self.is_accepted else ():
            if missing := [each for each in below if each in below[proposal.id] - done]:
                text = f"the proposal builds on {', '.join(missing)}, which must be accepted first or in the same call"
                if self.partial or not chosen.keys() >= set(missing):  # otherwise the others have the obstacles
                    obstacles.append(Obstacle(proposal.id, "builds_on", None, text))
                continue
            changes, found = self._apply(after, guard, proposal, ids)
            if found:
                obstacles += found
                continue
            after.add(changes)
            authors += [proposal.actor] * len(changes)
            done.add(proposal.id)
            changed |= {proposal.id} if changes else set()
        closed = [each for each in waiting if each.id in done]
        if not self.is_accepted:
            closed = [each for each in waiting if each.id in chosen or below[each.id] & chosen.keys()]
        if obstacles and not (self.partial and (closed or already)):
            raise DecisionBlocked(obstacles)
        result = DecisionOutcome(
            done=tuple(each.id for each in closed if each.id in chosen),
            already=already,
            with_them=tuple(each.id for each in closed if each.id not in chosen),
            obstacles=tuple(obstacles),
            summaries={proposal.id: proposal.summary for proposal in closed},
        )
        records = [record for proposal in closed for record in without_proposal(proposal)]
        left = {proposal: _with_ids(proposal, ids) for proposal in waiting if proposal not in closed}
        records += [proposal_record(new) for proposal, new in left.items() if new != proposal]

        def afterwards(recorded: Snapshot, _: Sequence[Recorded]) -> Plan[DecisionOutcome]:
            revisions = dict.fromkeys(changed, recorded.state.revision)
            decided = [
                Decision(each.id, self.is_accepted, each.actor, guard.actor, self.at, revisions.get(each.id, 0))
                for each in closed
            ]
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
        what: ObstacleKind = "accepted" if decision.accepted else "refused"
        return Obstacle(proposal_id, what, None, f"the proposal was already {what} by {decision.by or 'somebody'}")

    def _apply(
        self, present: Snapshot, guard: Guard, proposal: Proposal, ids: dict[str, str]
    ) -> tuple[Sequence[Change], list[Obstacle]]:
        """Return the changes of a proposal, or the obstacles. Adds to `ids` whose memories get the texts."""
        made = provenance_of(proposal.changes[0])
        author = guard.acting_for(proposal.actor, source=made.source, session=made.session, cause=made.cause)
        after, obstacles, known = Pending(present), list[Obstacle](), dict(ids)
        for number, proposed in enumerate(proposal.changes):
            change = replace(proposed, memory_id=known.get(proposed.memory_id, proposed.memory_id))
            path, key = change.path or change.before, text_key(proposal.id, number)
            try:
                after.add(self._changes(after, author, change, key))
                memory = None if change.operation != "created" else after.get(change.path or "").memory
                if memory is not None and memory.id != change.memory_id:
                    known[change.memory_id] = memory.id
            except _Hindered as hindered:
                obstacles.append(Obstacle(proposal.id, hindered.what, hindered.path, hindered.text))
            except Refused as refusal:
                values = {"path": path, "old_path": change.before, "new_path": change.path} | refusal.values
                text = self.replies.error(refusal.key, values).text
                obstacles.append(Obstacle(proposal.id, "guard", path, text))
        if not obstacles:
            ids.update(known)
        return after.changes, obstacles

    def _changes(self, view: Snapshot, guard: Guard, change: ProposedChange, key: str) -> Sequence[Change]:
        """Return what brings about a proposed change in the present state. Raises `_Hindered`, and `Refused`."""
        path = change.path or ""
        memory = view.find(change.memory_id)
        entry = Entry() if memory is None else view.get(memory.path)  # `get` also detects external edits
        memory = entry.memory if entry.memory is not None and entry.memory.id == change.memory_id else None
        if change.operation == "deleted":
            if memory is None:
                return ()
            self._check_path(change, memory)
            if not self.force and memory.sha256 != change.base_sha256:
                raise _Hindered("edited", change.before)
            guard.check(MemoryPath.known(memory.path))
            return guard.delete(view, [memory])
        if memory is None and change.operation != "created" and not self.force:
            raise _Hindered("deleted", change.before)
        if change.operation == "renamed":
            if memory is None or memory.path == path:
                return ()
            self._check_path(change, memory)
            self._check_move(view, guard, memory, path)
            guard.check(MemoryPath.known(path))
            return guard.move(view, [Moved(memory, path)])
        text = text_of(view, AFTER, key, change.sha256)
        if memory is None:
            return self._created(view, guard, change, text)
        base = text_of(view, BEFORE, key, change.base_sha256) if change.operation == "modified" else ""
        return self._modified(view, guard, change, entry, (base, text))

    def _created(self, view: Snapshot, guard: Guard, change: ProposedChange, text: str) -> Sequence[Change]:
        path = change.path or ""
        entry = _free(view, path)
        if entry.memory is None:
            again = Again(change.memory_id, change.created_at)
            return _put(view, guard, change, entry, text, again=again)
        chosen = self._chosen_text("", decoded(entry.data), text)
        if chosen is None:
            raise _Hindered("created", path)
        return _put(view, guard, change, entry, chosen)

    def _modified(
        self, view: Snapshot, guard: Guard, change: ProposedChange, entry: Entry, texts: tuple[str, str]
    ) -> Sequence[Change]:
        memory, (base, text) = entry.memory, texts
        assert memory is not None
        if change.operation == "created" and not self.force:  # the proposal recreates a deleted memory
            raise _Hindered("created", change.path, f"{change.path} was restored by somebody else after the proposal")
        path = memory.path if change.path == change.before else change.path or ""
        self._check_path(change, memory, is_followed=self.merge)
        if path != memory.path:
            self._check_move(view, guard, memory, path)
        present = decoded(entry.data)
        chosen = text if present == base else self._chosen_text(base, present, text)
        if chosen is None:
            where = "; the edit and the proposal change the same lines" if self.merge else ""
            raise _Hindered("edited", path, f"{path} was edited after the proposal{where}")
        return _put(view, guard, replace(change, path=path), entry, chosen)

    def _check_path(self, change: ProposedChange, memory: Memory, *, is_followed: bool = False) -> None:
        """Raise `_Hindered` if the memory was renamed after the proposal, except with `force` or `is_followed`."""
        if memory.path != change.before and not (self.force or is_followed):
            sentence = f"{change.before} was renamed to {memory.path} after the proposal"
            raise _Hindered("renamed", change.before, sentence)

    def _check_move(self, view: Snapshot, guard: Guard, memory: Memory, path: str) -> None:
        if _free(view, path).memory is not None:
            raise _Hindered("created", path)
        guard.check_name(MemoryPath.known(path))
        guard.check(MemoryPath.known(memory.path))

    def _chosen_text(self, base: str, present: str, text: str) -> str | None:
        """Return the text to write if the current text `present` differs from `base`, the text before the proposal.

        `text` is the proposed text. Returns None if neither `merge` nor `force` resolves the conflict.
        """
        if present == text:
            return text
        merged = merge_texts(base, present, text).text if self.merge else None
        return text if merged is None and self.force else merged


class _Hindered(Exception):
    """Raised if a change cannot be applied. Contains the kind of obstacle, the path and an explanation."""

    def __init__(self, what: ObstacleKind, path: str | None, text: str | None = None) -> None:
        by = " by somebody else" if what == "created" else ""
        self.what, self.path, self.text = what, path, text or f"{path} was {what}{by} after the proposal"


def _with_ids(proposal: Proposal, ids: Mapping[str, str]) -> Proposal:
    changes = (replace(change, memory_id=ids.get(change.memory_id, change.memory_id)) for change in proposal.changes)
    return replace(proposal, changes=tuple(changes))


def _free(view: Snapshot, path: str) -> Entry:
    """Return the entry at a path. Raises `_Hindered` if the path is a directory or is below a memory."""
    entry = view.get(path)
    if entry.below:
        raise _Hindered("created", path, f"{path} is now a directory")
    if entry.above is not None:
        raise _Hindered("created", path, f"{entry.above} is now a file, not a directory")
    return entry


def _put(
    view: Snapshot, guard: Guard, change: ProposedChange, entry: Entry, text: str, *, again: Again | None = None
) -> Sequence[Change]:
    target = MemoryPath.known(change.path or "")
    if entry.memory is None:
        guard.check_name(target)
    guard.check(target)
    lineage = [change.provenance_text, *([] if entry.memory is None else [entry.memory.provenance_text])]
    return guard.put(view, entry, target, text, again=again, lineage=lineage).changes
