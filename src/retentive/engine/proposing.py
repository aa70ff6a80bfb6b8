"""Changes by actors under review: they become proposals, which their actor already sees applied."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from retentive.engine.events import record_event
from retentive.engine.pending import NEW, Pending, Placed
from retentive.errors import PermissionDenied, Refused
from retentive.review.proposals import (
    AFTER,
    BEFORE,
    Proposal,
    ProposedChange,
    ProposedOperation,
    pending,
    proposal_record,
    text_key,
    text_of,
)
from retentive.storage.contract import (
    Actor,
    Again,
    Change,
    Created,
    Deleted,
    Imported,
    Memory,
    Moved,
    Recorded,
    Snapshot,
    Transaction,
    Updated,
    sortable_id,
    to_datetime,
)
from retentive.values.patterns import matches_actor
from retentive.values.settings import Settings
from retentive.values.text import decoded


def is_under_review(settings: Settings, actor: Actor | None) -> bool:
    """Return whether changes by the actor become proposals. Changes by an actor of the kind `job` never do."""
    if not settings.review or (actor is not None and actor.kind == "job"):
        return False
    name = "" if actor is None else str(actor)
    return any(matches_actor(pattern, name) for pattern in settings.review)


def with_own_proposals(snapshot: Snapshot, settings: Settings, actor: Actor | None) -> Snapshot:
    """Return the snapshot as an actor sees it. For an actor under review, the actor's pending proposals are applied."""
    if not is_under_review(settings, actor):
        return snapshot
    own = [proposal for proposal in pending(snapshot) if proposal.actor == actor]
    return with_proposals(snapshot, own) if own else snapshot


def with_proposals(snapshot: Snapshot, proposals: Iterable[Proposal]) -> Pending:
    """Return the snapshot with proposals applied. A proposal that only renames a memory shows its current text."""
    view = Pending(snapshot)
    for proposal in proposals:
        for number, change in enumerate(proposal.changes):
            view.place(change.memory_id, _placed(snapshot, view, change, text_key(proposal.id, number), proposal.at))
    return view


def _placed(snapshot: Snapshot, view: Pending, change: ProposedChange, key: str, at: datetime) -> Placed:
    if change.path is None:
        return Placed(None)
    if change.has_text:
        size, digest = change.size_bytes or 0, change.sha256 or ""
        times = change.created_at, at
        memory = Memory(change.memory_id, change.path, size, digest, key, *times, None, change.provenance_text)
        return Placed(memory, lambda: text_of(snapshot, AFTER, key, change.sha256).encode())
    known = view.placed(change.memory_id)
    if known is None:
        present = snapshot.find(change.memory_id)
        at_path = "" if present is None else present.path
        known = Placed(present, lambda: snapshot.get(at_path).data or b"")
    if known.memory is None:
        return known
    # Callers cache by version id, so the id must change whenever the current text changes.
    inner = known.memory.version_id.rpartition(".")[2]
    version_id = f"{key}.{inner}" if inner.startswith("memver_") else key
    moved = replace(known.memory, path=change.path, version_id=version_id, updated_at=at, seal=None)
    return replace(known, memory=moved)


def propose(
    tx: Transaction, view: Snapshot, changes: Sequence[Change], settings: Settings, actor: Actor | None, *, at_us: int
) -> list[Recorded]:
    """Record changes as a proposal. Return the ids under which its actor sees them.

    `view` is the store with the proposals of the actor. Raises `Refused` if too many wait, and then records nothing.
    """
    waiting = pending(view)
    own = sum(each.actor == actor for each in waiting)
    limit, limit_each = settings.max_proposals, settings.max_proposals_each
    if limit_each and own >= limit_each:
        raise Refused("too_many_own_proposals", present=own, limit=limit_each)
    if limit and len(waiting) >= limit:
        raise Refused("too_many_proposals", present=len(waiting), limit=limit)
    proposal_id, at, after = sortable_id("prop_", at_us), to_datetime(at_us), Pending(view)
    proposed: list[ProposedChange] = []
    records: list[tuple[str, str, str]] = []
    for number, change in enumerate(changes):
        key, before, digest, size = text_key(proposal_id, number), change.before, None, None
        operation: ProposedOperation = "modified"
        if change.data is not None:
            digest, size = hashlib.sha256(change.data).hexdigest(), len(change.data)
            records.append((AFTER, key, change.data.decode()))
            if before is not None:
                records.append((BEFORE, key, decoded(after.get(before.path).data)))
        match change:
            case Created(again=again):
                operation = "created"
                new = again or Again(sortable_id("mem_", at_us), at)
                memory_id, born = new.id, new.created_at
            case Deleted(memory) | Moved(memory) | Updated(memory):
                operation = "deleted" if change.path is None else "renamed" if digest is None else "modified"
                is_new = memory.id.startswith(NEW)
                memory_id = proposed[int(memory.id.removeprefix(NEW))].memory_id if is_new else memory.id
                born = at if is_new else memory.created_at
            case Imported():
                raise PermissionDenied("an actor under review cannot import versions")
        path, sha256 = (None, None) if before is None else (before.path, before.sha256)
        made = change.path, size, digest, sha256, born, change.provenance_text
        proposed.append(ProposedChange(operation, memory_id, path, *made))
        after.add([change])
    proposal = Proposal(proposal_id, actor, at, tuple(proposed), waiting[-1].number + 1 if waiting else 1)
    for record in (proposal_record(proposal), *records):
        tx.put_record(*record)
    record_event(tx, "proposed", actor, [proposal_id])
    return [Recorded(change.memory_id, text_key(proposal_id, number)) for number, change in enumerate(proposed)]
