"""Decisions on proposals. Accepting applies proposals through the guard; refusing removes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from retentive.engine.events import EventType
from retentive.engine.guard import Guard
from retentive.engine.operation import Outcome, Plan, Write
from retentive.engine.pending import NEW, Pending
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
    RecordChange,
    decision_on,
    decision_records,
    foundations,
    pending,
    proposal_record,
    text_key,
    text_of,
    with_ids,
    without_proposal,
)
from retentive.storage.contract import Actor, Again, Change, Entry, Memory, Moved, Recorded, Snapshot
from retentive.values.diff import merge as merged
from retentive.values.paths import MemoryPath
from retentive.values.provenance import provenance_of
from retentive.values.replies import Replies
from retentive.values.text import decoded


class DecisionBlocked(Conflict):
    """Error if obstacles prevent the decision."""

    def __init__(self, obstacles: Sequence[Obstacle]) -> None:
        super().__init__("obstacles prevent a decision on the proposals")
        self.obstacles = tuple(obstacles)


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
        before = {each: self._decided_before(view, each) for each in wanted if each not in below}
        already = tuple(each for each, obstacle in before.items() if obstacle is None)
        obstacles = [obstacle for obstacle in before.values() if obstacle is not None]
        accepted = _Accepted(view, guard, self)
        while self.is_accepted and (found := accepted.add_all(chosen.values(), below)):
            obstacles += found
            if not self.partial:
                raise DecisionBlocked(obstacles)
            for obstacle in found:
                chosen.pop(obstacle.proposal_id, None)
            accepted = _Accepted(view, guard, self)
        if obstacles and not (self.partial and (chosen or already)):
            raise DecisionBlocked(obstacles)
        closed = [*chosen.values()]
        if not self.is_accepted:
            closed = [each for each in waiting if each.id in chosen or below[each.id] & chosen.keys()]
        result = DecisionOutcome(
            done=tuple(each.id for each in closed if each.id in chosen),
            already=already,
            with_them=tuple(each.id for each in closed if each.id not in chosen),
            obstacles=tuple(obstacles),
            summaries={proposal.id: proposal.summary for proposal in closed},
        )

        def afterwards(after: Snapshot, recorded: Sequence[Recorded]) -> Plan[DecisionOutcome]:
            records = [record for proposal in closed for record in without_proposal(proposal)]
            left = [proposal for proposal in waiting if proposal not in closed]
            records += accepted.renamed(left, recorded)
            records += decision_records(after, [self._decision(each, guard, accepted, after) for each in closed])
            what: EventType = "accepted" if self.is_accepted else "refused"
            return Plan(result, records=records, event=(what, [each.id for each in closed]) if closed else None)

        return Plan(result, accepted.after.changes, authors=accepted.authors, afterwards=afterwards)

    def _decision(self, proposal: Proposal, guard: Guard, accepted: _Accepted, after: Snapshot) -> Decision:
        revision = after.state.revision if proposal.id in accepted.changed else 0  # the change may already be made
        return Decision(proposal.id, self.is_accepted, proposal.actor, guard.actor, self.at, revision)

    def _decided_before(self, view: Snapshot, proposal_id: str) -> Obstacle | None:
        """Return an obstacle if an earlier decision on the proposal contradicts this one, otherwise None.

        Raises `NotFound` if no decision on the proposal is stored.
        """
        found = decision_on(view, proposal_id)
        if found is None:
            raise NotFound(f"there is no proposal {proposal_id} that awaits review")
        if found.accepted == self.is_accepted:
            return None
        what: ObstacleKind = "accepted" if found.accepted else "refused"
        return Obstacle(proposal_id, what, None, f"the proposal was already {what} by {found.by or 'somebody'}")


class _Hindered(Exception):
    """Raised if a change cannot be applied. Contains the kind of obstacle, the path and an explanation."""

    def __init__(self, what: ObstacleKind, path: str | None, text: str | None = None) -> None:
        by = " by somebody else" if what == "created" else ""
        self.what, self.path, self.text = what, path, text or f"{path} was {what}{by} after the proposal"


class _Accepted:
    """Changes of the accepted proposals, on top of the current state.

    `ids` maps the provisional ids of proposed memories to their ids in `after`. `changed` has the ids of the proposals
    that change something.
    """

    def __init__(self, view: Snapshot, guard: Guard, how: Decide) -> None:
        self.after = Pending(view)
        self.authors: list[Actor | None] = []
        self.ids: dict[str, str] = {}
        self.changed: set[str] = set()
        self._records, self._guard, self._how = view, guard, how

    def renamed(self, left: Sequence[Proposal], recorded: Sequence[Recorded]) -> Iterator[RecordChange]:
        """Yield the records of proposals that name provisional ids, with the ids of the memories in `recorded`."""
        ids = {
            each: recorded[int(found.removeprefix(NEW))].memory_id if found.startswith(NEW) else found
            for each, found in self.ids.items()
        }
        for proposal in left:
            if (new := with_ids(proposal, ids)) != proposal:
                yield proposal_record(new)

    def add_all(self, chosen: Collection[Proposal], below: Mapping[str, set[str]]) -> list[Obstacle]:
        """Add proposals, and return the obstacles. Proposals that build on one with an obstacle are skipped."""
        ids = {proposal.id for proposal in chosen}
        obstacles = [
            Obstacle(
                each,
                "builds_on",
                None,
                f"the proposal builds on {', '.join(missing)}, which must be accepted first or in the same call",
            )
            for each in (proposal.id for proposal in chosen)
            if (missing := [other for other in below if other in below[each] - ids])
        ]
        stuck = {obstacle.proposal_id for obstacle in obstacles}
        for proposal in chosen:
            if proposal.id not in stuck and not below[proposal.id] & stuck:
                obstacles += self._add(proposal)
                stuck |= {obstacle.proposal_id for obstacle in obstacles}
            else:
                stuck.add(proposal.id)
        return obstacles

    def _add(self, proposal: Proposal) -> Iterator[Obstacle]:
        made = provenance_of(proposal.changes[0])
        guard = self._guard.acting_for(proposal.actor, source=made.source, session=made.session, cause=made.cause)
        for number, proposed in enumerate(proposal.changes):
            change = replace(proposed, memory_id=self.ids.get(proposed.memory_id, proposed.memory_id))
            key = text_key(proposal.id, number)
            try:
                changes = self._changes(guard, change, key)
                if changes:
                    self.after.add(changes)
                    self.authors += [proposal.actor] * len(changes)
                    self.changed.add(proposal.id)
                if proposed.memory_id == key or proposed.operation == "created":
                    memory = self.after.get(change.path or "").memory
                    self.ids |= {} if memory is None else {proposed.memory_id: memory.id}
            except _Hindered as found:
                yield Obstacle(proposal.id, found.what, found.path, found.text)
            except Refused as refusal:
                path = change.path or change.before
                values = {"path": path, "old_path": change.before, "new_path": change.path} | refusal.values
                text = self._how.replies.error(refusal.key, values).text
                yield Obstacle(proposal.id, "guard", path, text)

    def _changes(self, guard: Guard, change: ProposedChange, key: str) -> Sequence[Change]:
        memory = self.after.find(change.memory_id)
        entry = Entry() if memory is None else self.after.get(memory.path)  # `get` also detects external edits
        if entry.memory is None or entry.memory.id != change.memory_id:
            entry = Entry()
        memory = entry.memory
        if change.has_text:
            text = text_of(self._records, AFTER, key, change.sha256)
            if memory is None:
                again = None if change.memory_id == key else Again(change.memory_id, change.created_at)
                return self._created(guard, change, text, again)
            base = text_of(self._records, BEFORE, key, change.base_sha256) if change.operation == "modified" else ""
            return self._modified(guard, change, entry, memory, base=base, text=text)
        if change.operation == "renamed":
            return self._renamed(guard, change, memory)
        if memory is None:
            return ()  # the memory is already deleted
        self._check_path(change, memory)
        if not self._how.force and memory.sha256 != change.base_sha256:
            raise _Hindered("edited", change.before)
        guard.check(MemoryPath.known(memory.path))
        return guard.delete(self.after, [memory])

    def _created(self, guard: Guard, change: ProposedChange, text: str, again: Again | None) -> Sequence[Change]:
        path = change.path or ""
        if change.operation == "modified" and not self._how.force:
            raise _Hindered("deleted", path)
        entry = self._free(path)
        if entry.memory is None:
            return self._put(guard, change, entry, path, text, again=again)
        chosen = self._chosen_text("", decoded(entry.data), text)
        if chosen is None:
            raise _Hindered("created", path)
        return self._put(guard, change, entry, path, chosen)

    def _modified(
        self, guard: Guard, change: ProposedChange, entry: Entry, memory: Memory, *, base: str, text: str
    ) -> Sequence[Change]:
        path = memory.path if change.path == change.before else change.path or memory.path
        if change.operation == "created" and not self._how.force:  # the proposal recreates a deleted memory
            raise _Hindered("created", path, f"{path} was restored by somebody else after the proposal")
        self._check_path(change, memory, is_followed=self._how.merge)
        present = decoded(entry.data)
        chosen = text if present == base else self._chosen_text(base, present, text)
        if path != memory.path:
            if self._free(path).memory is not None:
                raise _Hindered("created", path)
            guard.check_name(MemoryPath.known(path))
            guard.check(MemoryPath.known(memory.path))
        if chosen is None:
            where = "; the edit and the proposal change the same lines" if self._how.merge else ""
            raise _Hindered("edited", path, f"{path} was edited after the proposal{where}")
        return self._put(guard, change, entry, path, chosen)

    def _renamed(self, guard: Guard, change: ProposedChange, memory: Memory | None) -> Sequence[Change]:
        path = change.path or ""
        if memory is None and not self._how.force:
            raise _Hindered("deleted", change.before)
        if memory is None or memory.path == path:
            return ()
        self._check_path(change, memory)
        if self._free(path).memory is not None:
            raise _Hindered("created", path)
        guard.check_name(MemoryPath.known(path))
        guard.check(MemoryPath.known(memory.path))
        guard.check(MemoryPath.known(path))
        return guard.move(self.after, [Moved(memory, path)])

    def _check_path(self, change: ProposedChange, memory: Memory, *, is_followed: bool = False) -> None:
        """Raise `_Hindered` if the memory was renamed after the proposal, except with `force` or `is_followed`."""
        if memory.path != change.before and not (self._how.force or is_followed):
            sentence = f"{change.before} was renamed to {memory.path} after the proposal"
            raise _Hindered("renamed", change.before, sentence)

    def _chosen_text(self, base: str, present: str, text: str) -> str | None:
        """Return the text to write if the current text `present` differs from `base`, the text before the proposal.

        `text` is the proposed text. Returns None if neither `merge` nor `force` resolves the conflict.
        """
        if present == text:
            return text
        found = merged(base, present, text).text if self._how.merge else None
        return text if found is None and self._how.force else found

    def _free(self, path: str) -> Entry:
        """Return the entry at a path. Raises `_Hindered` if the path is a directory or is below a memory."""
        entry = self.after.get(path)
        if entry.below:
            raise _Hindered("created", path, f"{path} is now a directory")
        if entry.above is not None:
            raise _Hindered("created", path, f"{entry.above} is now a file, not a directory")
        return entry

    def _put(
        self, guard: Guard, change: ProposedChange, entry: Entry, path: str, text: str, *, again: Again | None = None
    ) -> Sequence[Change]:
        target = MemoryPath.known(path)
        if entry.memory is None:
            guard.check_name(target)
        guard.check(target)
        lineage = [change.provenance_text]
        if entry.memory is not None:
            lineage.append(entry.memory.provenance_text)
        return guard.put(self.after, entry, target, text, again=again, lineage=lineage).changes
