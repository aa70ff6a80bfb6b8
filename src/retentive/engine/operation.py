"""Base classes of all operations on a memory store, and the outcome of an operation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from retentive.errors import Conflict, InvalidInput, NotFound, Phrase, Refused, RetentiveError
from retentive.storage.contract import Actor, Change, Memory, Metadata, Recorded, Snapshot

if TYPE_CHECKING:
    from retentive.engine.guard import Guard
    from retentive.engine.lists import EventType
    from retentive.values.paths import MemoryPath
    from retentive.values.settings import Settings

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
UnderReview: TypeAlias = Literal["propose", "refuse", "skip", "always"]
FactsOf: TypeAlias = "Callable[[Any], Mapping[str, object]] | None"


REFUSALS = (Refused, InvalidInput, NotFound, Conflict)
"""Errors of the request itself. All other errors are failures of storage or missing permissions."""
_READS_OF_PATHS = frozenset(
    {"load", "list", "versions", "feed", "log", "show", "text_at", "blame", "search", "recall", "memory_use"}
    | {"promote.read", "citations"}
)


class Operation(ABC, Generic[R_co]):
    """One operation on a memory store. Subclasses are frozen dataclasses.

    - `name`: name of the operation in the audit log.
    - `needs_external_edits`: if true, external edits of plain files are recorded before the operation runs, so that
      the operation sees them.
    - `for_paths`: if true, a caller whose access is limited to some paths may run the operation. Such an operation
      must read only memories and versions, and only through the snapshot or transaction that it gets.
    - `sees_all`: if true, the operation reads the stored state. This includes the memories that are hidden from the
      actor, but not the proposed changes.
    - `is_filtered`: if true, the operation itself leaves out what the caller may not see.
    - `first_path`: path of the entry that the operation reads first, or None. It is never the root.
    - `facts_of`: function that returns additional fields of the audit entry.
    """

    __slots__ = ()
    name: str | None
    needs_external_edits: bool = False
    for_paths: bool = False
    sees_all: bool = False
    is_filtered: bool = False
    first_path: str | None = None
    facts_of: FactsOf = None

    def paths(self) -> tuple[MemoryPath, ...]:
        """Return the paths of the operation. By default, the only one is the field `path`, if there is such a field."""
        path: MemoryPath | None = getattr(self, "path", None)
        return () if path is None else (path,)

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return additional fields for the audit entry of an operation with this result.

        They contain no texts and no paths.
        """
        return {} if self.facts_of is None else self.facts_of(result)


class ReadOperation(Operation[R_co]):
    """Operation that changes nothing."""

    __slots__ = ()

    @abstractmethod
    def apply(self, snapshot: Snapshot, settings: Settings) -> R_co:
        """Return the result for one consistent state of the store, as the actor sees it. Raises `RetentiveError`."""


@dataclass(frozen=True, slots=True, eq=False)
class Read(ReadOperation[R]):
    """Read operation that calls the function `work`."""

    name: str
    work: Callable[[Snapshot], R]
    path: MemoryPath | None = None
    facts_of: FactsOf = None
    needs_external_edits: bool = False
    sees_all: bool = False
    is_filtered: bool = False

    @property
    def for_paths(self) -> bool:  # type: ignore[override]  # depends on the read
        return self.name in _READS_OF_PATHS

    def apply(self, snapshot: Snapshot, settings: Settings) -> R:
        return self.work(snapshot)


@dataclass(frozen=True, slots=True, eq=False)
class AuditOnly(ReadOperation[None]):
    """Operation that only writes the audit entry of a call, and raises the error of the call, if any.

    It is used for a malformed call, and for a call that runs elsewhere, such as a command across mounts or a bulk read.
    `written` are those paths of the call that could be parsed. `details` are additional fields of the entry.
    """

    for_paths = True
    name: str | None
    error: RetentiveError | None = None
    written: tuple[MemoryPath, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)

    def paths(self) -> tuple[MemoryPath, ...]:
        return self.written

    def facts(self, result: Any) -> Mapping[str, object]:
        return self.details

    def apply(self, snapshot: Snapshot, settings: Settings) -> None:
        if self.error is not None:
            raise self.error


@dataclass(frozen=True, slots=True)
class Plan(Generic[R]):
    """What an operation decided: its result, the changes, and other effects. The road records them at once.

    - `changes`: made by the guard, in order. Change number 3 makes the memory `pending.3` for later changes.
    - `authors`: author of each change, if it is not the actor of the call.
    - `records`: kind, key and value of records of the store. The value None removes the record.
    - `metadata`: new settings or properties of the store, as texts. Settings of None are the defaults.
    - `redact`, `prune`: ids of versions.
    - `event`: type of the event to record, and the ids that it lists.
    - `afterwards`: function that is called with the store after the changes and with their ids. It returns the result
      and the other effects, as a plan without changes, if they depend on what was recorded.
    """

    result: R
    changes: Sequence[Change] = ()
    authors: Sequence[Actor | None] | None = None
    records: Sequence[tuple[str, str, str | None]] = ()
    metadata: Metadata = field(default_factory=Metadata)
    redact: Sequence[str] = ()
    prune: Sequence[str] = ()
    event: tuple[EventType, Sequence[str]] | None = None
    afterwards: Callable[[Snapshot, Sequence[Recorded]], Plan[R]] | None = None


@dataclass(slots=True, eq=False)
class CommandResult:
    """Result of a write command: the data that its reply needs in addition to the command.

    - `notes`: sentences of the guards.
    - `version_id`: newest version before the command, or after it in the result of a repeated command.
    - `snippet`: numbered lines of the text around character `at`.
    - `is_new`: true if `write` or `append` created the memory.
    - `is_masked`: true if sensitive values were removed from the text.
    - `memory`: only for changes by id, the memory after an update, or its last state before a deletion.
    """

    notes: tuple[Phrase, ...] = ()
    version_id: str = ""
    snippet: str | None = field(default=None, repr=False)
    at: int = 0
    is_new: bool = False
    is_masked: bool = False
    memory: Memory | None = None


class WriteOperation(Operation[R_co]):
    """Operation that may change memories, history or settings. It decides purely; `write.py` records its plan.

    - `only_removes`: if true, the operation may use the reserved space of a full disk.
    - `under_review`: treatment of the operation if its actor is under review. The changes become a proposal
      (`propose`), the operation is refused (`refuse`), or it runs as usual (`skip`). With `always`, the changes become
      a proposal whoever makes them.
    - `allowed_when_archived`: if true, the operation also runs on an archived store, because it only removes memories
      or because it changes no memory.
    - `is_command`: if true, the tool_use id of a call identifies a repetition, as a request's key does.
    """

    __slots__ = ()
    only_removes: bool = False
    allowed_when_archived: bool = False
    under_review: UnderReview = "propose"
    is_command: ClassVar[bool] = False

    @abstractmethod
    def decide(self, view: Snapshot, guard: Guard) -> Plan[R_co]:
        """Return what to change, as the actor sees the store. Reads only, and may be called again. Raises `Refused`."""

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object] | None:
        """Return ids and numbers from which `result_from` can rebuild the result for a repeated request.

        They contain no texts and no paths. Return None if a repeated request may simply run the operation again,
        because the second run changes nothing.
        """
        return None

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> R_co:
        """Rebuild the result of an earlier run from the history, its facts, and the ids of what it recorded."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Write(WriteOperation[R]):
    """Write that calls the function `work`. `facts_kept` and `rebuilt` do what `facts_to_keep` and `result_from` do."""

    name: str
    work: Callable[[Snapshot, Guard], Plan[R]]
    path: MemoryPath | None = None
    facts_of: FactsOf = None
    facts_kept: Callable[[Outcome[R], Snapshot], Mapping[str, object] | None] = lambda *_: None
    rebuilt: Callable[[Mapping[str, Any], Snapshot], R] | None = None
    under_review: UnderReview = "refuse"
    only_removes: bool = False
    allowed_when_archived: bool = True
    needs_external_edits: bool = False
    for_paths: bool = False

    def decide(self, view: Snapshot, guard: Guard) -> Plan[R]:
        return self.work(view, guard)

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object] | None:
        return self.facts_kept(outcome, after)

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> R:
        assert self.rebuilt is not None
        return self.rebuilt(facts, view)


@dataclass(frozen=True, slots=True)
class DryRun(Operation[R]):
    """Run of a write that records nothing. The same guards and limits refuse it. `read.py` lets the write decide."""

    for_paths = True
    needs_external_edits = True
    operation: WriteOperation[R]

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.operation.name}.preview"

    def paths(self) -> tuple[MemoryPath, ...]:
        return self.operation.paths()


@dataclass(slots=True, eq=False)
class Outcome(Generic[R]):
    """Outcome of an operation: its result or error, and the ids of the recorded versions.

    If `repeated` is true, this is the outcome of an earlier call under the same tool_use id or idempotency key. If
    `proposed` is true, the changes wait for review.
    """

    settings: Settings
    result: R | None = None
    error: RetentiveError | None = None
    recorded: Sequence[Recorded] = ()
    repeated: bool = False
    proposed: bool = False

    @property
    def version_id(self) -> str:
        """Id of the version recorded last; empty if nothing was recorded."""
        return self.recorded[-1].version_id if self.recorded else ""

    def value(self) -> R:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # without an error there is a result, which may be None
