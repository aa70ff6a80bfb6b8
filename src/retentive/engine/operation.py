"""Operations on a memory store, their plans and their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from retentive.errors import Conflict, InvalidInput, NotFound, Phrase, Refused, RetentiveError
from retentive.storage.contract import Actor, Change, Memory, Metadata, Recorded, Snapshot
from retentive.values.commands import Clear, Command
from retentive.values.paths import MemoryPath

if TYPE_CHECKING:
    from retentive.engine.guard import Guard
    from retentive.engine.lists import EventType
    from retentive.values.settings import Settings

R = TypeVar("R")
UnderReview: TypeAlias = Literal["propose", "refuse", "skip", "always"]
Facts: TypeAlias = Mapping[str, Any]
NO_FACTS: Callable[[Any], Mapping[str, object]] = lambda _: {}  # noqa: E731 - a default

REFUSALS = (Refused, InvalidInput, NotFound, Conflict)
"""Errors of the request itself. All other errors are failures of storage or missing permissions."""
READS_OF_PATHS = frozenset(
    {"view", "load", "load.as_of", "list", "list.as_of", "versions", "feed", "log", "show", "text_at", "blame", "diff"}
    | {"search", "recall", "memory_use", "promote.read", "citations"}
)
"""Names of the reads that a caller whose access is limited to some paths may run, as those with `for_paths`."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation(Generic[R]):
    """One operation on a memory store: a `Read` or a `Write`, which calls the function `work`.

    - `name`: name of the operation in the audit log.
    - `path`: path or paths of the operation.
    - `facts`: function that returns additional fields of the audit entry from the result: no texts and no paths.
    - `command`: command that the operation runs. Its tool_use id identifies a repetition, as a request's key does.
    - `needs_external_edits`: if true, external edits of plain files are recorded before the operation runs, so that
      the operation sees them.
    - `for_paths`: if true, a caller whose access is limited to some paths may run the operation. Such an operation
      must read only memories and versions, and only through the snapshot or transaction that it gets.
    - `writes`: false for a read, and for the dry run of a write, which the same guards and limits refuse.
    """

    name: str | None
    work: Callable[..., Any]
    path: MemoryPath | Sequence[MemoryPath] | None = None
    facts: Callable[[Any], Mapping[str, object]] = NO_FACTS
    command: Command | Clear | None = None
    needs_external_edits: bool = False
    for_paths: bool = False
    writes: bool = False

    @property
    def paths(self) -> tuple[MemoryPath, ...]:
        """Paths of the operation, as written in the request."""
        path = self.path
        return () if path is None else (path,) if isinstance(path, MemoryPath) else tuple(path)

    @property
    def first_path(self) -> str | None:
        """Path of the entry that a command reads first. It is never the root."""
        return None if self.command is None or self.paths[0].is_root else self.paths[0].text


@dataclass(frozen=True, slots=True, eq=False)
class Read(Operation[R]):
    """Operation that changes nothing.

    - `work`: returns the result for one consistent state of the store, as the actor sees it. Raises `RetentiveError`.
    - `sees_all`: if true, the operation reads the stored state. This includes the memories that are hidden from the
      actor, but not the proposed changes.
    - `is_filtered`: if true, the operation itself leaves out what the caller may not see.
    """

    work: Callable[[Snapshot], R]
    sees_all: bool = False
    is_filtered: bool = False


def audit_only(
    name: str | None, error: RetentiveError | None = None, paths: Sequence[MemoryPath] = (), **facts: object
) -> Read[None]:
    """Return an operation that only writes the audit entry of a call, and raises the error of the call, if any.

    It is used for a malformed call, and for a call that runs elsewhere, such as a command across mounts or a bulk read.
    `paths` are those paths of the call that could be parsed.
    """

    def work(_: Snapshot) -> None:
        if error is not None:
            raise error

    return Read(name, work, paths, lambda _: facts, for_paths=True)


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


@dataclass(frozen=True, slots=True, eq=False)
class Write(Operation[R]):
    """Operation that may change memories, history or settings. It decides purely; `write.py` records its plan.

    - `work`: returns what to change, as the actor sees the store. Only reads, may be called again, raises `Refused`.
    - `facts_kept`: returns ids and numbers, without texts and paths, from which `rebuilt` can rebuild the result for a
      repeated request, with `recorded`: the ids of what was recorded. None means that a repeated request may simply run
      the operation again, because the second run changes nothing.
    - `under_review`: treatment of the operation if its actor is under review. The changes become a proposal
      (`propose`), the operation is refused (`refuse`), or it runs as usual (`skip`). With `always`, the changes become
      a proposal whoever makes them.
    - `only_removes`: if true, the operation may use the reserved space of a full disk.
    - `allowed_when_archived`: if true, the operation also runs on an archived store, because it only removes memories
      or because it changes no memory.
    """

    work: Callable[[Snapshot, Guard], Plan[R]]
    facts_kept: Callable[[Outcome[R], Snapshot], Mapping[str, object] | None] = lambda *_: None
    rebuilt: Callable[[Facts, Snapshot], R] | None = None
    under_review: UnderReview = "refuse"
    only_removes: bool = False
    allowed_when_archived: bool = True
    writes: bool = True

    def dry_run(self) -> Write[R]:
        """Return the dry run of this operation: it only decides. `read.py` runs it."""
        name = f"{self.name}.preview"
        return replace(self, name=name, facts=NO_FACTS, needs_external_edits=True, writes=False)


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
