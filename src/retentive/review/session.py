"""Review: the changes of chosen actors wait as proposals until a person takes them in or refuses them.

`Review` is what programs use, as `MemoryStore.review`; the engine reads and writes through it, so that an actor under
review works on what it proposed, and everyone else on the present.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from retentive.engine.writer import Examiner
from retentive.errors import NotFound, PermissionDenied
from retentive.review.proposals import (
    AFTER,
    BEFORE,
    PROPOSAL,
    REVIEWED,
    Decision,
    Obstacle,
    Outcome,
    Proposal,
    ProposedChange,
    decisions,
    pending,
    text_key,
    text_of,
)
from retentive.storage.contract import (
    Actor,
    Backend,
    Clock,
    NewId,
    Snapshot,
    Transaction,
    as_actor,
    now_us,
    sortable_id,
    to_datetime,
)
from retentive.values.patterns import matches_actor
from retentive.values.replies import Replies, Reply
from retentive.values.settings import Settings
from retentive.values.text import decoded

if TYPE_CHECKING:
    from retentive.review.decisions import Deciding

__all__ = ["Decision", "Obstacle", "Outcome", "Proposal", "ProposedChange", "Review", "is_under_review"]

T = TypeVar("T")
PREFIX = "prop_"


def is_under_review(settings: Settings, who: Actor | None) -> bool:
    """Whether the changes of an actor wait. Those of retentive's own jobs never do."""
    if not settings.review or (who is not None and who.kind == "job"):
        return False
    name = "" if who is None else str(who)
    return any(matches_actor(pattern, name) for pattern in settings.review)


@dataclass(frozen=True, slots=True)
class Review:
    """The proposals of one memory store. Threads may share it; the methods raise `RetentiveError`."""

    backend: Backend
    store_id: str
    settings_of: Callable[[Snapshot], Settings]
    examine: Examiner
    replies: Replies
    clock: Clock = field(default=time.time, kw_only=True)
    new_id: NewId = field(default=sortable_id, kw_only=True)

    # -- for people ------------------------------------------------------------------------------------------

    def pending(self, *, actor: Actor | str | None = None) -> list[Proposal]:
        """The proposals that wait, in the order in which they came; with `actor`, those of this one."""
        who = as_actor(actor)
        found = self.backend.read(self.store_id, pending)
        return [each for each in found if actor is None or each.actor == who]

    def get(self, proposal_id: str) -> Proposal:
        """A proposal that waits. Raises `NotFound`."""
        for proposal in self.pending():
            if proposal.id == proposal_id:
                return proposal
        raise NotFound(f"no proposal {proposal_id} awaits review")

    def texts(self, proposal: Proposal) -> list[tuple[ProposedChange, str | None, str | None]]:
        """Each change with the text that its actor had before it and the text after; None where there is none.

        Of a memory that is to be deleted or renamed the text is the present one. Raises `NotFound` if the proposal
        waits no more.
        """

        def work(snapshot: Snapshot) -> list[tuple[ProposedChange, str | None, str | None]]:
            if snapshot.get_record(PROPOSAL, proposal.id) is None:
                raise NotFound(f"no proposal {proposal.id} awaits review")
            numbered = enumerate(proposal.changes)
            return [(change, *_texts(snapshot, change, text_key(proposal.id, number))) for number, change in numbered]

        return self.backend.read(self.store_id, work)

    def accept(
        self, ids: Iterable[str], *, actor: Actor | str | None, merge: bool = False, force: bool = False
    ) -> Outcome:
        """Make what was proposed, all of it or nothing, each version by the actor who proposed it.

        Guards are asked again. If others changed meanwhile what a proposal changes, that is an obstacle, and nothing
        is changed; `merge` merges such texts line by line, and follows renames; `force` takes the text of the
        proposal, and deletes what is to be deleted whatever it holds now. To accept again what was accepted does
        nothing. Raises `NotFound` for an unknown id, `PermissionDenied` for an actor under review.
        """
        return self._decide(ids, actor, lambda deciding: deciding.accept(merge=merge, force=force))

    def refuse(self, ids: Iterable[str], *, actor: Actor | str | None) -> Outcome:
        """Remove proposals, and those that build on them. Raises as `accept`.

        Nothing of their texts rests in the storage once `Backend.purge` has returned True.
        """
        return self._decide(ids, actor, lambda deciding: deciding.refuse())

    def decisions(self) -> list[Decision]:
        """Who accepted or refused what and when, newest first: the newest 1,000."""
        return self.backend.read(self.store_id, decisions)

    def _decide(self, ids: Iterable[str], actor: Actor | str | None, decide: Callable[[Deciding], Outcome]) -> Outcome:
        from retentive.review.decisions import Deciding, Stopped  # noqa: PLC0415 - few need it

        wanted = (ids,) if isinstance(ids, str) else tuple(dict.fromkeys(ids))
        by, at = as_actor(actor), to_datetime(now_us(self.clock))

        def work(tx: Transaction) -> Outcome:
            settings = self.settings_of(tx)
            if is_under_review(settings, by):
                raise PermissionDenied(f"{by or 'an actor without a name'} is under review, and cannot decide on it")
            if settings.read_only:
                raise PermissionDenied("the memory store is read-only")
            return decide(
                Deciding(tx, wanted, settings=settings, examine=self.examine, by=by, at=at, said=self.replies)
            )

        try:
            return self.backend.write(self.store_id, work)
        except Stopped as stopped:
            return Outcome(obstacles=stopped.obstacles)

    # -- for the engine --------------------------------------------------------------------------------------

    def read(self, work: Callable[[Snapshot], T], who: Actor | None) -> T:
        """Run `work` on one consistent state as an actor sees it."""

        def seen(snapshot: Snapshot) -> T:
            if not is_under_review(self.settings_of(snapshot), who):
                return work(snapshot)
            from retentive.review.overlay import ProposedSnapshot  # noqa: PLC0415 - few need it

            own = [proposal for proposal in pending(snapshot) if proposal.actor == who]
            return work(ProposedSnapshot(snapshot, own) if own else snapshot)

        return self.backend.read(self.store_id, seen)

    def write(
        self, work: Callable[[Transaction, Settings], T], who: Actor | None, *, may_use_reserve: bool = False
    ) -> T:
        """Run `work` for an actor; if it is under review, what `work` records becomes a proposal.

        A reply then says so.
        """
        attempt = _Attempt[T](self, work, who)
        return self.backend.write(self.store_id, attempt, may_use_reserve=may_use_reserve)


class _Attempt(Generic[T]):
    """One write of one actor. It may be run more than once, and makes one proposal."""

    def __init__(self, review: Review, work: Callable[[Transaction, Settings], T], who: Actor | None) -> None:
        self._review, self._work, self._who = review, work, who
        self._id: str | None = None
        self._at = 0
        self._result: list[T] = []

    def __call__(self, tx: Transaction) -> T:
        settings = self._review.settings_of(tx)
        if not is_under_review(settings, self._who):
            return self._work(tx, settings)
        return self._propose(tx, settings)

    def _propose(self, tx: Transaction, settings: Settings) -> T:
        from retentive.review.overlay import ProposedTransaction  # noqa: PLC0415 - few need it

        if self._id is None:
            self._at = now_us(self._review.clock)
            self._id = self._review.new_id(PREFIX, self._at)
        elif self._result and (tx.get_record(PROPOSAL, self._id) or tx.get_record(REVIEWED, self._id)):
            return self._result[0]  # its commit was lost from sight, and had taken place
        own = ProposedTransaction(
            tx, self._who, proposal_id=self._id, at=to_datetime(self._at), max_proposals=settings.max_proposals
        )
        result = self._work(own, settings)
        if own.recorded:
            if isinstance(result, Reply):
                noted = f"{result.text}\n{self._review.replies.awaits_review}"
                result = cast("T", replace(result, text=noted))
            self._result = [result]
        return result


def _texts(snapshot: Snapshot, change: ProposedChange, key: str) -> tuple[str | None, str | None]:
    if change.has_text:
        before = text_of(snapshot, BEFORE, key) if change.operation == "modified" else None
        return before, text_of(snapshot, AFTER, key)
    memory = snapshot.find(change.memory_id)
    data = None if memory is None else snapshot.get(memory.path).data
    text = None if data is None else decoded(data)
    return text, None if change.operation == "deleted" else text
