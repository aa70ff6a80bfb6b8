"""Decisions on proposals. Accepting applies proposals through the guarded writer; refusing removes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from retentive.engine.events import record_event
from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.operation import WriteOperation
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
    forget_decisions,
    foundations,
    pending,
    put_decision,
    put_proposal,
    text_key,
    text_of,
    with_ids,
    without_proposal,
)
from retentive.storage.contract import Actor, Change, Entry, Memory, Transaction
from retentive.values.diff import merge as merged
from retentive.values.paths import MemoryPath
from retentive.values.provenance import provenance_of
from retentive.values.records import Again
from retentive.values.replies import Replies
from retentive.values.text import decoded


class DecisionBlocked(Conflict):
    """Error that rolls back the transaction if obstacles prevent the decision."""

    def __init__(self, obstacles: Sequence[Obstacle]) -> None:
        super().__init__("obstacles prevent a decision on the proposals")
        self.obstacles = tuple(obstacles)


@dataclass(frozen=True, slots=True)
class Decide(WriteOperation[DecisionOutcome]):
    """Accept or refuse proposals, all or none.

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
    proposed_by: Actor | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the operation: `review.accept` or `review.refuse`."""
        return "review.accept" if self.is_accepted else "review.refuse"

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the facts for the audit entry: the ids of the proposals."""
        return {"proposals": [*result.done, *result.already, *result.with_them]}

    def kept(self, result: Any, tx: Transaction) -> Mapping[str, object]:
        """Return the ids of the decided proposals, to store them for a repetition of the same request."""
        return {"done": result.done, "already": result.already, "with_them": result.with_them}

    def again(self, kept: Mapping[str, Any], tx: Transaction) -> DecisionOutcome:
        """Use `kept` to rebuild the result of the first run, without the summaries."""
        return DecisionOutcome(tuple(kept["done"]), tuple(kept["already"]), tuple(kept["with_them"]))

    def apply(self, tx: Transaction, writer: GuardedWriter) -> DecisionOutcome:
        """Apply and remove the accepted proposals, or remove the refused ones. Record each decision."""
        if writer.settings.read_only:
            raise PermissionDenied("the memory store is read-only, so proposals cannot be accepted or refused")
        waiting = pending(tx)
        below = foundations(waiting)
        wanted = self.wanted
        if wanted is None:
            wanted = tuple(each.id for each in waiting if self.proposed_by is None or each.actor == self.proposed_by)
        chosen = {proposal.id: proposal for proposal in waiting if proposal.id in set(wanted)}
        already = tuple(each for each in wanted if each not in below)
        obstacles = [self._decided_before(tx, each) for each in already]
        ids: dict[str, str] = {}
        recorded: set[str] = set()
        if self.is_accepted:
            closed = chosen
            obstacles += self._apply_all(tx, writer, chosen, below, ids, recorded=recorded)
        else:
            closed = {each.id: each for each in waiting if each.id in chosen or below[each.id] & chosen.keys()}
        if any(obstacles):
            raise DecisionBlocked([each for each in obstacles if each is not None])
        self._close(tx, writer.actor, closed.values(), recorded)
        if closed:
            record_event(tx, "accepted" if self.is_accepted else "refused", writer.actor, list(closed))
        for proposal in waiting:
            if proposal.id not in closed and with_ids(proposal, ids) != proposal:
                put_proposal(tx, with_ids(proposal, ids))
        return DecisionOutcome(
            done=tuple(each for each in closed if each in chosen),
            already=already,
            with_them=tuple(each for each in closed if each not in chosen),
            summaries={proposal.id: proposal.summary for proposal in closed.values()},
        )

    def _decided_before(self, tx: Transaction, proposal_id: str) -> Obstacle | None:
        """Return an obstacle if an earlier decision on the proposal contradicts this one, otherwise None.

        Raises `NotFound` if no decision on the proposal is stored.
        """
        found = decision_on(tx, proposal_id)
        if found is None:
            raise NotFound(f"there is no proposal {proposal_id} that awaits review")
        if found.accepted == self.is_accepted:
            return None
        what: ObstacleKind = "accepted" if found.accepted else "refused"
        return Obstacle(proposal_id, what, None, f"the proposal was already {what} by {found.by or 'somebody'}")

    def _apply_all(
        self,
        tx: Transaction,
        writer: GuardedWriter,
        chosen: Mapping[str, Proposal],
        below: Mapping[str, set[str]],
        ids: dict[str, str],
        *,
        recorded: set[str],
    ) -> list[Obstacle]:
        """Apply the proposals `chosen` and return the obstacles.

        `recorded` gets the ids of the proposals that wrote a version. If a proposal has an obstacle, the proposals that
        build on it are skipped.
        """
        obstacles = [
            Obstacle(
                each,
                "builds_on",
                None,
                f"the proposal builds on {', '.join(missing)}, which must be accepted first or in the same call",
            )
            for each in chosen
            if (missing := [other for other in below if other in below[each] - chosen.keys()])
        ]
        stuck = {obstacle.proposal_id for obstacle in obstacles}
        for proposal in chosen.values():
            if proposal.id not in stuck and not below[proposal.id] & stuck:
                made = provenance_of(proposal.changes[0])
                acting = writer.acting_for(proposal.actor, source=made.source, session=made.session)
                acting.cause = made.cause
                applier = _ProposalApplier(tx, acting, proposal, ids, self.replies, self.merge, self.force)
                before = len(writer.recorded)
                obstacles += applier.run()
                if len(writer.recorded) > before:
                    recorded.add(proposal.id)
                stuck |= {obstacle.proposal_id for obstacle in obstacles}
            else:
                stuck.add(proposal.id)
        return obstacles

    def _close(self, tx: Transaction, by: Actor | None, closed: Collection[Proposal], recorded: set[str]) -> None:
        for proposal in closed:
            for record in without_proposal(proposal):
                tx.put_record(*record)
            made = tx.state.revision if proposal.id in recorded else 0  # an accepted change may already have been made
            put_decision(tx, Decision(proposal.id, self.is_accepted, proposal.actor, by, self.at, made))
        if closed:
            forget_decisions(tx)


class _Hindered(Exception):
    """Raised if a change cannot be applied. Contains the kind of obstacle, the path and an explanation."""

    def __init__(self, what: ObstacleKind, path: str | None, text: str | None = None) -> None:
        by = " by somebody else" if what == "created" else ""
        self.what, self.path, self.text = what, path, text or f"{path} was {what}{by} after the proposal"


@dataclass(slots=True)
class _ProposalApplier:
    """Applies one proposal in a transaction. If there is an obstacle, the caller must roll back the transaction.

    `ids` maps the provisional ids of proposed memories to the ids of the created memories.
    """

    tx: Transaction
    writer: GuardedWriter
    proposal: Proposal
    ids: dict[str, str]
    replies: Replies
    merge: bool
    force: bool

    def run(self) -> list[Obstacle]:
        """Apply the changes and return the obstacles. An empty list means success."""
        obstacles = []
        for number, proposed in enumerate(self.proposal.changes):
            change = replace(proposed, memory_id=self.ids.get(proposed.memory_id, proposed.memory_id))
            try:
                self._apply(change, text_key(self.proposal.id, number))
            except _Hindered as found:
                obstacles.append(Obstacle(self.proposal.id, found.what, found.path, found.text))
            except Refused as refusal:
                path = change.path or change.before
                values = {"path": path, "old_path": change.before, "new_path": change.path} | refusal.values
                text = self.replies.error(refusal.key, values).text
                obstacles.append(Obstacle(self.proposal.id, "guard", path, text))
        return obstacles

    def _apply(self, change: ProposedChange, key: str) -> None:
        entry = self._present(change.memory_id)
        if change.has_text:
            text = text_of(self.tx, AFTER, key, change.sha256)
            if entry.memory is None:
                again = None if change.memory_id == key else Again(change.memory_id, change.created_at)
                self._create(change, text, again)
            else:
                base = text_of(self.tx, BEFORE, key, change.base_sha256) if change.operation == "modified" else ""
                self._modify(change, entry, entry.memory, base=base, text=text)
        elif change.operation == "deleted":
            self._delete(change, entry.memory)
        else:
            self._rename(change, entry.memory)

    def _present(self, memory_id: str) -> Entry:
        """Return the entry at the current path of a memory. The entry is empty if the memory was deleted."""
        memory = self.tx.find(memory_id)
        entry = Entry() if memory is None else self.tx.get(memory.path)  # `get` also detects external edits
        return entry if entry.memory is not None and entry.memory.id == memory_id else Entry()

    def _create(self, change: ProposedChange, text: str, again: Again | None) -> None:
        path = change.path or ""
        if change.operation == "modified" and not self.force:
            raise _Hindered("deleted", path)
        entry = self._free(path)
        if entry.memory is None:
            self._put(change, entry, path, text, again=again)
        else:
            chosen = self._chosen_text("", decoded(entry.data), text)
            if chosen is None:
                raise _Hindered("created", path)
            self._put(change, entry, path, chosen)
        made = self.tx.get(path).memory
        if made is not None:
            self.ids[change.memory_id] = made.id

    def _modify(self, change: ProposedChange, entry: Entry, memory: Memory, *, base: str, text: str) -> None:
        path = memory.path if change.path == change.before else change.path or memory.path
        if change.operation == "created" and not self.force:  # the proposal recreates a deleted memory
            raise _Hindered("created", path, f"{path} was restored by somebody else after the proposal")
        self._check_path(change, memory, is_followed=self.merge)
        present = decoded(entry.data)
        chosen = text if present == base else self._chosen_text(base, present, text)
        if path != memory.path:
            if self._free(path).memory is not None:
                raise _Hindered("created", path)
            self.writer.check_name(MemoryPath.known(path))
            self.writer.check(MemoryPath.known(memory.path))
        if chosen is None:
            where = "; the edit and the proposal change the same lines" if self.merge else ""
            raise _Hindered("edited", path, f"{path} was edited after the proposal{where}")
        self._put(change, entry, path, chosen)

    def _delete(self, change: ProposedChange, memory: Memory | None) -> None:
        if memory is None:
            return  # the memory is already deleted
        self._check_path(change, memory)
        if not self.force and memory.sha256 != change.base_sha256:
            raise _Hindered("edited", change.before)
        self.writer.check(MemoryPath.known(memory.path))
        self.writer.delete([memory])

    def _rename(self, change: ProposedChange, memory: Memory | None) -> None:
        path = change.path or ""
        if memory is None and not self.force:
            raise _Hindered("deleted", change.before)
        if memory is None or memory.path == path:
            return
        self._check_path(change, memory)
        if self._free(path).memory is not None:
            raise _Hindered("created", path)
        self.writer.check_name(MemoryPath.known(path))
        self.writer.check(MemoryPath.known(memory.path))
        self.writer.check(MemoryPath.known(path))
        self.writer.move([Change(memory, path)])

    def _check_path(self, change: ProposedChange, memory: Memory, *, is_followed: bool = False) -> None:
        """Raise `_Hindered` if the memory was renamed after the proposal, except with `force` or `is_followed`."""
        if memory.path != change.before and not (self.force or is_followed):
            sentence = f"{change.before} was renamed to {memory.path} after the proposal"
            raise _Hindered("renamed", change.before, sentence)

    def _chosen_text(self, base: str, present: str, text: str) -> str | None:
        """Return the text to write if the current text `present` differs from `base`, the text before the proposal.

        `text` is the proposed text. Returns None if neither `merge` nor `force` resolves the conflict.
        """
        if present == text:
            return text
        found = merged(base, present, text).text if self.merge else None
        return text if found is None and self.force else found

    def _free(self, path: str) -> Entry:
        """Return the entry at a path. Raises `_Hindered` if the path is a directory or is below a memory."""
        entry = self.tx.get(path)
        if entry.below:
            raise _Hindered("created", path, f"{path} is now a directory")
        if entry.above is not None:
            raise _Hindered("created", path, f"{entry.above} is now a file, not a directory")
        return entry

    def _put(self, change: ProposedChange, entry: Entry, path: str, text: str, *, again: Again | None = None) -> None:
        target = MemoryPath.known(path)
        if entry.memory is None:
            self.writer.check_name(target)
        self.writer.check(target)
        lineage = [change.provenance_text]
        if entry.memory is not None:
            lineage.append(entry.memory.provenance_text)
        self.writer.put(entry, target, text, again=again, lineage=lineage)
