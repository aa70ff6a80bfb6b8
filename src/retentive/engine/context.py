"""Context in which the operations of a memory store run."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Self, TypedDict, TypeVar, Unpack

from retentive.engine.access_times import Accesses
from retentive.engine.operation import AuditOnly, Operation, Outcome
from retentive.errors import InvalidPath, Refused, RetentiveError, error_of
from retentive.redaction.examiner import TextExaminer
from retentive.storage import capabilities
from retentive.storage.contract import Actor, Backend, Clock, Snapshot, StoreInfo, Transaction, as_actor
from retentive.values.listing import KnownListings
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Invocation, RequestKey
from retentive.values.replies import REPLIES, Replies
from retentive.values.settings import DEFAULTS, Settings, from_text

T = TypeVar("T")
R = TypeVar("R")
_MODES = ("sensitive", "sensitive_likely")


class StoreOptions(TypedDict, total=False):
    """Keyword arguments of `StoreContext`."""

    pins: Mapping[str, object] | None
    examiner: TextExaminer | None
    replies: Replies
    actor: Actor | None
    clock: Clock
    accesses: Accesses | None


class StoreContext(ABC):
    """Context of the operations on one memory store: backend, settings, actor and clock. Threads may share it."""

    integration = "python"
    exact = False
    request: RequestKey | None = None
    scope: tuple[str, ...] = ()
    """Patterns of the paths that the caller may see and change; empty if the caller is not limited."""
    after_write: Callable[[], None] | None = None
    """Function that is called after each write of an open location, to do a piece of its maintenance."""
    hides_history: bool = False
    """True for a caller who may not see hidden memories in the history either, such as a model."""
    api_key_id: str = ""
    """Id of the API key to record with the changes. Empty if there is no key, or if the actor already names the key."""

    def __init__(
        self,
        backend: Backend,
        info: StoreInfo,
        *,
        pins: Mapping[str, object] | None = None,
        examiner: TextExaminer | None = None,
        replies: Replies = REPLIES,
        actor: Actor | None = None,
        clock: Clock = time.time,
        accesses: Accesses | None = None,
    ) -> None:
        self.backend = backend
        self.info = info
        self.id = info.id
        self.pins = dict(pins or {})
        self.examiner = examiner or TextExaminer()
        self.examiner.check(DEFAULTS.changed(self.pins))  # raises for invalid settings at opening
        self.replies = replies
        self.actor = actor
        self.clock = clock
        self._listings = KnownListings()
        self.accesses = accesses or Accesses(backend, clock=clock)
        self.usual_invocation = Invocation(integration=self.integration)
        """Invocation for a call that names no actor, tool_use id, source or session."""
        self.known_settings: tuple[str | None, Settings | None] = (None, None)
        """Text of the stored settings when they were last read, and the effective settings that follow from it."""

    @property
    def listings(self) -> KnownListings | None:
        """Cache of directory listings. None for plain files, which may change without a new version."""
        return None if capabilities.directory_of(self.backend, self.info) is not None else self._listings

    def again(
        self,
        *,
        pins: Mapping[str, object] | None = None,
        integration: str | None = None,
        actor: Actor | None = None,
        exact: bool = False,
        request: RequestKey | None = None,
        scope: tuple[str, ...] = (),
        hides_history: bool | None = None,
        api_key_id: str = "",
    ) -> Self:
        """Return a context for the same memory store, with other pinned settings, integration, actor, request or scope.

        If `exact` is true, a text is either stored unchanged or refused: the mode `redact` acts like `reject`. In
        addition, `create` never overwrites a memory. `request` identifies the client request that runs the operations.
        `scope` contains the patterns of the paths that the caller may see and change. With `hides_history`, memories
        that are hidden from the caller are hidden in the history too. `api_key_id` is recorded with the changes.
        """
        other = copy(self)
        other.exact = exact
        other.actor = actor or self.actor
        other.pins = dict(self.pins if pins is None else pins)
        other.integration = integration or self.integration
        other.usual_invocation = Invocation(integration=other.integration)
        other.request = request or self.request
        other.scope = scope or self.scope
        other.hides_history = self.hides_history if hides_history is None else hides_history
        other.api_key_id = api_key_id or self.api_key_id
        other.known_settings = (None, None)
        return other

    @abstractmethod
    def run(self, operation: Operation[R], invocation: Invocation) -> Outcome[R]:
        """Run an operation through all stages (`retentive.pipeline`). Raises storage errors."""

    @abstractmethod
    def follow_up(self, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        """Run bookkeeping in a separate transaction, outside the stages. Bookkeeping changes no memory."""

    def result_of(self, operation: Operation[R], actor: Actor | str | None = None, **origin: Unpack[Origin]) -> R:
        """Run an operation through all stages and return its result. Raises `RetentiveError`."""
        return self.run(operation, self.invocation(actor, **origin)).value()

    def invocation(self, actor: Actor | str | None = None, **origin: Unpack[Origin]) -> Invocation:
        """Return an invocation by `actor` with `origin`, through this integration. Raises `InvalidInput`."""
        return Invocation(as_actor(actor), None, self.integration, **origin_of(**origin), request=self.request)

    @contextmanager
    def checking(self, name: str | None, actor: Actor | str | None = None) -> Iterator[None]:
        """Context manager for checks of the arguments of the operation `name`.

        An error inside it is recorded in the audit log under this name and raised again.
        """
        try:
            yield
        except RetentiveError as error:
            self.result_of(AuditOnly(name, error), actor)  # raises the error
            raise

    def parsed(self, path: str) -> MemoryPath:
        """Parse a path that the caller passed as an argument. Raises `InvalidPath`."""
        if not isinstance(path, str):
            raise InvalidPath(f"a path must be a string such as /memories/notes.md, not {type(path).__name__}")
        try:
            return MemoryPath.parse(path)
        except Refused as refusal:
            raise self.raised(refusal) from None

    def raised(self, refusal: Refused) -> RetentiveError:
        """Return the exception for a refusal.

        The exception has the text and code of the error reply that a model would get.
        """
        said = self.replies.error(refusal.key, refusal.values)
        return error_of(said.text, said.code)

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on one consistent state of the store, outside the stages. The engine uses this for bookkeeping."""
        return self.backend.read(self.id, work)

    def settings_of(self, snapshot: Snapshot) -> Settings:
        """Return the effective settings: the stored settings, overridden by the settings pinned in this process."""
        stored, known, settings = snapshot.settings, *self.known_settings
        if settings is None or stored != known:
            settings = from_text(stored).changed(self.pins)
            if self.exact:
                modes = {name: "reject" for name in _MODES if getattr(settings, name) == "redact"}
                settings = settings.changed({**modes, "create_overwrites": False})
            self.known_settings = (stored, settings)
        return settings

    def settings(self) -> Settings:
        """Return the effective settings: the stored settings, overridden by the settings pinned in this process."""
        return self.read(self.settings_of)

    def redacted(self, text: str, settings: Settings | None = None) -> str:
        """Return `text` with its sensitive values masked, so that a reply can repeat it.

        If `settings` is None, the settings that were read last are used. `settings` is None, for example,
        if a command failed before it read the settings.
        """
        if settings is None:
            settings = self.known_settings[1] or DEFAULTS.changed(self.pins)
        try:
            return self.examiner(settings, text)[0]
        except Refused:  # a detector failed, and has logged this
            return "…"

    def record_external_edits(self, snapshot: Snapshot) -> None:
        """Record external edits of plain files, so that the snapshot shows them."""
        if capabilities.directory_of(self.backend, self.info) is not None:
            list(snapshot.sizes(ROOT))  # listing the root compares every file
