"""Memory store: the class that applications use. It runs operations through a `StoreCore` (`engine/core.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Literal, Unpack

from retentive.engine.core import StoreCore
from retentive.engine.handlers import RunCommand, RunView
from retentive.engine.memories import Memories
from retentive.engine.operation import AuditOnly, Read
from retentive.engine.queries import list_memories, load, read_version
from retentive.errors import InvalidInput, Refused
from retentive.storage import capabilities
from retentive.storage.contract import Actor, Backend, Memory, Snapshot, StoreInfo, Usage, Version, as_actor
from retentive.values.commands import Clear, Command, View, command_name, parse
from retentive.values.names import plain_name
from retentive.values.paths import ROOT
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Invocation, RequestKey, Written
from retentive.values.replies import Replies, Reply
from retentive.values.settings import Settings

if TYPE_CHECKING:  # imported on first use: most processes only run commands
    from datetime import datetime

    from retentive.audit.reader import Audit
    from retentive.engine.core import StoreOptions
    from retentive.engine.listings import Listed, ListingCursor
    from retentive.engine.trust.levels import Level
    from retentive.history.expiry import Swept
    from retentive.history.history import History
    from retentive.history.plan import Mode, RestoreOutcome
    from retentive.history.revisions import Named
    from retentive.history.scan import Finding
    from retentive.review.session import Review
    from retentive.review.trust import Trust
    from retentive.search.results import Results
    from retentive.store.by_id import ById
    from retentive.values.pages import ListPage


class MemoryStore(Memories):
    """One memory store, opened with `Retentive.store`. Threads may share it.

    Models use `execute`, which returns errors of input or storage as replies. Applications use the other methods, which
    return values and raise `RetentiveError`. Methods that write return a `Written` when the change is durable. They
    record `actor`, `source` and `session` with the change.

    If `if_version` is given, it must be the id of the newest version of the memory; otherwise the method raises
    `Conflict` and changes nothing. An empty `if_version` means that the memory must not exist.
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
        """Key that the application gave the store. It is unique in its workspace."""
        return self._core.info.key

    @property
    def name(self) -> str:
        """Display name."""
        return self._core.info.name

    @property
    def actor(self) -> Actor | None:
        """Actor that is recorded with a change if the call names no actor."""
        return self._core.actor

    @property
    def replies(self) -> Replies:
        """Sentences used in replies and errors."""
        return self._core.replies

    def read_only(self) -> MemoryStore:
        """Return an object for the same memory store. This object refuses all changes."""
        return self._again(self._core.with_options(pins={**self._core.pins, "read_only": True}))

    def acting_as(self, actor: Actor | str) -> MemoryStore:
        """Return an object for the same memory store. Its calls run as this actor, unless a call names another one."""
        return self._again(self._core.with_options(actor=as_actor(actor)))

    def through(self, integration: str) -> MemoryStore:
        """Return an object for the same memory store. Audit entries for calls of this object contain `integration`.

        The result is cached, so that an integration can call this method for every request.
        """
        if integration == self._core.integration:
            return self
        known = self._through = self._through or {}
        if integration not in known:
            known[integration] = self._again(self._core.with_options(integration=integration))
        return known[integration]

    def _again(self, core: StoreCore) -> MemoryStore:
        store = copy(self)  # keeps the class if the application subclassed MemoryStore
        store._core, store._through = core, None  # noqa: SLF001 - the same class
        return store

    def directory(self) -> str | None:
        """Directory that contains the memories as plain files, or None if the backend has no such directory."""
        return capabilities.directory_of(self._core.backend, self._core.info)

    def execute(
        self,
        command: object,
        *,
        actor: Actor | str | None = None,
        tool_use_id: str | None = None,
        run: str | None = None,
        source: str | None = None,
        session: str | None = None,
    ) -> Reply:
        """Run a command and return the reply. `command` is a parsed command or the raw input of a tool call.

        If the reply is not an error, the change is durable. If a change is repeated with the same `tool_use_id` within
        24 hours, the first reply is returned and nothing changes. An id that is not one of the Claude API counts only
        within the `run` that the application names, for the same actor, and while the change still stands.

        `actor` is recorded with the change. The default is the actor that the store was opened with. `source` (such as
        `web:https://...`, `user` or `tool:name`) and `session` are recorded in the provenance of the change
        (docs/trust.md). Raises `InvalidInput` for an invalid actor, `tool_use_id`, run, source or session.
        """
        core = self._core
        who = _checked(actor, tool_use_id, run, source, session)
        invocation = Invocation(who, tool_use_id, core.integration, source, session, core.request, run)
        try:
            known = parse(command) if type(command) is dict or not isinstance(command, Command) else command
        except Refused as refusal:
            return core.reply(AuditOnly(command_name(command), refusal), invocation)
        if isinstance(known, View):
            return core.reply(RunView(known, core.listings), invocation)
        return core.reply(RunCommand(known), invocation)

    def clear(
        self,
        *,
        actor: Actor | str | None = None,
        tool_use_id: str | None = None,
        run: str | None = None,
        **origin: Unpack[Origin],
    ) -> Reply:
        """Delete all memories in one transaction. The arguments are those of `execute`."""
        core, who = self._core, _checked(actor, tool_use_id, run, **origin)
        invocation = Invocation(who, tool_use_id, core.integration, **origin, request=core.request, run=run)
        return self._core.reply(RunCommand(Clear()), invocation)

    def _checking(self, name: str, actor: Actor | str | None) -> AbstractContextManager[None]:
        return self._core.checking(name, actor)

    def _written(self, command: Command, if_version: str | None, actor: Actor | str | None, origin: Origin) -> Written:
        assert not isinstance(command, View)
        invocation = self._core.invocation(actor, **origin)
        return self._core.written(RunCommand(command, if_version), invocation)

    def load(self, path: str) -> tuple[Memory, str]:
        """Return the memory at `path` and its text. Raises `NotFound`."""
        with self._core.checking("load"):
            target = self._core.parsed(path)
        return self._core.found(load(target))

    def memories(self, under: str = ROOT) -> list[Memory]:
        """Return all memories below a directory, in byte order of their paths."""
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
        """Return one page of the memories below a directory, in byte order of their paths.

        With `depth` 1, the page lists only the memories and directories directly in the directory. With `texts`, each
        memory comes with its text. `cursor` is the `next` of the previous page.

        All pages show the store as it was when the first page was read, so a memory that exists from the first page to
        the last is on exactly one page. Raises `CursorExpired` if versions that these pages need were removed after the
        first page was read.
        """
        from retentive.engine.listings import ListMemories  # noqa: PLC0415 - most processes do not need it

        with self._core.checking("list"):
            target = self._core.parsed(under)
            if limit < 1 or depth not in {0, 1}:
                raise InvalidInput("`limit` must be at least 1, and `depth` must be 0 or 1")
        return self._core.found(ListMemories(target, depth, cursor, limit, texts))

    def versions(
        self, path: str | None = None, *, memory_id: str | None = None, limit: int | None = None
    ) -> list[Version]:
        """Return versions, newest first. By default, these are all versions of the store.

        `path` selects the versions recorded at one path. `memory_id` selects those of one memory, across its renames.
        """
        with self._core.checking("versions"):
            at = None if path is None else self._core.parsed(path)

        def work(snapshot: Snapshot) -> list[Version]:
            return list(snapshot.versions(memory_id=memory_id, path=None if at is None else at.text, limit=limit))

        return self._core.found(Read("versions", work, at))

    def version_text(self, version_id: str) -> str:
        """Return the text of a version. It is empty for a deletion or a redacted version. Raises `NotFound`."""
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
        """Reverse one change. `change` is a revision such as `HEAD`, or the id of a version. See `History.undo`."""
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
        """Reverse all changes of an actor. `by` is an actor pattern such as `session:s1`. See `History.undo_by`."""
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
        """Search for memories below a directory. The best matches come first, each with its best lines.

        By default, a memory matches if it contains any word of the query (docs/search.md describes the operators). With
        `mode="all"`, a memory must contain all words exactly as written, and the most recently changed memory comes
        first. With `regex`, the query is one regular expression; this needs the extra `guards`.

        `paths` are path patterns, as in settings. `at` is a revision or a time: the search covers the memories of that
        time. With `history`, all versions are searched. If versions of a memory have the same matching lines, only the
        oldest of these versions is returned. With `source`, a contributor to the memory must have a source that matches
        this pattern. With `trust`, the memory must have this trust level. Memories hidden from `actor` are not found.
        Memories in quarantine are found only with `trust="quarantined"`. Raises `InvalidInput`.
        """
        from retentive.history.searching import StoreSearch  # noqa: PLC0415 - most processes never search

        with self._core.checking("search", actor):
            target = self._core.parsed(under)
        search = StoreSearch(query, mode, regex, target.text, tuple(paths), at, history, source, trust, limit)
        return search.run(self._core, actor, partial(self._core.found, actor=actor))

    def batch(
        self, commands: Sequence[object], *, actor: Actor | str | None = None, **origin: Unpack[Origin]
    ) -> list[Written]:
        """Run up to 100 commands as one change. Return a `Written` for each command.

        `commands` are inputs of tool calls, such as `{"command": "create", "path": ..., "file_text": ...}`; `view` is
        not allowed. A command may have a field `if_version`: the id that the newest version of the memory must have.
        Each command sees the changes of the commands before it.

        If one command is refused, nothing changes. Its error is raised, and the `position` of the error is the index of
        the command.
        """
        from retentive.engine.batch import batch_of  # noqa: PLC0415 - rarely needed

        with self._core.checking("batch", actor):
            batch = batch_of(self._core, commands)
        return self._core.written_together(batch, self._core.invocation(actor, **origin))

    @property
    def by_id(self) -> ById:
        """Access to memories by their ids: read, update and delete."""
        from retentive.store.by_id import ById  # noqa: PLC0415 - most processes do not need it

        return ById(self._core)

    def usage(self) -> Usage:
        """Return the number and the total size of the memories."""
        return self._core.found(Read("usage", lambda snapshot: snapshot.state.usage))

    def settings(self) -> Settings:
        """Return the effective settings: the stored settings, overridden by the settings given to `retentive.open`."""
        return self._core.settings()

    def change_settings(self, changes: Mapping[str, object], *, actor: Actor | str | None = None) -> Settings:
        """Change settings for every process that uses the store. Return the stored settings after the change.

        A value of None restores the default. If a name or value is invalid, raises `InvalidInput` and changes nothing.
        Raises `ReadOnly` if this process opened the store with the setting `read_only`.
        """
        from retentive.engine.settings import ChangeSettings  # noqa: PLC0415 - see above

        operation = ChangeSettings(changes, self._core.examiner, bool(self._core.pins.get("read_only")))
        return self._core.found(operation, actor)

    @property
    def history(self) -> History:
        """History of the store: log, versions, blame, restore, undo, redact and erase."""
        from retentive.history.history import History  # noqa: PLC0415 - see above

        return History(self._core)

    @property
    def review(self) -> Review:
        """Review of proposals: changes that wait for the decision of a person, because their actor is under review."""
        from retentive.review.session import Review  # noqa: PLC0415 - see above

        return Review(self._core)

    @property
    def trust(self) -> Trust:
        """Trust in memories: lists of untrusted memories, confirmations and quarantine."""
        from retentive.review.trust import Trust  # noqa: PLC0415 - see above

        return Trust(self._core)

    @property
    def audit(self) -> Audit:
        """Audit log: actor, operation, time and outcome of each call that was made while the setting `audit` was on."""
        from retentive.audit.reader import Audit  # noqa: PLC0415 - see above

        return Audit(self._core)

    def sweep(self, *, dry_run: bool = False, accept_clock: bool = False) -> Swept:
        """Delete idle memories and prune old versions, as the settings say. With `dry_run`, only report them.

        If the clock is more than 7 days ahead of the last sweep and of all changes since then, the clock may be wrong.
        In this case nothing is removed, and `clock_jump` is set in the result. If the clock is right, pass
        `accept_clock`, or sweep again after a day. On a database server, the server's clock is used without this check.
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
        """Find sensitive values in texts and paths, even if the settings turn off the checks of new texts.

        With `redact`, values that are certainly sensitive are removed from the texts of memories. With `redact` and
        `likely`, values that are likely to be sensitive are removed too. Paths are never changed: a person must rename
        a memory whose path contains a sensitive value.

        With `history`, older versions and their paths are scanned too, and `redact` redacts each version that contains
        a sensitive value. Without `history`, older versions keep the values. Raises `InvalidInput` if memories cannot
        be rewritten.
        """
        from retentive.history.scan import scan  # noqa: PLC0415 - see above

        return scan(self._core, actor, redact=redact, history=history, likely=likely, **origin).findings


def core_of(store: MemoryStore) -> StoreCore:
    """Return the `StoreCore` of a memory store. Only modules of this package use it."""
    return store._core  # noqa: SLF001 - the one way to the core


def for_request(store: MemoryStore, request: RequestKey) -> MemoryStore:
    """Return an object for the same memory store. This object serves one client request.

    If the client repeats the request, the operations of the returned object do not run again.
    """
    return store._again(store._core.with_options(request=request))  # noqa: SLF001 - as above


def limited_to(store: MemoryStore, paths: tuple[str, ...]) -> MemoryStore:
    """Return an object for the same memory store. This object shows and changes only memories at some paths.

    `paths` are patterns of these paths. If `paths` is empty, access is not limited.
    """
    return store._again(store._core.with_options(scope=paths)) if paths else store  # noqa: SLF001 - as above


def hiding_history(store: MemoryStore) -> MemoryStore:
    """Return an object for the same memory store. What is hidden from its actor is hidden in the history too."""
    return store._again(store._core.with_options(hides_history=True))  # noqa: SLF001 - as above


def recording_key(store: MemoryStore, api_key_id: str) -> MemoryStore:
    """Return an object for the same memory store. This object records changes with the id of this API key."""
    return store._again(store._core.with_options(api_key_id=api_key_id))  # noqa: SLF001 - as above


def _checked(
    actor: Actor | str | None, tool_use_id: object, run: str | None, source: object = None, session: object = None
) -> Actor | None:
    if tool_use_id is not None and not isinstance(tool_use_id, str):
        raise InvalidInput(f"a tool_use id must be a string, not {type(tool_use_id).__name__}")
    if run is not None:
        plain_name("a run", run)
    origin_of(source, session)
    return as_actor(actor)
