"""Operations on a memory store as values, the invocation that asks for one, and its outcome."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from retentive.errors import Conflict, InvalidInput, NotFound, Refused, RetentiveError
from retentive.values.records import Actor, Recorded

if TYPE_CHECKING:
    from retentive.engine.writer import GuardedWriter
    from retentive.storage.contract import Snapshot, Transaction
    from retentive.values.settings import Settings

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class RolledBack(RetentiveError):
    """Carries the result of a dry run out of a transaction that is rolled back."""

    code = "dry_run"

    def __init__(self, result: object) -> None:
        super().__init__("dry run")
        self.result = result


REFUSALS = (RolledBack, Refused, InvalidInput, NotFound, Conflict)
"""Errors of the request itself. All others are failures of storage, or of the caller's rights."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call: who asks, under which tool_use id, and through which integration.

    Without an actor, the actor the store was opened with counts.
    """

    actor: Actor | None = None
    tool_use_id: str | None = None
    integration: str = "python"


class Operation(ABC, Generic[R_co]):
    """One thing that can be asked of a memory store. Subclasses are frozen dataclasses.

    `name` is what the audit log calls it. `needs_external_edits`: external edits of plain files are recorded first, so
    that the operation sees them.
    """

    __slots__ = ()
    name: str | None
    needs_external_edits: ClassVar[bool] = False

    def paths(self) -> tuple[str, ...]:
        """The canonical paths it names, for the audit log."""
        return ()

    def facts(self, result: Any) -> Mapping[str, object]:
        """What its audit entry says of a result, besides the versions it made. Never a text or a path."""
        return {}


class ReadOperation(Operation[R_co]):
    """An operation that changes nothing."""

    __slots__ = ()

    @abstractmethod
    def apply(self, snapshot: Snapshot, settings: Settings) -> R_co:
        """The result, from one consistent state as the actor sees it. Raises `RetentiveError`."""


class WriteOperation(Operation[R_co]):
    """An operation that changes memories, history or settings, in one transaction.

    `may_use_reserve`: it deletes, and may use the space reserved for a full disk. `under_review`: what an actor under
    review gets: a proposal, a refusal, or (`skip`) the operation as it is. `switches_audit`: it may turn the audit log
    on. `is_replayable`: repeated under the same tool_use id, it gets its first outcome again.
    """

    __slots__ = ()
    may_use_reserve: bool = False
    under_review: ClassVar[Literal["propose", "refuse", "skip"]] = "propose"
    switches_audit: ClassVar[bool] = False
    is_replayable: ClassVar[bool] = False

    @abstractmethod
    def apply(self, tx: Transaction, writer: GuardedWriter) -> R_co:
        """Record the changes; the result. May run more than once. Raises `RetentiveError`."""


@dataclass(slots=True)
class Outcome(Generic[R]):
    """The outcome of an operation: its result or its error, and what was recorded.

    `repeated`: the reply of an earlier call under the same tool_use id. `proposed`: the changes await review.
    """

    settings: Settings
    result: R | None = None
    error: RetentiveError | None = None
    recorded: Sequence[Recorded] = ()
    repeated: bool = False
    proposed: bool = False

    def value(self) -> R:
        """The result. Raises the error."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # without an error there is a result, which may be None
