"""The road of every read: what the actor may see of one consistent state."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from retentive.engine import audit
from retentive.engine.guard import Guard, is_archived
from retentive.engine.operation import REFUSALS, Outcome, Read, Write
from retentive.engine.pending import with_own_proposals
from retentive.engine.visibility import Filtered, assessed, within
from retentive.errors import Refused, RetentiveError
from retentive.storage.contract import Snapshot
from retentive.values.records import Invocation

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore

R = TypeVar("R")


def read(store: StoreCore, operation: Read[R] | Write[R], call: Invocation, *, is_audited: bool = True) -> Outcome[R]:
    """Run a read, or the dry run of a write, on one consistent state of a store.

    A refusal is part of the outcome. A failure of the storage is raised. Safe from any thread. The audit entry, if the
    store is audited, is written before this function returns; a step of a larger operation has no entry of its own.
    """
    who = call.actor or store.actor

    def work(snapshot: Snapshot) -> Outcome[R]:
        settings = store.settings_of(snapshot)
        view = snapshot
        try:
            # A person's edits of plain files become versions first, and this state shows them.
            if operation.needs_external_edits:
                store.record_external_edits(snapshot)

            # A dry run decides as the write does.
            if isinstance(operation, Write):
                if is_archived(snapshot) and not operation.allowed_when_archived:
                    raise Refused("archived")
                present = with_own_proposals(snapshot, settings, who)
                plan = operation.work(within(present, store.scope_of_writes), Guard(store, present, settings, call))
                return Outcome(settings, plan.result)

            # What the actor sees: without hidden memories, with its own proposals, within the paths of its key.
            hiding = assessed(snapshot, settings, who, store.hides)
            if hiding is not None and not operation.is_filtered and (store.hides_history or not operation.sees_all):
                view = Filtered(view, hiding.shows, history=store.hides_history)
            if not operation.sees_all:
                view = with_own_proposals(view, settings, who)
            if not operation.is_filtered:
                view = within(view, store.scope)
            return Outcome(settings, operation.work(view))
        except REFUSALS as refusal:
            return Outcome(settings, error=refusal)

    try:
        outcome = store.backend.read(store.id, work, first_path=operation.first_path)
    except RetentiveError as failure:
        settings = store.known_settings[1]
        if is_audited and settings is not None and settings.audit:
            with suppress(RetentiveError):  # the caller gets the original error, not this one
                audit.add_alone(store, operation, call, Outcome(settings, error=failure))
        raise
    if is_audited and outcome.settings.audit:
        audit.add_alone(store, operation, call, outcome)
    return outcome
