"""The pipeline: runs every operation on a memory store.

A read runs directly on a consistent state. A write passes through `STAGES` in one transaction. No other code writes
memories.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from retentive.audit.stage import audited, entry_of_failure, needs_entry
from retentive.engine.attempt import Attempt, Proceed
from retentive.engine.core import OLD, StoreCore
from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.operation import REFUSALS, Outcome, WriteOperation
from retentive.engine.reach import ReachedTransaction
from retentive.engine.repeated_requests import once_per_request
from retentive.errors import Refused, RetentiveError, StoreFull
from retentive.history.clocks import note_clock_behind
from retentive.review.stage import under_review
from retentive.storage.contract import Transaction
from retentive.values.properties import properties_of
from retentive.values.records import Invocation

if TYPE_CHECKING:
    pass

R = TypeVar("R")
T = TypeVar("T")
Stage: TypeAlias = Callable[[Proceed, Attempt[Any]], Outcome[Any]]


def applied(_: Proceed, attempt: Attempt[Any]) -> Outcome[Any]:
    """Last stage: apply the operation and return its outcome.

    The operation changes memories only through a `GuardedWriter`, which checks each change with all guards.
    """
    operation, context = attempt.operation, attempt.context
    who = attempt.actor, attempt.examiner, attempt.invocation
    attempt.writer = writer = GuardedWriter(attempt.tx, attempt.settings, *who)
    writer.api_key_id = context.api_key_id
    if attempt.failure is not None:
        raise attempt.failure
    properties = attempt.tx.properties
    if properties is not None and properties_of(properties).archived_at is not None:
        if not operation.allowed_when_archived:
            raise Refused("archived")
        writer.is_archived = True
    if attempt.settings.trust or attempt.settings.quarantine:
        from retentive.engine.trust.overlay import HiddenMemories  # noqa: PLC0415 - rarely needed

        writer.hidden = HiddenMemories(attempt.tx, attempt.settings, attempt.actor)
    if operation.needs_external_edits:
        context.record_external_edits(attempt.tx)
    tx = attempt.tx
    if context.scope:
        writer.limit_to(context.scope)
        tx = ReachedTransaction(tx, context.scope)
    result = operation.apply(tx, writer)
    note_clock_behind(tx, writer.recorded, context.clock())
    return Outcome(attempt.settings, result, recorded=writer.recorded)


STAGES: tuple[Stage, ...] = (audited, once_per_request, under_review, applied)
"""The stages in the order in which they start. Each calls the next one. A write skips the stages it does not need."""
_ONLY_APPLIED = (False,) * (len(STAGES) - 1) + (True,)


def run_old(context: StoreCore, operation: WriteOperation[R], invocation: Invocation) -> Outcome[R]:
    """Run an operation and return its outcome. The changes are durable when this function returns.

    An error of the request, such as an invalid path, is part of the outcome. A failure of the storage is raised.
    """
    write = operation
    attempt = Attempt(context, write, invocation, invocation.actor or context.actor, context.examiner)
    try:
        outcome = context.backend.write(
            context.id, partial(_through_stages, attempt), may_use_reserve=write.may_use_reserve
        )
    except RetentiveError as error:
        rest = write.without(error)
        if rest is not None:
            return run_old(context, rest, invocation)
        outcome = _failed(attempt, error)
    if context.after_write is not None:
        context.after_write()
    return outcome


def _through_stages(attempt: Attempt[R], tx: Transaction) -> Outcome[R]:
    """Run the stages that a write needs. The backend calls this function again if it repeats the transaction."""
    attempt.tx, attempt.writer = tx, None
    first = attempt.operation.first_path
    if first is not None:
        tx.expect(first)
    text, settings = attempt.context.known_settings
    if settings is None or text != tx.settings:
        settings = attempt.context.settings_of(tx)
    attempt.settings, attempt.has_begun, operation = settings, True, attempt.operation
    call = attempt.invocation
    needed = (
        settings.audit or operation.switches_audit,
        call.request is not None,
        bool(settings.review) and operation.under_review != "skip",
        True,
    )
    road: Any = None
    if needed == _ONLY_APPLIED:
        return STAGES[-1](road, attempt)
    for stage in reversed(tuple(compress(STAGES, needed))):
        road = partial(stage, road)
    outcome: Outcome[R] = road(attempt)
    return outcome


def _failed(attempt: Attempt[R], error: RetentiveError) -> Outcome[R]:
    """Return the outcome of a write whose transaction raised `error` and was rolled back.

    `error` is a refusal or a failure of the storage. If a refusal needs an audit entry, a second transaction writes it.
    A failure of the storage is raised again, after its audit entry is written.
    """
    if not isinstance(error, REFUSALS):
        refused = attempt.outcome
        if isinstance(error, StoreFull) and refused is not None and refused.error is not None:
            if entry_of_failure(attempt, refused.error):
                return refused  # the full disk only prevented recording the refusal, and the refusal changed nothing
        else:
            entry_of_failure(attempt, error)
        raise error
    if not attempt.has_begun:
        raise error  # the memory store was deleted
    if attempt.failure is None and needs_entry(attempt):
        attempt.failure = error
        context = attempt.context
        return context.backend.write(
            context.id, partial(_through_stages, attempt), may_use_reserve=attempt.operation.may_use_reserve
        )
    return Outcome(attempt.settings, error=error)


OLD.append(run_old)
