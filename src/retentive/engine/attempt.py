"""State of a write operation while it passes through the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from retentive.engine.context import StoreContext
from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.operation import Outcome, WriteOperation
from retentive.errors import RetentiveError
from retentive.redaction.examiner import TextExaminer
from retentive.storage.contract import Snapshot, Transaction
from retentive.values.commands import paths_of
from retentive.values.records import Actor, Invocation
from retentive.values.settings import Settings

R = TypeVar("R")


@dataclass(slots=True, eq=False)
class Attempt(Generic[R]):
    """State of one write operation while it passes through the stages.

    The transaction may run more than once. `tx`, `settings` and `writer` belong to the current run. `outcome`,
    `remembered`, `proposal` and `entry` contain what an earlier run stored. If the reply to the commit of that run was
    lost, the next run looks for these records to determine whether the commit succeeded.

    If `failure` is set, the last stage raises this error instead of applying the operation. This is used if a refusal
    came after changes: the changes are rolled back, and a second transaction writes the audit entry. `examiner` finds
    sensitive values in the texts that the operation writes. `view` is the store as the actor sees it; it is set only if
    the call names a run.
    """

    context: StoreContext
    operation: WriteOperation[R]
    invocation: Invocation
    actor: Actor | None
    examiner: TextExaminer
    failure: RetentiveError | None = None
    has_begun: bool = False
    tx: Transaction = field(init=False)
    view: Snapshot = field(init=False)
    settings: Settings = field(init=False)
    writer: GuardedWriter | None = None
    outcome: Outcome[R] | None = None
    remembered: str | None = None
    proposal: tuple[str, int] | None = None
    entry: tuple[int, str] | None = None

    @property
    def first_path(self) -> str | None:
        """Path of the entry that the operation reads first, or None.

        For a batch of writes, a database server reads the entries at the first paths of all writes at once.
        """
        command = getattr(self.operation, "command", None)
        path = None if command is None else paths_of(command)[0]
        return None if path is None or path.is_root else path.text

    @property
    def has_written(self) -> bool:
        """True if this run has passed changes to the storage. If a refusal follows, they must be rolled back."""
        return self.writer is not None and self.writer.tried


Proceed: TypeAlias = Callable[[Attempt[Any]], Outcome[Any]]
"""Function that a stage calls to run all stages after it."""
