"""Review API: list, show, accept and refuse the proposals of actors under review."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from retentive.engine.core import StoreCore
from retentive.engine.operation import Read
from retentive.errors import NotFound
from retentive.review.decisions import Decide, DecisionBlocked
from retentive.review.proposals import (
    AFTER,
    BEFORE,
    Decision,
    DecisionOutcome,
    Obstacle,
    Proposal,
    ProposedChange,
    decisions,
    pending,
    text_key,
    text_of,
)
from retentive.storage.contract import Actor, Snapshot, as_actor, now_us, to_datetime
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
        with self._context.checking("review.list"):
            who = as_actor(actor)
        found = self._context.result_of(Read("review.list", pending))
        return [each for each in found if actor is None or each.actor == who]

    def show(self, proposal_id: str) -> tuple[Proposal, Texts]:
        """Return a pending proposal, and each of its changes with the text before and after the change.

        For a deletion or a rename, the text before the change is the current text of the memory. Raises `NotFound` if
        the proposal is unknown or already decided.
        """

        def work(snapshot: Snapshot) -> tuple[Proposal, Texts]:
            found = next((each for each in pending(snapshot) if each.id == proposal_id), None)
            if found is None:
                raise NotFound(f"there is no proposal {proposal_id} that awaits review")
            keys = (text_key(found.id, number) for number in range(len(found.changes)))
            return found, [(each, *_texts(snapshot, each, key)) for each, key in zip(found.changes, keys, strict=True)]

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
        wanted, context = _ids(ids), self._context
        at = to_datetime(now_us(context.clock))
        with context.checking("review.accept" if is_accepted else "review.refuse", actor):
            proposer = as_actor(proposed_by)
        operation = Decide(wanted, is_accepted, at, context.replies, proposed_by=proposer, **options)
        try:
            return context.result_of(operation, actor)
        except DecisionBlocked as blocked:
            return DecisionOutcome(obstacles=blocked.obstacles)


def _ids(ids: Iterable[str] | None) -> tuple[str, ...] | None:
    return (ids,) if isinstance(ids, str) else None if ids is None else tuple(dict.fromkeys(ids))


def _texts(snapshot: Snapshot, change: ProposedChange, key: str) -> tuple[str | None, str | None]:
    if change.has_text:
        before = text_of(snapshot, BEFORE, key, change.base_sha256) if change.operation == "modified" else None
        return before, text_of(snapshot, AFTER, key, change.sha256)
    memory = snapshot.find(change.memory_id)
    data = None if memory is None else snapshot.get(memory.path).data
    text = None if data is None else decoded(data)
    return text, None if change.operation == "deleted" else text
