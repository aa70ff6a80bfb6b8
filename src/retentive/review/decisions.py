"""Decisions on proposals: accepting applies them through the guarded writer, refusing removes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from retentive.engine.operation import WriteOperation
from retentive.engine.writer import GuardedWriter
from retentive.errors import Conflict, NotFound, PermissionDenied, Refused
from retentive.review.proposals import (
    AFTER,
    BEFORE,
    Decision,
    DecisionOutcome,
    Obstacle,
    Proposal,
    ProposedChange,
    What,
    decision_on,
    forget_decisions,
    foundations,
    pending,
    put_decision,
    put_proposal,
    remove_proposal,
    text_key,
    text_of,
    with_ids,
)
from retentive.storage.contract import Actor, Change, Entry, Memory, Transaction
from retentive.values.diff import merge as merged
from retentive.values.paths import MemoryPath
from retentive.values.records import Again
from retentive.values.replies import Replies
from retentive.values.text import decoded


class Stopped(Conflict):
    """Rolls back the transaction when obstacles prevent the decision."""

    def __init__(self, obstacles: Sequence[Obstacle]) -> None:
        super().__init__("obstacles keep the proposals from being decided")
        self.obstacles = tuple(obstacles)


class Deciding:
    """A decision on proposals, in one transaction.

    `wanted` None selects all pending proposals, or those of the actor `proposed_by`. Wanted proposals that are still
    pending are accepted or refused; the others must have been decided before.
    """

    def __init__(
        self,
        tx: Transaction,
        wanted: Sequence[str] | None,
        *,
        writer: GuardedWriter,
        at: datetime,
        replies: Replies,
        proposed_by: Actor | None = None,
    ) -> None:
        self._tx, self._writer, self._replies = tx, writer, replies
        self._by, self._at = writer.actor, at
        self._pending = pending(tx)
        self._foundations = foundations(self._pending)
        if wanted is None:
            wanted = [each.id for each in self._pending if proposed_by is None or each.actor == proposed_by]
        self._chosen = [proposal for proposal in self._pending if proposal.id in set(wanted)]
        self._decided = [self._decision(each) for each in wanted if each not in self._foundations]

    def accept(self, *, merge: bool, force: bool) -> DecisionOutcome:
        """Apply the changes. Raises `Stopped`."""
        obstacles = [*self._against(accepted=True), *self._without_foundation()]
        stuck = {obstacle.proposal_id for obstacle in obstacles}
        ids: dict[str, str] = {}
        for proposal in self._chosen:
            if proposal.id in stuck or self._foundations[proposal.id] & stuck:
                stuck.add(proposal.id)
                continue
            writer = self._writer.acting_for(proposal.actor)
            making = _Making(self._tx, writer, proposal, ids, self._replies, merge=merge, force=force)
            obstacles += making.run()
            stuck |= {obstacle.proposal_id for obstacle in obstacles}
        if obstacles:
            raise Stopped(obstacles)
        return self._close(self._chosen, ids=ids, accepted=True)

    def refuse(self) -> DecisionOutcome:
        """Remove the proposals and those that build on them. Raises `Stopped`."""
        obstacles = self._against(accepted=False)
        if obstacles:
            raise Stopped(obstacles)
        chosen = {proposal.id for proposal in self._chosen}
        gone = [each for each in self._pending if each.id in chosen or self._foundations[each.id] & chosen]
        return self._close(gone, ids={}, accepted=False)

    def _decision(self, proposal_id: str) -> Decision:
        found = decision_on(self._tx, proposal_id)
        if found is None:
            raise NotFound(f"no proposal {proposal_id} awaits review")
        return found

    def _against(self, *, accepted: bool) -> list[Obstacle]:
        """Obstacles for wanted proposals that were decided the other way before."""
        against = [each for each in self._decided if each.accepted != accepted]
        what: What = "refused" if accepted else "accepted"
        return [
            Obstacle(each.proposal_id, what, None, f"it was {what} by {each.by or 'somebody'} before")
            for each in against
        ]

    def _without_foundation(self) -> list[Obstacle]:
        chosen = {proposal.id for proposal in self._chosen}
        missing = [
            (proposal.id, [each.id for each in self._pending if each.id in self._foundations[proposal.id] - chosen])
            for proposal in self._chosen
        ]
        return [
            Obstacle(each, "builds_on", None, f"it builds on {', '.join(below)}, to be accepted before or with it")
            for each, below in missing
            if below
        ]

    def _close(self, closed: Sequence[Proposal], *, ids: dict[str, str], accepted: bool) -> DecisionOutcome:
        """Remove proposals, record the decision, and update memory ids in the pending proposals that build on them."""
        chosen, gone = {proposal.id for proposal in self._chosen}, {proposal.id for proposal in closed}
        for proposal in closed:
            remove_proposal(self._tx, proposal)
            put_decision(self._tx, Decision(proposal.id, accepted, proposal.actor, self._by, self._at))
        for proposal in self._pending:
            if proposal.id not in gone and with_ids(proposal, ids) != proposal:
                put_proposal(self._tx, with_ids(proposal, ids))
        if closed:
            forget_decisions(self._tx)
        return DecisionOutcome(
            done=tuple(proposal.id for proposal in closed if proposal.id in chosen),
            already=tuple(decision.proposal_id for decision in self._decided),
            with_them=tuple(proposal.id for proposal in closed if proposal.id not in chosen),
            summaries={proposal.id: proposal.summary for proposal in closed},
        )


@dataclass(frozen=True, slots=True)
class Decide(WriteOperation[DecisionOutcome]):
    """Accept or refuse proposals, all or none. Raises `Stopped`, `NotFound`, `PermissionDenied`."""

    under_review = "refuse"
    wanted: tuple[str, ...] | None  # None: all pending
    is_accepted: bool
    at: datetime
    replies: Replies
    merge: bool = False
    force: bool = False
    proposed_by: Actor | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the operation: accept or refuse."""
        return "review.accept" if self.is_accepted else "review.refuse"

    def facts(self, result: Any) -> Mapping[str, object]:
        """Ids of the proposals."""
        return {"proposals": [*result.done, *result.already, *result.with_them]}

    def apply(self, tx: Transaction, writer: GuardedWriter) -> DecisionOutcome:
        """Accept or refuse the proposals."""
        if writer.settings.read_only:
            raise PermissionDenied("the memory store is read-only")
        deciding = Deciding(
            tx, self.wanted, writer=writer, at=self.at, replies=self.replies, proposed_by=self.proposed_by
        )
        return deciding.accept(merge=self.merge, force=self.force) if self.is_accepted else deciding.refuse()


class _Making:
    """Applies one proposal and collects obstacles; on any obstacle the caller rolls back."""

    def __init__(
        self,
        tx: Transaction,
        write: GuardedWriter,
        proposal: Proposal,
        ids: dict[str, str],
        replies: Replies,
        *,
        merge: bool,
        force: bool,
    ) -> None:
        self._tx, self._write, self._replies, self._ids = tx, write, replies, ids
        self._proposal = proposal
        self._merge, self._force = merge, force
        self._obstacles: list[Obstacle] = []

    def run(self) -> list[Obstacle]:
        """Apply the changes and return the obstacles; empty on success."""
        for number, proposed in enumerate(self._proposal.changes):
            change = replace(proposed, memory_id=self._ids.get(proposed.memory_id, proposed.memory_id))
            try:
                self._make(change, text_key(self._proposal.id, number))
            except Refused as refusal:
                path = change.path or change.before
                values = {"path": path, "old_path": change.before, "new_path": change.path} | refusal.values
                self._hinder("guard", path, self._replies.error(refusal.key, values).text)
        return self._obstacles

    def _make(self, change: ProposedChange, key: str) -> None:
        look = self._present(change.memory_id)
        if change.has_text:
            text = text_of(self._tx, AFTER, key)
            if look.memory is None:
                again = None if change.memory_id == key else Again(change.memory_id, change.created_at)
                self._create(change, text, again)
            else:
                base = text_of(self._tx, BEFORE, key) if change.operation == "modified" else ""
                self._modify(change, look, look.memory, base=base, text=text)
        elif change.operation == "deleted":
            self._delete(change, look.memory)
        else:
            self._rename(change, look.memory)

    def _present(self, memory_id: str) -> Entry:
        """The memory as it is now, at its present path; an empty entry if it was deleted."""
        memory = self._tx.find(memory_id)
        look = Entry() if memory is None else self._tx.get(memory.path)  # `get` also detects external edits
        return look if look.memory is not None and look.memory.id == memory_id else Entry()

    def _create(self, change: ProposedChange, text: str, again: Again | None) -> None:
        path = change.path or ""
        if change.operation == "modified" and not self._force:
            self._hinder("deleted", path, f"{path} was deleted meanwhile")
            return
        look = self._free(path)
        if look is None:
            return
        taken = look.memory is not None
        chosen = self._chosen_text("", decoded(look.data), text) if taken else text
        if chosen is None:
            self._hinder("created", path, f"{path} was created meanwhile by somebody else")
            return
        self._put(look, path, chosen, again=None if taken else again)
        made = self._tx.get(path).memory
        if made is not None:
            self._ids[change.memory_id] = made.id

    def _modify(self, change: ProposedChange, look: Entry, memory: Memory, *, base: str, text: str) -> None:
        path = memory.path
        if change.operation == "created" and not self._force:  # the proposal recreates a deleted memory
            self._hinder("created", path, f"{path} was restored meanwhile by somebody else")
            return
        if path != change.before and not (self._merge or self._force):
            self._hinder("renamed", change.before, f"{change.before} was renamed to {path} meanwhile")
            return
        present = decoded(look.data)
        chosen = text if present == base else self._chosen_text(base, present, text)
        if chosen is None:
            where = " in the same lines" if self._merge else ""
            self._hinder("edited", path, f"{path} was edited meanwhile{where}")
            return
        self._put(look, path, chosen)

    def _delete(self, change: ProposedChange, memory: Memory | None) -> None:
        before = change.before or ""
        if memory is None:
            return  # already deleted
        if not self._force and memory.path != before:
            self._hinder("renamed", before, f"{before} was renamed to {memory.path} meanwhile")
        elif not self._force and memory.sha256 != change.base_sha256:
            self._hinder("edited", before, f"{before} was edited meanwhile")
        else:
            self._write.check(MemoryPath.known(memory.path))
            self._write.delete([memory])

    def _rename(self, change: ProposedChange, memory: Memory | None) -> None:
        before, path = change.before or "", change.path or ""
        if memory is None:
            if not self._force:
                self._hinder("deleted", before, f"{before} was deleted meanwhile")
            return
        if memory.path == path:
            return
        if memory.path != before and not self._force:
            self._hinder("renamed", before, f"{before} was renamed to {memory.path} meanwhile")
            return
        target = self._free(path)
        if target is None:
            return
        if target.memory is not None:
            self._hinder("created", path, f"{path} was created meanwhile by somebody else")
            return
        self._write.check_name(MemoryPath.known(path))
        self._write.check(MemoryPath.known(memory.path))
        self._write.check(MemoryPath.known(path))
        self._write.move([Change(memory, path)])

    def _chosen_text(self, base: str, present: str, text: str) -> str | None:
        """The text to write if others changed the memory meanwhile; None if neither `merge` nor `force` resolves it."""
        if present == text:
            return text
        found = merged(base, present, text).text if self._merge else None
        return text if found is None and self._force else found

    def _free(self, path: str) -> Entry | None:
        """The entry at a path where a memory can be stored; None, with an obstacle recorded, if it cannot."""
        look = self._tx.get(path)
        if look.below:
            self._hinder("created", path, f"{path} is a directory now")
            return None
        if look.above is not None:
            self._hinder("created", path, f"{look.above} is a file now, and no directory")
            return None
        return look

    def _put(self, look: Entry, path: str, text: str, *, again: Again | None = None) -> None:
        target = MemoryPath.known(path)
        if look.memory is None:
            self._write.check_name(target)
        self._write.check(target)
        self._write.put(look, target, text, again=again)

    def _hinder(self, what: What, path: str | None, text: str) -> None:
        self._obstacles.append(Obstacle(self._proposal.id, what, path, text))
