"""Core of a memory store: its backend, settings, actor and clock. It runs the operations of all doors."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self, TypeVar, Unpack, cast

from retentive.engine.access_times import Accesses
from retentive.engine.handlers import Viewed
from retentive.engine.operation import READS_OF_PATHS, CommandResult, Operation, Outcome, Read, Write, audit_only
from retentive.engine.read import read
from retentive.engine.rendering import error_reply, paths_named, rendered
from retentive.engine.visibility import Hides
from retentive.engine.write import write
from retentive.errors import InvalidInput, InvalidPath, PermissionDenied, Refused, RetentiveError, error_of
from retentive.redaction.examiner import TextExaminer
from retentive.storage.contract import Actor, Backend, Clock, Recorded, Snapshot, StoreInfo, Transaction, as_actor
from retentive.values.listing import Listing
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Invocation, RequestKey, Written
from retentive.values.replies import REPLIES, Reply
from retentive.values.settings import DEFAULTS, Settings, from_text
from retentive.values.text import plain_name

T = TypeVar("T")
R = TypeVar("R")


class StorePart:
    """Part of the interface of one memory store, such as its history. Threads may share it."""

    def __init__(self, context: StoreCore) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._context.id}>"


@dataclass(eq=False)
class StoreCore:
    """Memory store as used inside this package. Threads may share it.

    - `pins`: settings that this process pins. They override the stored ones.
    - `scope`: patterns of the paths that the caller may see; empty if the caller is not limited.
    - `write_scope`: patterns of the paths that the caller may change; empty for all, None for those that it may see.
    - `request`: client request that runs the operations. If it is repeated, they do not run again.
    - `exact`: a text is either stored unchanged or refused, and `create` never overwrites a memory.
    - `hides_history`: true for a caller who may not see hidden memories in the history either, such as a model.
    - `api_key_id`: API key to record with the changes. Empty if there is none, or if the actor already names it.
    - `principal`: actor to whom the API key or the token of the caller belongs, whatever actor a request names.
    - `before_write`: function that is called before each write, so that a server finds the events of the change.
    - `after_write`: function that is called after each write of an open location, to do a piece of its maintenance.
    - `hides`: function that says which memories the caller does not see, besides those that the settings hide.
    - `max_deletions`: memories that the proposals of one actor may delete or empty. None is no limit.
    - `known_settings`: text of the stored settings when they were last read, and the effective settings.
    """

    backend: Backend
    info: StoreInfo
    pins: Mapping[str, object] = field(default_factory=dict)
    examiner: TextExaminer = field(default_factory=TextExaminer)
    actor: Actor | None = None
    clock: Clock = time.time
    accesses: Accesses = cast("Accesses", None)  # noqa: RUF009 - made for each store without a location
    integration: str = "python"
    exact: bool = False
    request: RequestKey | None = None
    scope: tuple[str, ...] = ()
    write_scope: tuple[str, ...] | None = None
    before_write: Callable[[StoreInfo], None] | None = None
    after_write: Callable[[Sequence[Recorded]], None] | None = None
    hides_history: bool = False
    api_key_id: str = ""
    principal: str = ""
    hides: Hides | None = None
    max_deletions: int | None = None
    known_settings: tuple[str | None, Settings | None] = (None, None)

    def __post_init__(self) -> None:
        self.id = self.info.id
        self.examiner.check(DEFAULTS.changed(self.pins))  # raises for invalid settings at opening
        if cast("Accesses | None", self.accesses) is None:
            self.accesses = Accesses(self.backend, clock=self.clock)
        self._has_files = self.backend.directory_of(self.info) is not None
        self.listings: dict[object, Listing] = {}  # of directories, by revision

    def with_options(self, **options: Any) -> Self:
        """Return a core of the same memory store with other values of some attributes, such as `actor` or `scope`."""
        other = copy(self)
        if options.keys() & {"pins", "exact"}:
            other.known_settings = (None, None)
        for name, value in options.items():
            setattr(other, name, value)
        return other

    def invocation(
        self,
        actor: Actor | str | None = None,
        *,
        tool_use_id: str | None = None,
        run: str | None = None,
        **origin: Unpack[Origin],
    ) -> Invocation:
        """Return an invocation by `actor` with `origin`, through this integration. Raises `InvalidInput`."""
        if not isinstance(tool_use_id, str | None):
            raise InvalidInput(f"a tool_use id must be a string, not {type(tool_use_id).__name__}")
        if run is not None:
            plain_name("a run", run)
        named = origin_of(**origin)
        return Invocation(as_actor(actor), tool_use_id, self.integration, **named, request=self.request, run=run)

    def run(self, operation: Operation[R], call: Invocation) -> Outcome[R]:
        """Run an operation. A refusal is part of the outcome. Raises storage errors, and `PermissionDenied`."""
        scope = self.write_scope if isinstance(operation, Write) and self.write_scope is not None else self.scope
        if scope and not operation.for_paths and operation.name not in READS_OF_PATHS:
            why = "this caller has access to only some paths, but this needs access to the whole memory store"
            operation = audit_only(operation.name, PermissionDenied(why))  # type: ignore[assignment]  # raises the error
        if operation.writes:
            return write(self, cast("Write[R]", operation), call)
        return read(self, cast("Read[R] | Write[R]", operation), call)

    @property
    def scope_of_writes(self) -> tuple[str, ...]:
        """Patterns of the paths that the caller sees when it changes memories. Empty if it is not limited."""
        if self.write_scope is None:
            return self.scope
        return self.scope + self.write_scope if self.scope and self.write_scope else ()

    def reply(self, operation: Operation[R], call: Invocation) -> Reply:
        """Run an operation and return the reply for a model. A failure of the storage becomes an error reply too."""
        try:
            outcome = self.run(operation, call)
            result = outcome.result
            if isinstance(result, Viewed) and result.memory is not None:
                self.accesses.note(self.id, result.memory)
            return rendered(self, operation, outcome)
        except RetentiveError as error:
            return error_reply(self, error, paths_named(operation))

    def refused(self, name: str | None, error: Refused, *, actor: Actor | str | None = None) -> Reply:
        """Return the error reply to a malformed tool call. The audit log gets an entry, as for any other call."""
        return self.reply(audit_only(name, error), self.invocation(actor))

    def reject(self, error: RetentiveError, actor: Actor | str | None = None) -> NoReturn:
        """Raise `error` for a tool call that is no command. The audit log gets an entry."""
        self.result_of(audit_only(None, error), actor)
        raise error

    def result_of(self, operation: Operation[R], actor: Actor | str | None = None, **origin: Unpack[Origin]) -> R:
        """Run an operation and return its result. The error of a refusal has the sentence of the error reply."""
        try:
            return self.run(operation, self.invocation(actor, **origin)).value()
        except Refused as refusal:
            raise self.raised(refusal, operation) from None

    def peek(self, operation: Read[R] | Write[R]) -> R:
        """Run a read or dry run that is a step of a larger operation, whose audit entry covers it."""
        return read(self, operation, self.invocation(), is_audited=False).value()

    def written(self, operation: Write[CommandResult], call: Invocation) -> Written:
        """Run a write and describe the change. The error of a refusal has the sentence of the error reply."""
        try:
            return self.described(operation, self.run(operation, call))
        except Refused as refusal:
            raise self.raised(refusal, operation) from None

    def described(self, operation: Operation[Any], outcome: Outcome[CommandResult]) -> Written:
        """Describe a change for an application. Raises the error of a refusal."""
        result, recorded = outcome.value(), outcome.recorded
        path, version_id = paths_named(operation)[-1].text, outcome.version_id or result.version_id
        memory_id = recorded[-1].memory_id if len(recorded) == 1 else ""
        if result.memory is not None:
            path, memory_id = result.memory.path, result.memory.id
        notes = tuple(REPLIES.phrase(note.key, note.values) for note in result.notes)
        return Written(path, version_id, len(recorded), outcome.proposed, notes, memory_id, result.memory)

    def raised(self, refusal: Refused, operation: Operation[R] | None = None) -> RetentiveError:
        """Return the exception for a refused operation or argument. Its message is the sentence of the error reply."""
        said = error_reply(self, refusal, paths_named(operation))
        error = error_of(said.text, said.code)
        error.conflicting, error.position = refusal.conflicting, refusal.position
        return error

    def parsed(self, path: str) -> MemoryPath:
        """Parse a path that the caller passed as an argument. Raises `InvalidPath`."""
        if not isinstance(path, str):
            raise InvalidPath(f"a path must be a string such as /memories/notes.md, not {type(path).__name__}")
        try:
            return MemoryPath.parse(path)
        except Refused as refusal:
            raise self.raised(refusal) from None

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on one consistent state of the store. This is for bookkeeping, which has no audit entry."""
        return self.backend.read(self.id, work)

    def follow_up(self, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        """Run bookkeeping in a transaction of its own. Bookkeeping changes no memory, and has no audit entry."""
        return self.backend.write(self.id, work, may_use_reserve=may_use_reserve)

    def settings_of(self, snapshot: Snapshot) -> Settings:
        """Return the effective settings: the stored settings, overridden by the settings pinned in this process."""
        stored, (known, settings) = snapshot.state.settings, self.known_settings
        if settings is None or stored != known:
            settings = from_text(stored).changed(self.pins)
            if self.exact:
                redacting = [name for name in ("sensitive", "sensitive_likely") if getattr(settings, name) == "redact"]
                settings = settings.changed({**dict.fromkeys(redacting, "reject"), "create_overwrites": False})
            self.known_settings = (stored, settings)
        return settings

    def settings(self) -> Settings:
        """Return the effective settings, as `settings_of` does."""
        return self.read(self.settings_of)

    def redacted(self, text: str, settings: Settings | None = None) -> str:
        """Return `text` with its sensitive values masked, so that a reply can repeat it.

        If `settings` is None, the settings that were read last are used, for example because a command failed before it
        read the settings.
        """
        try:
            return self.examiner(settings or self.known_settings[1] or DEFAULTS.changed(self.pins), text)[0]
        except Refused:  # a detector failed, and has logged this
            return "…"

    def record_external_edits(self, snapshot: Snapshot) -> None:
        """Record external edits of plain files, so that the snapshot shows them."""
        if self._has_files:
            snapshot.list(ROOT)  # listing the root compares every file
