"""Operations on a memory store, as frozen dataclasses, with their invocations and outcomes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from retentive.errors import Conflict, InvalidInput, NotFound, Refused, RetentiveError
from retentive.values.records import Recorded

if TYPE_CHECKING:
    from retentive.engine.guarded_writer import GuardedWriter
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

    - `name`: name of the operation in the audit log.
    - `needs_external_edits`: external edits of plain files are recorded before the operation runs, so that it sees
      them.
    - `first_path`: canonical path of the entry that the operation reads first, or None. Never the root.
    - `for_paths`: callers that are limited to some paths may run the operation, because it reads only memories and
      versions, and only through the snapshot or transaction it is given.
    - `sees_all`: the read sees the stored state, which includes memories hidden from the actor but no proposed changes.
    """

    __slots__ = ()
    name: str | None
    is_read: ClassVar[bool] = False  # faster than `isinstance` of an abstract class
    needs_external_edits: bool = False
    first_path: str | None = None
    for_paths: bool = False
    sees_all: bool = False

    def paths(self) -> tuple[str, ...]:
        """Canonical paths of the operation, for the audit log.

        The default is the field `path`, if the operation has one.
        """
        path: MemoryPath | None = getattr(self, "path", None)
        return () if path is None else (path.text,)

    def facts(self, result: Any) -> Mapping[str, object]:
        """Additional fields of the audit entry, derived from a result. They never contain a text or a path."""
        return {}


class ReadOperation(Operation[R_co]):
    """An operation that changes nothing."""

    __slots__ = ()
    is_read = True

    @abstractmethod
    def apply(self, snapshot: Snapshot, settings: Settings) -> R_co:
        """Compute the result from one consistent state, as the actor sees the store. Raises `RetentiveError`."""


_READS_OF_PATHS = frozenset({"load", "list", "versions", "feed", "log", "show", "text_at", "blame", "search"})


@dataclass(frozen=True, slots=True, eq=False)
class Read(ReadOperation[R]):
    """A read operation whose `apply` calls a given function. `facts_of` derives facts for the audit entry.

    If `is_filtered` is true, the function itself leaves out the paths that the caller may not see.
    """

    name: str
    work: Callable[[Snapshot], R]
    path: MemoryPath | None = None
    facts_of: Callable[[R], Mapping[str, object]] | None = None
    needs_external_edits: bool = False
    sees_all: bool = False
    is_filtered: bool = False

    @property
    def first_path(self) -> str | None:  # type: ignore[override]  # depends on the read
        """The path of a `load`; None for other reads, which read directories."""
        return self.path.text if self.name == "load" and self.path is not None and not self.path.is_root else None

    @property
    def for_paths(self) -> bool:  # type: ignore[override]  # depends on the read
        """True for reads of memories and versions."""
        return self.name in _READS_OF_PATHS

    def facts(self, result: Any) -> Mapping[str, object]:
        """Facts derived from the result."""
        return {} if self.facts_of is None else self.facts_of(result)

    def apply(self, snapshot: Snapshot, settings: Settings) -> R:
        """Call the function."""
        return self.work(snapshot)


@dataclass(frozen=True, slots=True, eq=False)
class AuditOnly(ReadOperation[None]):
    """Writes only the audit entry of a call.

    The call itself runs elsewhere (a command across mounts, a bulk read) or was malformed. `details` are the facts of
    the entry.
    """

    for_paths = True
    name: str | None
    error: RetentiveError | None = None
    written: tuple[MemoryPath, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)

    def paths(self) -> tuple[str, ...]:
        """Paths of the call that could be parsed."""
        return tuple(path.text for path in self.written)

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return `details`."""
        return self.details

    def apply(self, snapshot: Snapshot, settings: Settings) -> None:
        """Raise the error of the call, if any."""
        if self.error is not None:
            raise self.error


class WriteOperation(Operation[R_co]):
    """An operation that changes memories, history or settings, in one transaction.

    - `may_use_reserve`: the operation deletes, so it may use the space reserved for a full disk.
    - `under_review`: effect of the operation for an actor under review: it becomes a proposal (`propose`), is refused
      (`refuse`), or runs as usual (`skip`).
    - `switches_audit`: the operation may turn the audit log on.
    - `allowed_when_archived`: the operation also runs on an archived store, because it only removes
      memories or changes none.
    - `is_replayable`: if the operation is repeated under the same tool_use id, it returns its first outcome.
    """

    __slots__ = ()
    may_use_reserve: bool = False
    allowed_when_archived: bool = False
    under_review: ClassVar[Literal["propose", "refuse", "skip"]] = "propose"
    switches_audit: ClassVar[bool] = False
    is_replayable: ClassVar[bool] = False

    @abstractmethod
    def apply(self, tx: Transaction, writer: GuardedWriter) -> R_co:
        """Record the changes and return the result. This method may be called more than once.

        Raises `RetentiveError`.
        """

    def kept(self, result: Any, tx: Transaction) -> Mapping[str, object] | None:
        """Return the ids and numbers from which `again` rebuilds the result, never texts or paths.

        Return None if running the operation a second time would change nothing, so that a repeated request may run it.
        """
        return None

    def again(self, kept: Mapping[str, Any], tx: Transaction) -> R_co:
        """Rebuild the result of an earlier run from the history and `kept`, the value the method `kept` returned."""
        raise NotImplementedError

    def without(self, error: RetentiveError) -> WriteOperation[R_co] | None:
        """Return the operation without the part that the storage refused, to retry it. None if all of it fails."""
        return None


@dataclass(slots=True, eq=False)
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
