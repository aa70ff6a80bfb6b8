"""The one road: every operation on a memory store runs through `STAGES`, in this order, and nothing else writes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar

from retentive.audit.stage import audited, entry_of_failure, entry_of_read, needs_entry
from retentive.engine.context import StoreContext
from retentive.engine.idempotency import forget_now_and_then, idempotent, is_replayable
from retentive.engine.operation import REFUSALS, Attempt, Invocation, Operation, Outcome, ReadOperation, WriteOperation
from retentive.engine.writer import GuardedWriter
from retentive.errors import RetentiveError, StoreFull
from retentive.review.stage import seen_by, under_review
from retentive.storage.contract import Snapshot, Transaction

R = TypeVar("R")
T = TypeVar("T")
Proceed: TypeAlias = Callable[[Attempt[Any]], Outcome[Any]]
Stage: TypeAlias = Callable[[Proceed, Attempt[Any]], Outcome[Any]]


def guarded(proceed: Proceed, attempt: Attempt[Any]) -> Outcome[Any]:
    """Stage: give the operation the one writer that changes memories, which holds every rule about writing."""
    attempt.writer = GuardedWriter(attempt.tx, attempt.settings, attempt.actor, attempt.context.examination)
    return proceed(attempt)


STAGES: tuple[Stage, ...] = (audited, idempotent, under_review, guarded)


def _applied(attempt: Attempt[Any]) -> Outcome[Any]:
    """The end of the road: the operation itself."""
    if attempt.failure is not None:
        raise attempt.failure
    assert attempt.writer is not None
    if attempt.operation.needs_external_edits:
        attempt.context.record_external_edits(attempt.tx)
    result = attempt.operation.apply(attempt.tx, attempt.writer)
    return Outcome(attempt.settings, result, recorded=attempt.writer.recorded)


def _composed(stages: tuple[Stage, ...]) -> Proceed:
    road: Proceed = _applied
    for stage in reversed(stages):
        road = partial(stage, road)
    return road


_ROAD = _composed(STAGES)


def run(context: StoreContext, operation: Operation[R], invocation: Invocation) -> Outcome[R]:
    """Run an operation; its outcome. When it returns, what was recorded is durable.

    What was wrong with the request is the error of the outcome; failures of storage are raised.
    """
    if isinstance(operation, ReadOperation):
        return _read(context, operation, invocation)
    assert isinstance(operation, WriteOperation)
    attempt = Attempt(context, operation, invocation, invocation.actor or context.actor)
    try:
        outcome = _write(attempt)
    except RetentiveError as error:
        outcome = _failed(attempt, error)
    if attempt.remembered is not None:
        forget_now_and_then(context)
    return outcome


def follow_up(context: StoreContext, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
    """Run bookkeeping that belongs to an operation already recorded, or to none: it changes no memory."""
    return context.backend.write(context.id, work, may_use_reserve=may_use_reserve)


def _write(attempt: Attempt[R]) -> Outcome[R]:
    def work(tx: Transaction) -> Outcome[R]:
        attempt.begin(tx)
        return _ROAD(attempt)

    backend, store_id = attempt.context.backend, attempt.context.id
    return backend.write(store_id, work, may_use_reserve=attempt.operation.may_use_reserve)


def _failed(attempt: Attempt[R], error: RetentiveError) -> Outcome[R]:
    """The outcome of a refusal that came after changes were recorded; all of them were rolled back.

    A second transaction writes down the refusal where something must remember it. Failures of storage are raised again.
    """
    if not isinstance(error, REFUSALS):
        refused = attempt.outcome
        if isinstance(error, StoreFull) and refused is not None and refused.error and not needs_entry(attempt):
            return refused  # there is no room to remember a refusal, and nothing was done
        entry_of_failure(attempt, error)
        raise error
    if not attempt.has_begun:
        raise error  # the whole memory store is gone
    if attempt.failure is None and (needs_entry(attempt) or is_replayable(attempt)):
        attempt.failure = error
        return _write(attempt)
    return Outcome(attempt.settings, error=error)


def _read(context: StoreContext, operation: ReadOperation[R], invocation: Invocation) -> Outcome[R]:
    actor = invocation.actor or context.actor

    def work(snapshot: Snapshot) -> Outcome[R]:
        settings = context.settings_of(snapshot)
        seen = seen_by(actor, snapshot, settings) if settings.review else snapshot
        try:
            if operation.needs_external_edits:
                context.record_external_edits(snapshot)
            return Outcome(settings, operation.apply(seen, settings))
        except REFUSALS as error:
            return Outcome(settings, error=error)

    outcome = context.backend.read(context.id, work)
    if outcome.settings.audit:
        entry_of_read(context, operation, invocation, outcome)
    return outcome
