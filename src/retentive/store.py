"""Memory store: commands for models, methods for programs. All operations run through `retentive.pipeline`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, TypeVar, Unpack

from retentive import pipeline
from retentive.engine.command_handlers import RunCommand, RunView, Save, Viewed
from retentive.engine.context import StoreContext
from retentive.engine.operation import AuditOnly, Operation, Outcome, Read, ReadOperation
from retentive.engine.queries import list_memories, load, read_version
from retentive.engine.rendering import Say, error_reply, paths_named, rendered
from retentive.engine.settings import ChangeSettings
from retentive.errors import InvalidInput, Refused, RetentiveError
from retentive.storage import capabilities
from retentive.storage.contract import Actor, Memory, Snapshot, Transaction, Usage, Version, as_actor
from retentive.values.commands import Clear, Command, Delete, View, command_name, parse
from retentive.values.paths import ROOT
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Invocation
from retentive.values.replies import Reply
from retentive.values.settings import Settings

if TYPE_CHECKING:  # imported on first use: most processes only run commands
    from retentive.audit.reader import Audit
    from retentive.engine.trust.levels import Level
    from retentive.history import History
    from retentive.history.expiry import Swept
    from retentive.history.scan import Finding
    from retentive.review.session import Review
    from retentive.review.trust import Trust
    from retentive.search.index import Corpus
    from retentive.search.query import Results

R = TypeVar("R")
T = TypeVar("T")


class MemoryStore(StoreContext):
    """One memory store. Models use it through commands, programs through methods that read and change memories.

    Threads may share it. `execute` returns errors of input or storage as replies; the other methods raise
    `RetentiveError`.
    """

    _corpus: Corpus | None = None
    _through: dict[str, MemoryStore] | None = None

    @property
    def key(self) -> str | None:
        """Key that the application gave the store, unique in the backend."""
        return self.info.key

    @property
    def name(self) -> str:
        """Display name."""
        return self.info.name

    def read_only(self) -> MemoryStore:
        """The same memory store with `read_only` pinned."""
        return self._again(pins=self.pins | {"read_only": True})

    def through(self, integration: str) -> MemoryStore:
        """The same memory store with this integration in its audit entries.

        Calls with the same name return the same object, so integrations can call this method for every request.
        """
        if integration == self.integration:
            return self
        known = self._through = self._through or {}
        if integration not in known:
            store = self._again(pins=self.pins)
            store.integration = integration
            known[integration] = store
        return known[integration]

    def _again(self, *, pins: Mapping[str, object]) -> MemoryStore:
        store = copy(self)  # keeps the class if the application subclassed MemoryStore
        store.pins = dict(pins)
        store.known_settings = (None, None)
        store._through = None  # noqa: SLF001 - the same class
        return store

    def directory(self) -> str | None:
        """Directory in which the memories are plain files; None for other backends."""
        return capabilities.directory_of(self.backend, self.info)

    def execute(
        self,
        command: object,
        *,
        actor: Actor | str | None = None,
        tool_use_id: str | None = None,
        source: str | None = None,
        session: str | None = None,
    ) -> Reply:
        """Run a command, given parsed or as the raw input of a tool call, and return the reply.

        When it returns without an error, the change is durable. `actor` is recorded with the change; by default it is
        the actor the store was opened with. A change repeated with the same `tool_use_id` by the same actor within 24
        hours returns its first reply and changes nothing. `source` (such as `web:https://...`, `user` or `tool:name`)
        and `session` are recorded in the provenance of the change (docs/trust.md). Raises `InvalidInput` for an invalid
        actor, `tool_use_id`, source or session.
        """
        if actor is not None or tool_use_id is not None or source is not None or session is not None:
            actor = _checked(actor, tool_use_id, source, session)
        invocation = Invocation(actor, tool_use_id, self.integration, source, session)
        try:
            known = command if isinstance(command, Command) else parse(command)
        except Refused as refusal:
            return self.reply(AuditOnly(command_name(command), refusal), invocation)
        if isinstance(known, View):
            return self.reply(RunView(known, self._lines), invocation)
        return self.reply(RunCommand(known, isinstance(known, Delete)), invocation)

    def clear(
        self, *, actor: Actor | str | None = None, tool_use_id: str | None = None, **origin: Unpack[Origin]
    ) -> Reply:
        """Delete all memories in one transaction. The arguments are those of `execute`."""
        who = _checked(actor, tool_use_id, **origin)
        call = Invocation(who, tool_use_id, self.integration, **origin)
        return self.reply(RunCommand(Clear(), may_use_reserve=True), call)

    def save(
        self,
        path: str,
        text: str,
        *,
        if_version: str | None,
        actor: Actor | str | None = None,
        source: str | None = None,
        session: str | None = None,
    ) -> Reply:
        """Replace the whole text of the memory at `path`, if `if_version` is still its newest version.

        With `if_version` None, create a memory; this fails if one exists at `path`. This method is for editors, which
        read a text, let a person change it, and save it.
        """
        who = _checked(actor, None, source, session)
        call = Invocation(who, None, self.integration, source, session)
        with self.checking("save", who):
            target = self.parsed(path)
        return self.reply(Save(target, text, if_version), call)

    def refused(self, name: str | None, error: Refused, *, actor: Actor | str | None = None) -> Reply:
        """Return the reply to a malformed tool call, and add an audit entry as for any other call."""
        return self.reply(AuditOnly(name, error), self.invocation(actor))

    def reply(self, operation: Operation[R], invocation: Invocation) -> Reply:
        """Run an operation and render its outcome; failures of storage become replies too."""
        try:
            outcome = pipeline.run(self, operation, invocation)
            result = outcome.result
            if isinstance(result, Viewed) and result.memory is not None:
                self.accesses.note(self.id, result.memory)
            return rendered(self, operation, outcome)
        except RetentiveError as error:
            return error_reply(Say(self.replies, self.redacted), error, paths_named(operation))

    def run(self, operation: Operation[R], invocation: Invocation) -> Outcome[R]:
        """Run an operation through all stages. Raises storage errors."""
        return pipeline.run(self, operation, invocation)

    def peek(self, operation: ReadOperation[R]) -> R:
        """Run a read as part of a larger operation, whose audit entry covers both. Raises `RetentiveError`."""
        return pipeline.peek(self, operation, self.invocation()).value()

    def follow_up(self, work: Callable[[Transaction], T], *, may_use_reserve: bool = False) -> T:
        """Run bookkeeping that changes no memory, in its own transaction."""
        return pipeline.follow_up(self, work, may_use_reserve=may_use_reserve)

    def load(self, path: str) -> tuple[Memory, str]:
        """Return the memory at `path` and its text. Raises `NotFound`."""
        with self.checking("load"):
            target = self.parsed(path)
        return self.result_of(load(target))

    def text(self, path: str) -> str:
        """Return the text of the memory at `path`. Raises `NotFound`."""
        return self.load(path)[1]

    def memories(self, under: str = ROOT) -> Iterator[Memory]:
        """All memories below a directory, in byte order of their paths."""
        with self.checking("list"):
            target = self.parsed(under)
        return iter(self.result_of(list_memories(target)))

    def versions(
        self, path: str | None = None, *, memory_id: str | None = None, limit: int | None = None
    ) -> Iterator[Version]:
        """Iterate over versions, newest first: all, those at one path, or those of one memory across renames."""
        with self.checking("versions"):
            at = None if path is None else self.parsed(path)

        def work(snapshot: Snapshot) -> list[Version]:
            return list(snapshot.versions(memory_id=memory_id, path=None if at is None else at.text, limit=limit))

        return iter(self.result_of(Read("versions", work, at)))

    def version_text(self, version_id: str) -> str:
        """Text after the change that a version records; empty for a deletion. Raises `NotFound`."""
        return self.result_of(read_version(version_id))[1] or ""

    def search(
        self,
        query: str,
        *,
        under: str = ROOT,
        paths: Sequence[str] = (),
        regex: bool = False,
        source: str | None = None,
        trust: Level | None = None,
        limit: int | None = 20,
        actor: Actor | str | None = None,
    ) -> Results:
        """Search for memories below a directory that contain all words of a query, newest first, with matching lines.

        Words match anywhere in texts and paths, in any language, ignoring case; "words in quotes" match as a phrase,
        and -word excludes memories with that word. `paths` are path patterns, as in settings. With `regex` the query is
        one regular expression (extra `guards`). `source` is a pattern: only memories with a contributor of such a
        source; `trust` is a level: only memories at it. Memories hidden from `actor` are not found, except in
        quarantine if that is the level asked for. Raises `InvalidInput`.
        """
        from retentive.search.index import Corpus  # noqa: PLC0415
        from retentive.search.query import parse_query  # noqa: PLC0415 - most processes never search

        corpus = self._corpus = self._corpus or Corpus()
        who = as_actor(actor) or self.actor
        with self.checking("search", actor):
            target = self.parsed(under)

        def work(snapshot: Snapshot) -> Results:
            parsed = parse_query(query, regex=regex, within=paths)  # here, so that a malformed query has its entry
            settings, levels = self.settings_of(snapshot), None
            if settings.trust or settings.quarantine or source is not None or trust is not None:
                from retentive.engine.trust.overlay import levels_by_path  # noqa: PLC0415 - rarely needed

                levels = levels_by_path(snapshot, settings, who, source=source, only=trust)
            return corpus.search(snapshot, parsed, under=target.text, limit=limit, levels=levels)

        return self.result_of(Read("search", work, target, needs_external_edits=True, sees_all=True), actor)

    def usage(self) -> Usage:
        """Number and total size of the memories."""
        return self.result_of(Read("usage", lambda snapshot: snapshot.usage()))

    def change_settings(self, changes: Mapping[str, object], *, actor: Actor | str | None = None) -> Settings:
        """Change settings for every process that uses the store; return the stored settings.

        A value of None restores the default. Raises `InvalidInput`, and changes nothing, if a name or value is invalid;
        raises `ReadOnly` if this process has pinned `read_only`.
        """
        return self.result_of(ChangeSettings(changes, self.examiner, bool(self.pins.get("read_only"))), actor)

    @property
    def history(self) -> History:
        """History of the store: log, versions, blame, restore, undo, redact and erase."""
        from retentive.history import History  # noqa: PLC0415 - see above

        return History(self)

    @property
    def review(self) -> Review:
        """Proposals of actors whose changes need review."""
        from retentive.review.session import Review  # noqa: PLC0415 - see above

        return Review(self)

    @property
    def trust(self) -> Trust:
        """Trust in memories: doubted ones, confirmations and quarantine."""
        from retentive.review.trust import Trust  # noqa: PLC0415 - see above

        return Trust(self)

    @property
    def audit(self) -> Audit:
        """Audit log with the actor, operation, time and outcome of each call made while the setting `audit` is on."""
        from retentive.audit.reader import Audit  # noqa: PLC0415 - see above

        return Audit(self)

    def sweep(self, *, dry_run: bool = False, accept_clock: bool = False) -> Swept:
        """Expire idle memories and prune old versions, as the settings say; with `dry_run`, only report them.

        If the clock is more than 7 days ahead of the time last seen, nothing is removed and `clock_jump` is set:
        `accept_clock` trusts it, as does a second sweep a day later. On a database server its clock counts.
        """
        from retentive.history.expiry import sweep  # noqa: PLC0415 - see above

        return sweep(self, dry_run=dry_run, accept_clock=accept_clock)

    def scan(
        self,
        *,
        redact: bool = False,
        history: bool = False,
        likely: bool = False,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> list[Finding]:
        """Find texts and paths with sensitive values, regardless of the settings; return their kinds.

        `redact` removes the certain values from the texts of memories, and with `likely` the likely values too. A
        person must rename a memory whose path contains a value. With `history`, older versions and their paths are
        scanned too, and `redact` redacts each version that contains a value. Without `history`, older versions keep the
        values. Raises `InvalidInput` for memories that cannot be rewritten.
        """
        from retentive.history.scan import scan  # noqa: PLC0415 - see above

        return scan(self, actor, redact=redact, history=history, likely=likely, **origin)


def _checked(
    actor: Actor | str | None, tool_use_id: object, source: object = None, session: object = None
) -> Actor | None:
    """Validate the actor, the tool_use id, the source and the session; return the actor. Raises `InvalidInput`."""
    if tool_use_id is not None and not isinstance(tool_use_id, str):
        raise InvalidInput(f"a tool_use id must be a string, not {type(tool_use_id).__name__}")
    origin_of(source, session)
    return as_actor(actor)
