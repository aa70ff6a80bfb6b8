"""The road of every change: decide, then record."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from retentive.engine import audit, repeats
from retentive.engine.guard import Guard, is_archived
from retentive.engine.lists import record_event
from retentive.engine.operation import REFUSALS, Outcome, Plan, Write
from retentive.engine.pending import NEW, are_additions, propose, review_tier, with_own_proposals
from retentive.engine.visibility import within
from retentive.errors import PermissionDenied, Refused, RetentiveError, StoreFull
from retentive.storage.contract import (
    Actor,
    Change,
    Created,
    Imported,
    Recorded,
    Snapshot,
    Transaction,
    Version,
    now_us,
    sortable_id,
    to_datetime,
)
from retentive.values.records import Invocation, time_in_id

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore

R = TypeVar("R")


def write(store: StoreCore, operation: Write[R], call: Invocation) -> Outcome[R]:
    """Run an operation that may change a store. What it changed is durable when this function returns.

    A refusal is part of the outcome, and changes nothing. A failure of the storage is raised. Safe from any thread.
    """
    who = call.actor or store.actor
    known_as = repeats.identities(operation, call, who, store.id)
    if store.before_write is not None:
        store.before_write(store.info)
    latest: Outcome[R] | None = None  # of the transaction so far; None before its settings were read

    def work(tx: Transaction) -> Outcome[R]:
        nonlocal latest
        settings = store.settings_of(tx)
        latest, proposed = Outcome(settings), None

        def finished(outcome: Outcome[R]) -> Outcome[R]:
            nonlocal latest
            latest = outcome
            if settings.audit or store.settings_of(tx).audit:  # the operation may have turned the log on
                audit.add(tx, store, operation, call, outcome)
            return outcome

        def decided(view: Snapshot) -> tuple[Guard, Plan[R]]:
            guard = Guard(store, view, settings, call)
            return guard, operation.work(within(view, store.scope_of_writes), guard)

        try:
            # A command or request that ran before changes nothing, and gets its first result.
            present = with_own_proposals(tx, settings, who)
            known = repeats.find(tx, present, operation, call, known_as, settings=settings, now=store.clock())
            if known is not None:
                return finished(known)

            # May this actor run this operation now?
            tier = review_tier(settings, who)
            waits = operation.under_review == "always" or (operation.under_review != "skip" and tier != "none")
            if waits and operation.under_review == "refuse":
                raise PermissionDenied(
                    f"changes by {who or 'an actor without a name'} need review, but this one cannot be proposed; "
                    "an actor whose changes need no review must make it"
                )
            if is_archived(tx) and not operation.allowed_when_archived:
                raise Refused("archived")

            # A person's edits of plain files become versions first. They stay if the operation is refused.
            if operation.needs_external_edits:
                store.record_external_edits(tx)

            # Decide, as the actor sees the store. Quarantined memories are in it, because the guard keeps them from
            # being overwritten. Nothing of the plan has been recorded if this is refused.
            present = with_own_proposals(tx, settings, who) if waits else tx
            guard, plan = decided(present)
            if waits and tier == "changes" and are_additions(tx, present, guard, plan.changes):
                direct = decided(tx) if present is not tx else (guard, plan)  # what its proposals free is not free yet
                if are_additions(tx, present, direct[0], direct[1].changes):
                    (guard, plan), present, waits = direct, tx, False
            if waits and plan.changes:
                proposed = propose(tx, present, plan.changes, guard, at_us=now_us(store.clock))
        except REFUSALS as refusal:
            return finished(Outcome(settings, error=refusal))

        # Record the changes as versions, unless they became a proposal.
        if proposed is None:
            recorded = _record_changes(tx, plan, who, now_us(store.clock))
        else:
            recorded, present = proposed, with_own_proposals(tx, settings, who)
        if plan.afterwards is not None:  # the result and the effects depend on what was recorded
            plan = plan.afterwards(within(present, store.scope_of_writes), recorded)
        _record_effects(tx, plan, guard, who)
        outcome = Outcome(settings, plan.result, recorded=recorded, proposed=proposed is not None)
        repeats.keep(tx, operation, known_as, outcome, store.clock())
        return finished(outcome)

    try:
        outcome = store.backend.write(
            store.id, work, may_use_reserve=operation.only_removes, first_path=operation.first_path
        )
    except REFUSALS as refusal:  # by the storage, which rolled everything back
        if latest is None:
            raise  # the memory store was deleted
        outcome = Outcome(latest.settings, error=refusal)
        if outcome.settings.audit:
            audit.add_alone(store, operation, call, outcome)
    except RetentiveError as failure:
        if latest is None or not latest.settings.audit:
            raise
        is_refused = latest.error is not None and isinstance(failure, StoreFull)
        with suppress(RetentiveError):  # the caller gets the original error, not this one
            audit.add_alone(store, operation, call, latest if is_refused else Outcome(latest.settings, error=failure))
            if is_refused:
                return latest  # the full disk only prevented the entry of a refusal, which changed nothing
        raise
    if store.after_write is not None:
        store.after_write(outcome.recorded)
    return outcome


def _record_changes(tx: Transaction, plan: Plan[Any], who: Actor | None, at_us: int) -> list[Recorded]:
    """Record the changes of a plan as versions.

    A memory that an earlier change of the plan made or changed is looked up, because it is not as it was decided upon.
    """
    recorded: list[Recorded] = []
    waiting: list[Change] = []
    changed: set[str] = set()
    author, revision = who, tx.state.revision + 1
    for number, change in enumerate(plan.changes):
        before, its_author = change.before, who if plan.authors is None else plan.authors[number]
        is_new = before is not None and before.id.startswith(NEW)
        is_stale = is_new or (before is not None and before.id in changed)
        if waiting and (is_stale or its_author != author):
            recorded += tx.record(waiting, author)
            waiting = []
        author = its_author
        if before is not None and is_stale:
            before = tx.find(recorded[int(before.id.removeprefix(NEW))].memory_id if is_new else before.id)
            assert before is not None
            assert not isinstance(change, Created)
            change = replace(change, before=before)  # noqa: PLW2901 - the same change
        if isinstance(change, Imported):
            recorded += tx.record(waiting, author)
            recorded += tx.record([replace(change, version=_next_version(tx, change.version, at_us, revision))], None)
            waiting = []
            changed.add(change.version.memory_id)
            continue
        waiting.append(change)
        if before is not None:
            changed.add(before.id)
        if isinstance(change, Created) and change.again is not None:
            changed.add(change.again.id)
    return recorded + (tx.record(waiting, author) if waiting else [])


def _next_version(tx: Transaction, version: Version, at_us: int, revision: int) -> Version:
    """Return a version from elsewhere as the next one of this store. It keeps its time, unless it is in the future."""
    newest = next(tx.versions(limit=1), None)
    at_us = max(at_us, 0 if newest is None else (time_in_id(newest.id) or 0) + 1)
    at = min(version.created_at, to_datetime(at_us))
    return replace(version, id=sortable_id("memver_", at_us), created_at=at, revision=revision)


def _record_effects(tx: Transaction, plan: Plan[Any], guard: Guard, who: Actor | None) -> None:
    if plan.metadata:
        tx.set_metadata(**plan.metadata)
    if plan.redact:
        tx.redact(plan.redact, who)
    if plan.prune:
        tx.prune(plan.prune)
    for kind, key, value in (*guard.records, *plan.records):
        tx.put_record(kind, key, value)
    if plan.event is not None:
        kind_of_event, ids = plan.event
        record_event(tx, kind_of_event, who, ids)
