"""Memory store: the class for applications. Its operations run in its `StoreCore` (`retentive.pipeline`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

from retentive import deprecation
from retentive.engine.command_handlers import RunCommand, RunView
from retentive.engine.memories import Memories
from retentive.engine.operation import AuditOnly, Read
from retentive.engine.queries import list_memories, load, read_version
from retentive.errors import InvalidInput, Refused
from retentive.pipeline import StoreCore
from retentive.storage import capabilities
from retentive.storage.contract import Actor, Backend, Memory, Snapshot, StoreInfo, Usage, Version, as_actor
from retentive.values.commands import Clear, Command, Delete, View, command_name, parse
from retentive.values.paths import ROOT
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Invocation, RequestKey, Written
from retentive.values.replies import Replies, Reply
from retentive.values.settings import Settings

if TYPE_CHECKING:  # imported on first use: most processes only run commands
    from datetime import datetime

    from retentive.audit.reader import Audit
    from retentive.engine.context import StoreOptions
    from retentive.engine.listings import Listed, ListingCursor
    from retentive.engine.trust.levels import Level
    from retentive.history.apply import RestoreOutcome
    from retentive.history.expiry import Swept
    from retentive.history.history import History
    from retentive.history.plan import Mode
    from retentive.history.revisions import Named
    from retentive.history.scan import Finding
    from retentive.review.session import Review
    from retentive.review.trust import Trust
    from retentive.search.results import Results
    from retentive.store.by_id import ById
    from retentive.values.pages import ListPage


class MemoryStore(Memories):
    """One memory store, opened with `Retentive.store`. Threads may share it.

    Models use it through `execute`, which returns errors of input or storage as replies. The other methods are for
    people: they return values and raise `RetentiveError`. Methods that write return a `Written` when the change is
    durable. If `if_version` is given and is not the id of the newest version of the memory, they raise `Conflict` and
    change nothing; "" requires that there is no memory. `actor`, `source` and `session` are recorded with the change.
    """

    _through: dict[str, MemoryStore] | None = None

    def __init__(self, backend: Backend, info: StoreInfo, **options: Unpack[StoreOptions]) -> None:
        self._core = StoreCore(backend, info, **options)

    def __repr__(self) -> str:
        return f"<MemoryStore {self.id} key={self.key!r}>"

    @property
    def id(self) -> str:
        """Id of the store, such as `memstore_...`."""
        return self._core.id

    @property
    def key(self) -> str | None:
        """Key that the application gave the store, unique in the backend."""
        return self._core.info.key

    @property
    def name(self) -> str:
        """Display name."""
        return self._core.info.name

    @property
    def actor(self) -> Actor | None:
        """Actor recorded with changes if the call names no other actor."""
        return self._core.actor

    @property
    def replies(self) -> Replies:
        """Sentences used in replies and errors."""
        return self._core.replies

    def read_only(self) -> MemoryStore:
        """The same memory store with `read_only` pinned."""
        return self._again(self._core.again(pins=self._core.pins | {"read_only": True}))

    def acting_as(self, actor: Actor | str) -> MemoryStore:
        """The same memory store. Changes and reads are by this actor, unless a call names another actor."""
        return self._again(self._core.again(actor=as_actor(actor)))

    def through(self, integration: str) -> MemoryStore:
        """The same memory store with this integration in its audit entries.

        Calls with the same name return the same object, so integrations can call this method for every request.
        """
        if integration == self._core.integration:
            return self
        known = self._through = self._through or {}
        if integration not in known:
            known[integration] = self._again(self._core.again(integration=integration))
        return known[integration]

    def _again(self, core: StoreCore) -> MemoryStore:
        store = copy(self)  # keeps the class if the application subclassed MemoryStore
        store._core, store._through = core, None  # noqa: SLF001 - the same class
        return store

    def directory(self) -> str | None:
        """Directory in which the memories are plain files; None for other backends."""
        return capabilities.directory_of(self._core.backend, self._core.info)

    def execute(
        self,
        command: object,
        *,
        actor: Actor | str | None = None,
        tool_use_id: str | None = None,
        source: str | None = None,
        session: str | None = None,
    ) -> Reply:
        """Run a command and return the reply. `command` is a parsed command or the raw input of a tool call.

        If the reply is not an error, the change is durable. `actor` is recorded with the change; by default it is
        the actor the store was opened with. A change repeated with the same `tool_use_id` by the same actor within 24
        hours returns its first reply and changes nothing. `source` (such as `web:https://...`, `user` or `tool:name`)
        and `session` are recorded in the provenance of the change (docs/trust.md). Raises `InvalidInput` for an invalid
        actor, `tool_use_id`, source or session.
        """
        core = self._core
        if actor is not None or tool_use_id is not None or source is not None or session is not None:
            actor = _checked(actor, tool_use_id, source, session)
            invocation = Invocation(actor, tool_use_id, core.integration, source, session)
        else:
            invocation = core.usual_invocation
        try:
            known = parse(command) if type(command) is dict or not isinstance(command, Command) else command
        except Refused as refusal:
            return core.reply(AuditOnly(command_name(command), refusal), invocation)
        if isinstance(known, View):
            return core.reply(RunView(known, core.lines, core.listings), invocation)
        return core.reply(RunCommand(known, isinstance(known, Delete)), invocation)

    def clear(
        self, *, actor: Actor | str | None = None, tool_use_id: str | None = None, **origin: Unpack[Origin]
    ) -> Reply:
        """Delete all memories in one transaction. The arguments are those of `execute`."""
        who = _checked(actor, tool_use_id, **origin)
        invocation = Invocation(who, tool_use_id, self._core.integration, **origin)
        return self._core.reply(RunCommand(Clear(), may_use_reserve=True), invocation)

    def _checking(self, name: str, actor: Actor | str | None) -> AbstractContextManager[None]:
        return self._core.checking(name, actor)

    def _written(self, command: Command, if_version: str | None, actor: Actor | str | None, origin: Origin) -> Written:
        assert not isinstance(command, View)
        invocation = self._core.invocation(actor, **origin)
        return self._core.written(RunCommand(command, isinstance(command, Delete), if_version), invocation)

    def load(self, path: str) -> tuple[Memory, str]:
        """Return the memory at `path` and its text. Raises `NotFound`."""
        with self._core.checking("load"):
            target = self._core.parsed(path)
        return self._core.found(load(target))

    def memories(self, under: str = ROOT) -> list[Memory]:
        """All memories below a directory, in byte order of their paths."""
        with self._core.checking("list"):
            target = self._core.parsed(under)
        return self._core.found(list_memories(target))

    def list_memories(
        self,
        under: str = ROOT,
        *,
        depth: Literal[0, 1] = 0,
        cursor: ListingCursor | None = None,
        limit: int = 100,
        texts: bool = False,
    ) -> ListPage[Listed, ListingCursor]:
        """One page of the memories below a directory, in byte order. With `depth` 1, one level with its directories.

        `cursor` is the `next` of the previous page. All pages show the state at the first page, so a memory that exists
        throughout is on exactly one page. Raises `CursorExpired` if versions of that state were removed since.
        """
        from retentive.engine.listings import ListMemories  # noqa: PLC0415 - most processes do not need it

        with self._core.checking("list"):
            target = self._core.parsed(under)
            if limit < 1 or depth not in {0, 1}:
                raise InvalidInput("the limit must be at least 1, and the depth 0 or 1")
        return self._core.found(ListMemories(target, depth, cursor, limit, texts))

    def versions(
        self, path: str | None = None, *, memory_id: str | None = None, limit: int | None = None
    ) -> list[Version]:
        """Versions, newest first: of the whole store, of one path, or of one memory across renames."""
        with self._core.checking("versions"):
            at = None if path is None else self._core.parsed(path)

        def work(snapshot: Snapshot) -> list[Version]:
            return list(snapshot.versions(memory_id=memory_id, path=None if at is None else at.text, limit=limit))

        return self._core.found(Read("versions", work, at))

    def version_text(self, version_id: str) -> str:
        """Text of a version; empty for a deletion or a redacted version. Raises `NotFound`."""
        return self._core.found(read_version(version_id))[1] or ""

    def undo(
        self,
        change: Named,
        *,
        path: str | None = None,
        mode: Mode = "refuse",
        dry_run: bool = False,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> RestoreOutcome:
        """Reverse one whole change, given by a revision such as `HEAD` or the id of a version. See `History.undo`."""
        return self.history.undo(change, path=path, mode=mode, dry_run=dry_run, actor=actor, **origin)

    def undo_by(
        self,
        by: str,
        *,
        since: datetime | None = None,
        mode: Mode = "refuse",
        dry_run: bool = False,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> RestoreOutcome:
        """Reverse all changes of an actor, given as a pattern such as `session:s1`. See `History.undo_by`."""
        return self.history.undo_by(by, since=since, mode=mode, dry_run=dry_run, actor=actor, **origin)

    def search(
        self,
        query: str,
        *,
        mode: Literal["ranked", "all"] = "ranked",
        under: str = ROOT,
        paths: Sequence[str] = (),
        regex: bool = False,
        at: Named | None = None,
        history: bool = False,
        source: str | None = None,
        trust: Level | None = None,
        limit: int | None = 20,
        actor: Actor | str | None = None,
    ) -> Results:
        """Search for memories below a directory, best first, with their best lines. docs/search.md has the operators.

        By default, a memory that contains one of the words is found. With `mode="all"`, it must contain all words as
        they are written, and the newest change is first. With `regex`, the query is one regular expression (extra
        `guards`). `paths` are path patterns, as in settings. `at` is a revision or a time to search instead of the
        present. `history` searches all versions, and finds the first version with each text. `source` is a pattern that
        the source of a contributor must match. `trust` is the level that a memory must have. Memories hidden from
        `actor` are not found, except that memories in quarantine are found if `trust` is their level. Raises
        `InvalidInput`.
        """
        from retentive.history.searching import StoreSearch  # noqa: PLC0415 - most processes never search

        with self._core.checking("search", actor):
            target = self._core.parsed(under)
        search = StoreSearch(query, mode, regex, target.text, tuple(paths), at, history, source, trust, limit)
        return search.run(self._core, actor, partial(self._core.found, actor=actor))

    def batch(
        self, commands: Sequence[object], *, actor: Actor | str | None = None, **origin: Unpack[Origin]
    ) -> list[Written]:
        """Run up to 100 commands as one change, all or none. Return a `Written` for each command.

        `commands` are inputs of tool calls, such as `{"command": "create", "path": ..., "file_text": ...}`, but not
        `view`. Each may have `if_version`, the id that the newest version of the memory must have. A command sees the
        changes of the commands before it. If a command is refused, its error is raised, with its index as `position`.
        """
        from retentive.engine.batch import batch_of  # noqa: PLC0415 - rarely needed

        with self._core.checking("batch", actor):
            batch = batch_of(self._core, commands)
        return self._core.written_together(batch, self._core.invocation(actor, **origin))

    @property
    def by_id(self) -> ById:
        """The memories by their ids: read, update and delete."""
        from retentive.store.by_id import ById  # noqa: PLC0415 - most processes do not need it

        return ById(self._core)

    def usage(self) -> Usage:
        """Number and total size of the memories."""
        return self._core.found(Read("usage", lambda snapshot: snapshot.usage()))

    def settings(self) -> Settings:
        """Effective settings: the stored settings, overridden by the settings given to `retentive.open`."""
        return self._core.settings()

    def change_settings(self, changes: Mapping[str, object], *, actor: Actor | str | None = None) -> Settings:
        """Change settings for every process that uses the store; return the stored settings.

        A value of None restores the default. Raises `InvalidInput`, and changes nothing, if a name or value is invalid;
        raises `ReadOnly` if this process has pinned `read_only`.
        """
        from retentive.engine.settings import ChangeSettings  # noqa: PLC0415 - see above

        operation = ChangeSettings(changes, self._core.examiner, bool(self._core.pins.get("read_only")))
        deprecation.warn("setting", *changes)
        return self._core.found(operation, actor)

    @property
    def history(self) -> History:
        """History of the store: log, versions, blame, restore, undo, redact and erase."""
        from retentive.history.history import History  # noqa: PLC0415 - see above

        return History(self._core)

    @property
    def review(self) -> Review:
        """Proposals of actors whose changes need review."""
        from retentive.review.session import Review  # noqa: PLC0415 - see above

        return Review(self._core)

    @property
    def trust(self) -> Trust:
        """Trust in memories: untrusted memories, confirmations and quarantine."""
        from retentive.review.trust import Trust  # noqa: PLC0415 - see above

        return Trust(self._core)

    @property
    def audit(self) -> Audit:
        """Audit log with the actor, operation, time and outcome of each call made while the setting `audit` is on."""
        from retentive.audit.reader import Audit  # noqa: PLC0415 - see above

        return Audit(self._core)

    def sweep(self, *, dry_run: bool = False, accept_clock: bool = False) -> Swept:
        """Expire idle memories and prune old versions, as the settings say; with `dry_run`, only report them.

        If the clock is more than 7 days ahead of the time last seen, nothing is removed and `clock_jump` is set.
        `accept_clock` trusts the clock, and so does a second sweep a day later. A database server uses its own clock.
        """
        from retentive.history.expiry import sweep  # noqa: PLC0415 - see above

        return sweep(self._core, dry_run=dry_run, accept_clock=accept_clock)

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

        return scan(self._core, actor, redact=redact, history=history, likely=likely, **origin).findings


def search_once(store: MemoryStore, query: str, **options: Any) -> Results:
    """Search like `MemoryStore.search`, but without building an index. For processes that search only once."""
    from retentive.history.searching import StoreSearch  # noqa: PLC0415 - see above

    core = core_of(store)
    with core.checking("search"):
        options["under"] = core.parsed(options.get("under", ROOT)).text
    return StoreSearch(query, **options, is_single=True).run(core, None, core.found)


def core_of(store: MemoryStore) -> StoreCore:
    """The core of a memory store, for the other parts of the package."""
    return store._core  # noqa: SLF001 - the one way to the core


def for_request(store: MemoryStore, request: RequestKey) -> MemoryStore:
    """The same memory store, whose operations do not run again if the request is repeated."""
    return store._again(store._core.again(request=request))  # noqa: SLF001 - as above


def limited_to(store: MemoryStore, paths: tuple[str, ...]) -> MemoryStore:
    """The same memory store for a caller that sees and changes only paths that match these patterns."""
    return store._again(store._core.again(reach=paths)) if paths else store  # noqa: SLF001 - as above


def _checked(
    actor: Actor | str | None, tool_use_id: object, source: object = None, session: object = None
) -> Actor | None:
    """Validate the actor, the tool_use id, the source and the session; return the actor. Raises `InvalidInput`."""
    if tool_use_id is not None and not isinstance(tool_use_id, str):
        raise InvalidInput(f"a tool_use id must be a string, not {type(tool_use_id).__name__}")
    origin_of(source, session)
    return as_actor(actor)
