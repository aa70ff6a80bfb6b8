"""The pipeline: runs every operation on a memory store.

A read runs directly on a consistent state. A write passes through `STAGES` in one transaction. No other code writes
memories.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from retentive.audit.stage import audited, entry_of_failure, needs_entry
from retentive.engine.attempt import Attempt, Proceed
from retentive.engine.context import StoreContext
from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.handlers import CommandResult, Viewed
from retentive.engine.operation import REFUSALS, AuditOnly, Operation, Outcome, ReadOperation, Write, WriteOperation
from retentive.engine.reach import ReachedTransaction
from retentive.engine.read import read
from retentive.engine.rendering import Say, error_reply, notes_of, paths_named, rendered
from retentive.engine.repeated_requests import once_per_request
from retentive.engine.write import write as write_
from retentive.errors import PermissionDenied, Refused, RetentiveError, StoreFull, error_of
from retentive.history.clocks import note_clock_behind
from retentive.review.stage import under_review
from retentive.storage.contract import Actor, Transaction
from retentive.values.properties import properties_of
from retentive.values.records import Invocation, Written
from retentive.values.replies import Reply

if TYPE_CHECKING:
    from retentive.engine.batch import Batch

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


def run(context: StoreContext, operation: Operation[R], invocation: Invocation) -> Outcome[R]:
    """Run an operation and return its outcome. The changes are durable when this function returns.

    An error of the request, such as an invalid path, is part of the outcome. A failure of the storage is raised.
    """
    if context.scope and not operation.for_paths:
        needed = f"the operation {operation.name} needs access to the whole memory store"
        why = f"this caller has access to only some paths, but {needed}"
        read(context, AuditOnly(operation.name, PermissionDenied(why)), invocation)  # raises the error
        raise AssertionError
    if operation.is_read:
        return read(context, cast("ReadOperation[R]", operation), invocation)
    if isinstance(operation, Write):
        return write_(context, operation, invocation)
    write = cast("WriteOperation[R]", operation)
    attempt = Attempt(context, write, invocation, invocation.actor or context.actor, context.examiner)
    try:
        outcome = context.backend.write(
            context.id, partial(_through_stages, attempt), may_use_reserve=write.may_use_reserve
        )
    except RetentiveError as error:
        rest = write.without(error)
        if rest is not None:
            return run(context, rest, invocation)
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


class StoreCore(StoreContext):
    """Memory store as used inside this package. `MemoryStore` and the integrations run their operations through it."""

    def run(self, operation: Operation[R], invocation: Invocation) -> Outcome[R]:
        """Run an operation through all stages. Raises storage errors."""
        return run(self, operation, invocation)

    def reply(self, operation: Operation[R], invocation: Invocation) -> Reply:
        """Run an operation and return the reply for a model. A failure of the storage becomes an error reply too."""
        try:
            outcome = run(self, operation, invocation)
            result = outcome.result
            if isinstance(result, Viewed) and result.memory is not None:
                self.accesses.note(self.id, result.memory)
            return rendered(self, operation, outcome)
        except RetentiveError as error:
            return error_reply(Say(self.replies, self.redacted), error, paths_named(operation))

    def refused(self, name: str | None, error: Refused, *, actor: Actor | str | None = None) -> Reply:
        """Return the error reply to a malformed tool call. The audit log gets an entry, as for any other call."""
        return self.reply(AuditOnly(name, error), self.invocation(actor))

    def written(self, operation: Operation[CommandResult], invocation: Invocation) -> Written:
        """Run a write operation for an application, and describe the change.

        If the operation is refused, raises an exception with the sentence of the error reply. Also raises storage
        errors.
        """
        try:
            outcome: Outcome[CommandResult] = run(self, operation, invocation)
            outcome.value()
        except Refused as refusal:
            raise self.error(refusal, operation) from None
        return self._written(operation, outcome)

    def _written(self, operation: Operation[CommandResult], outcome: Outcome[CommandResult]) -> Written:
        result, recorded = outcome.value(), outcome.recorded
        memory = result.memory
        path = paths_named(operation)[-1].text if memory is None else memory.path
        memory_id = memory.id if memory is not None else recorded[-1].memory_id if len(recorded) == 1 else ""
        notes = notes_of(self, outcome)
        version_id = outcome.version_id or result.version_id
        return Written(path, version_id, len(recorded), outcome.proposed, notes, memory_id, memory)

    def written_together(self, batch: Batch, invocation: Invocation) -> list[Written]:
        """Run a batch, and return one `Written` for each of its commands. Either all commands are applied or none.

        If commands are refused, raises the error of the first refused command, with the `position` of this command.
        Also raises storage errors.
        """
        try:
            outcome = run(self, batch, invocation)
            steps = outcome.value()
        except Refused as refusal:
            raise self.error(refusal, batch.commands[refusal.position or 0]) from None
        return [
            self._written(
                command,
                Outcome(outcome.settings, step.result, recorded=step.recorded, proposed=outcome.proposed),
            )
            for command, step in zip(batch.commands, steps, strict=True)
        ]

    def found(self, operation: Operation[R], actor: Actor | str | None = None) -> R:
        """Run an operation for an application, and return its result.

        If it is refused, raises an exception with the sentence of the error reply. Also raises storage errors.
        """
        try:
            return self.result_of(operation, actor)
        except Refused as refusal:
            raise self.error(refusal, operation) from None

    def error(self, refusal: Refused, operation: Operation[R]) -> RetentiveError:
        """Return the exception for a refused operation. Its message is the sentence of the error reply."""
        said = error_reply(Say(self.replies, self.redacted), refusal, paths_named(operation))
        error = error_of(said.text, said.code)
        error.conflicting, error.position = refusal.conflicting, refusal.position
        return error

    def peek(self, operation: ReadOperation[R]) -> R:
        """Run a read that is one step of a larger operation, and return its result. Raises `RetentiveError`.

        The read gets no audit entry, because the entry of the larger operation covers it.
        """
        return read(self, operation, self.invocation(), is_audited=False).value()

    def follow_up(self, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        """Run bookkeeping in a separate transaction, without the stages. Bookkeeping changes no memory."""
        return self.backend.write(self.id, work, may_use_reserve=may_use_reserve)
