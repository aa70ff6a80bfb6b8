"""Operations on a memory store as values, with their invocations and outcomes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from retentive.errors import Conflict, InvalidInput, NotFound, Refused, RetentiveError
from retentive.values.records import Recorded

if TYPE_CHECKING:
    from retentive.engine.writer import GuardedWriter
    from retentive.storage.contract import Snapshot, Transaction
    from retentive.values.paths import MemoryPath
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
"""Errors of the request itself. All others are failures of storage or missing permissions."""


class Operation(ABC, Generic[R_co]):
    """One operation on a memory store. Subclasses are frozen dataclasses.

    `name` is the name in the audit log. `needs_external_edits`: external edits of plain files are recorded first, so
    that the operation sees them. `sees_all`: a read sees the present state itself: hidden memories, and no proposals.
    """

    __slots__ = ()
    name: str | None
    needs_external_edits: bool = False
    sees_all: bool = False

    def paths(self) -> tuple[str, ...]:
        """Canonical paths of the operation, for the audit log. The default is its field `path`, if there is one."""
        path: MemoryPath | None = getattr(self, "path", None)
        return () if path is None else (path.text,)

    def facts(self, result: Any) -> Mapping[str, object]:
        """Fields of the audit entry for a result, besides the new versions. They never contain a text or a path."""
        return {}


class ReadOperation(Operation[R_co]):
    """An operation that changes nothing."""

    __slots__ = ()

    @abstractmethod
    def apply(self, snapshot: Snapshot, settings: Settings) -> R_co:
        """Compute the result from one consistent state, as the actor sees the store. Raises `RetentiveError`."""


@dataclass(frozen=True, slots=True)
class Read(ReadOperation[R]):
    """A read given as a function of one consistent state. `facts_of` derives facts for the audit entry."""

    name: str
    work: Callable[[Snapshot], R]
    path: MemoryPath | None = None
    facts_of: Callable[[R], Mapping[str, object]] | None = None
    needs_external_edits: bool = False
    sees_all: bool = False

    def facts(self, result: Any) -> Mapping[str, object]:
        """Facts derived from the result."""
        return {} if self.facts_of is None else self.facts_of(result)

    def apply(self, snapshot: Snapshot, settings: Settings) -> R:
        """Call the function."""
        return self.work(snapshot)


@dataclass(frozen=True, slots=True)
class AuditOnly(ReadOperation[None]):
    """Leaves the audit entry of a call that runs elsewhere: malformed input, a command across mounts, or a bulk read.

    `details` are the facts of the entry.
    """

    name: str | None
    error: RetentiveError | None = None
    written: tuple[MemoryPath, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)

    def paths(self) -> tuple[str, ...]:
        """Paths of the call that could be parsed."""
        return tuple(path.text for path in self.written)

    def facts(self, result: Any) -> Mapping[str, object]:
        """The given facts."""
        return self.details

    def apply(self, snapshot: Snapshot, settings: Settings) -> None:
        """Raise the error of the call, if any."""
        if self.error is not None:
            raise self.error


class WriteOperation(Operation[R_co]):
    """An operation that changes memories, history or settings, in one transaction.

    - `may_use_reserve`: the operation deletes, so it may use the space reserved for a full disk.
    - `under_review`: for an actor under review, the operation becomes a proposal, is refused, or (`skip`) runs
      unchanged.
    - `switches_audit`: the operation may turn the audit log on.
    - `is_replayable`: if the operation is repeated under the same tool_use id, it returns its first outcome.
    """

    __slots__ = ()
    may_use_reserve: bool = False
    under_review: ClassVar[Literal["propose", "refuse", "skip"]] = "propose"
    switches_audit: ClassVar[bool] = False
    is_replayable: ClassVar[bool] = False

    @abstractmethod
    def apply(self, tx: Transaction, writer: GuardedWriter) -> R_co:
        """Record the changes and return the result. It may run more than once. Raises `RetentiveError`."""

    def without(self, error: RetentiveError) -> WriteOperation[R_co] | None:
        """The operation to run instead, without the part that storage refused. None if the whole operation fails."""
        return None


@dataclass(slots=True)
class Outcome(Generic[R]):
    """Outcome of an operation: its result or error, and the recorded versions.

    If `repeated` is true, this is the outcome of an earlier call under the same tool_use id. If `proposed` is true, the
    changes await review.
    """

    settings: Settings
    result: R | None = None
    error: RetentiveError | None = None
    recorded: Sequence[Recorded] = ()
    repeated: bool = False
    proposed: bool = False

    def value(self) -> R:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # without an error there is a result, which may be None
