"""Memory store: the class that applications use. It runs operations through a `StoreCore` (`engine/core.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Unpack

from retentive.audit.reader import Audit
from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard
from retentive.engine.handlers import MAX_BATCH, run_batch, run_command, run_view
from retentive.engine.lists import Listed, ListingCursor, list_memories, list_page, load, read_version
from retentive.engine.memories import CallOptions, MemoryTree, parse_for_applications
from retentive.engine.operation import CommandResult, Outcome, Plan, Read, Write, audit_only
from retentive.engine.visibility import Level
from retentive.errors import InvalidInput, Refused, RetentiveError
from retentive.history.expiry import Swept, sweep
from retentive.history.history import History
from retentive.history.plan import RestoreOptions, RestoreOutcome
from retentive.history.revisions import Named
from retentive.history.scan import Finding, scan
from retentive.review.promotion import Promoted, promote
from retentive.review.session import Review
from retentive.review.trust import Trust
from retentive.storage.contract import Actor, Backend, Memory, Snapshot, StoreInfo, Usage, Version, as_actor
from retentive.store.by_id import ById
from retentive.store.citing import Citing
from retentive.values.commands import Clear, Command, View, command_name, parse
from retentive.values.listing import ListPage
from retentive.values.paths import ROOT
from retentive.values.records import By, Written
from retentive.values.replies import Reply
from retentive.values.settings import DEFAULTS, Settings, check_names, from_text

if TYPE_CHECKING:
    from retentive.search.recall import Recall
    from retentive.search.results import Results


class MemoryStore(Citing):
    """One memory store, opened with `Retentive.store`. Threads may share it.

    Models use `execute`, which returns errors of input or storage as replies. Applications use the other methods, which
    return values and raise `RetentiveError`. Methods that write return a `Written` when the change is durable. They
    record `actor`, `source` and `session` with the change.

    If `if_version` is given, it must be the id of the newest version of the memory; otherwise the method raises
    `Conflict` and changes nothing. An empty `if_version` means that the memory must not exist.
    """

    def __init__(self, backend: Backend, info: StoreInfo, **options: Any) -> None:
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

    def read_only(self) -> MemoryStore:
        """Return an object for the same memory store. This object refuses all changes."""
        return with_options(self, pins={**self._core.pins, "read_only": True})

    def acting_as(self, actor: Actor | str) -> MemoryStore:
        """Return an object for the same memory store. Its calls run as this actor, unless a call names another one."""
        return with_options(self, actor=as_actor(actor))

    def through(self, integration: str) -> MemoryStore:
        """Return an object for the same memory store. Audit entries for calls of this object contain `integration`."""
        return self if integration == self._core.integration else with_options(self, integration=integration)

    def directory(self) -> str | None:
        """Directory that contains the memories as plain files, or None if the backend has no such directory."""
        return self._core.backend.directory_of(self._core.info)

    def execute(self, command: object, **options: Unpack[CallOptions]) -> Reply:
        """Run a command and return the reply. `command` is a parsed command or the raw input of a tool call.

        If the reply is not an error, the change is durable. If a change is repeated with the same `tool_use_id` within
        24 hours, the first reply is returned and nothing changes. An id that is not one of the Claude API counts only
        within the `run` that the application names, for the same actor, and while the change still stands.

        `actor` is recorded with the change. The default is the actor that the store was opened with. `source` (such as
        `web:https://...`, `user` or `tool:name`) and `session` are recorded in the provenance of the change
        (docs/review.md). Raises `InvalidInput` for an invalid actor, `tool_use_id`, run, source or session.
        """
        core = self._core
        call = core.invocation(**options)
        try:
            known = command if isinstance(command, Command) else parse(command)
        except Refused as refusal:
            return core.reply(audit_only(command_name(command), refusal), call)
        if isinstance(known, View):
            return core.reply(run_view(known, core), call)
        return core.reply(run_command(known), call)

    def clear(self, **options: Unpack[CallOptions]) -> Reply:
        """Delete all memories in one transaction. The arguments are those of `execute`."""
        return self._core.reply(run_command(Clear()), self._core.invocation(**options))

    def _written(self, command: Command, if_version: str | None, by: By) -> Written:
        assert not isinstance(command, View)
        return self._core.written(run_command(command, if_version), self._core.invocation(**by))

    def load(self, path: str) -> tuple[Memory, str]:
        """Return the memory at `path` and its text. Raises `NotFound`."""
        target = self._core.parsed(path)
        return self._core.result_of(load(target))

    def memories(self, under: str = ROOT) -> list[Memory]:
        """Return all memories below a directory, in byte order of their paths."""
        target = self._core.parsed(under)
        return self._core.result_of(list_memories(target))

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
        target = self._core.parsed(under)
        if limit < 1 or depth not in {0, 1}:
            raise InvalidInput("`limit` must be at least 1, and `depth` must be 0 or 1")
        return self._core.result_of(list_page(target, depth, cursor, limit, texts))

    def versions(
        self, path: str | None = None, *, memory_id: str | None = None, limit: int | None = None
    ) -> list[Version]:
        """Return versions, newest first. By default, these are all versions of the store.

        `path` selects the versions recorded at one path. `memory_id` selects those of one memory, across its renames.
        """
        at = None if path is None else self._core.parsed(path)

        def work(snapshot: Snapshot) -> list[Version]:
            return list(snapshot.versions(memory_id=memory_id, path=None if at is None else at.text, limit=limit))

        return self._core.result_of(Read("versions", work, at))

    def version_text(self, version_id: str) -> str:
        """Return the text of a version. It is empty for a deletion or a redacted version. Raises `NotFound`."""
        return self._core.result_of(read_version(version_id))[1] or ""

    def undo(self, change: Named, *, path: str | None = None, **options: Unpack[RestoreOptions]) -> RestoreOutcome:
        """Reverse one change. `change` is a revision such as `HEAD`, or the id of a version. See `History.undo`."""
        return self.history.undo(change, path=path, **options)

    def undo_by(self, by: str, *, since: datetime | None = None, **options: Unpack[RestoreOptions]) -> RestoreOutcome:
        """Reverse all changes of an actor. `by` is an actor pattern such as `session:s1`. See `History.undo_by`."""
        return self.history.undo_by(by, since=since, **options)

    def promote(self, path: str, to: MemoryStore, *, new_path: str | None = None, **by: Unpack[By]) -> Promoted:
        """Propose a memory, or all memories below a directory, to another memory store, with their history.

        `new_path` is the path there; the default is `path`. The proposal waits for review even if the settings there
        put nobody under review. When it is accepted, the earlier versions are recorded there with their authors, times
        and texts, as far as the settings there keep and allow them, and then a version by `actor`. Redacted and hidden
        versions are never carried. Raises `NotFound`, `AlreadyExists`, and the errors of a change there.
        """
        own = self._core.parsed(path)
        target = own if new_path is None else self._core.parsed(new_path)
        if not isinstance(to._core, StoreCore):  # a store on a server, which cannot read this one
            raise InvalidInput("both memory stores of a promotion must be in the same opened location")
        return promote(self._core, own, core_of(to), target, **by)

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
        from retentive.history.searching import StoreSearch  # noqa: PLC0415 - the stemmers take long to load

        target = self._core.parsed(under)
        search = StoreSearch(query, mode, regex, target.text, tuple(paths), at, history, source, trust, limit)
        return search.run(self._core, actor)

    def recall(
        self, question: str, *, budget_tokens: int = 400, under: str = ROOT, actor: Actor | str | None = None
    ) -> Recall:
        """Return the best lines of the best memories for a question, as a block that fits a budget of tokens.

        The block stays the same until one of its lines changes or goes, or a clearly better one comes, so a prompt
        with it stays cached. Its size is estimated, rather too high. No model is called. Memories hidden from `actor`
        are not found. Raises `InvalidInput`.
        """
        from retentive.history.searching import StoreSearch  # noqa: PLC0415 - the stemmers take long to load

        search = StoreSearch(question, under=self._core.parsed(under).text, is_question=True)
        return search.recall(self._core, budget_tokens, actor)

    def batch(self, commands: Sequence[object], **by: Unpack[By]) -> list[Written]:
        """Run up to 100 commands as one change. Return a `Written` for each command.

        `commands` are inputs of tool calls, such as `{"command": "create", "path": ..., "file_text": ...}`; `view` is
        not allowed. A command may have a field `if_version`: the id that the newest version of the memory must have.
        Each command sees the changes of the commands before it.

        If one command is refused, nothing changes. Its error is raised, and the `position` of the error is the index of
        the command.
        """
        core, batch = self._core, self._batch(commands)
        outcome = core.run(run_batch(batch), core.invocation(**by))
        if isinstance(outcome.error, Refused):
            raise core.raised(outcome.error, batch[outcome.error.position or 0])
        steps = zip(batch, outcome.value(), strict=True)
        return [
            core.described(command, Outcome(outcome.settings, result, None, recorded, proposed=outcome.proposed))
            for command, (result, recorded) in steps
        ]

    def _batch(self, commands: Sequence[object]) -> list[Write[CommandResult]]:
        """Return the operations of a batch. The `position` of an error is that of its malformed command."""
        if isinstance(commands, str | bytes) or not 0 < len(commands) <= MAX_BATCH:
            raise InvalidInput(f"a batch must be a list of 1 to {MAX_BATCH} commands")
        made: list[Write[CommandResult]] = []
        for position, given in enumerate(commands):
            try:
                fields = dict(given) if isinstance(given, Mapping) else {}
                if_version = fields.pop("if_version", None)
                if not isinstance(if_version, str | None):
                    raise InvalidInput("`if_version` must be the id of a version")
                command = given if isinstance(given, Command) else parse_for_applications(fields or given)
                if isinstance(command, View | Clear):
                    raise InvalidInput(f"the command {command.name} cannot be part of a batch")
                made.append(run_command(command, if_version))
            except RetentiveError as error:
                raised = self._core.raised(error) if isinstance(error, Refused) else error
                raised.position = position
                raise raised from None
        return made

    @property
    def by_id(self) -> ById:
        """Access to memories by their ids: read, update and delete."""
        return ById(self._core)

    def usage(self) -> Usage:
        """Return the number and the total size of the memories."""
        return self._core.result_of(Read("usage", lambda snapshot: snapshot.state.usage))

    def settings(self) -> Settings:
        """Return the effective settings: the stored settings, overridden by the settings given to `retentive.open`."""
        return self._core.settings()

    def change_settings(self, changes: Mapping[str, object], *, actor: Actor | str | None = None) -> Settings:
        """Change settings for every process that uses the store. Return the stored settings after the change.

        A value of None restores the default. If a name or value is invalid, raises `InvalidInput` and changes nothing.
        Raises `ReadOnly` if this process opened the store with the setting `read_only`.
        """
        check_names(changes)

        def work(view: Snapshot, guard: Guard) -> Plan[Settings]:
            guard.check_opened("settings")  # the stored setting read_only does not matter, only a pinned one
            given = {name: getattr(DEFAULTS, name, None) if value is None else value for name, value in changes.items()}
            settings = from_text(view.state.settings).changed(given)
            guard.examiner.check(settings)
            return Plan(settings, metadata={"settings": settings.to_text()}, event=("settings", sorted(changes)))

        change = Write(
            "settings",
            work,
            facts=lambda new: {"settings": sorted(changes)} | ({"audit": new.audit} if "audit" in changes else {}),
            facts_kept=lambda *_: {},
            rebuilt=lambda _, view: from_text(view.state.settings),  # a repetition does not reverse a later change
            under_review="skip",  # otherwise a setting that puts every actor under review could not be reversed
        )
        return self._core.result_of(change, actor)

    @property
    def history(self) -> History:
        """History of the store: log, versions, blame, restore, undo, redact and erase."""
        return History(self._core)

    @property
    def review(self) -> Review:
        """Review of proposals: changes that wait for the decision of a person, because their actor is under review."""
        return Review(self._core)

    @property
    def trust(self) -> Trust:
        """Trust in memories: lists of untrusted memories, confirmations and quarantine."""
        return Trust(self._core)

    @property
    def audit(self) -> Audit:
        """Audit log: actor, operation, time and outcome of each call that was made while the setting `audit` was on."""
        return Audit(self._core)

    def sweep(self, *, dry_run: bool = False, accept_clock: bool = False) -> Swept:
        """Delete idle memories and prune old versions, as the settings say. With `dry_run`, only report them.

        If the clock is more than 7 days ahead of the last sweep and of all changes since then, the clock may be wrong.
        In this case nothing is removed, and `clock_jump` is set in the result. If the clock is right, pass
        `accept_clock`, or sweep again after a day.
        """
        return sweep(self._core, dry_run=dry_run, accept_clock=accept_clock)

    def scan(
        self, *, redact: bool = False, history: bool = False, likely: bool = False, **by: Unpack[By]
    ) -> list[Finding]:
        """Find sensitive values in texts and paths, even if the settings turn off the checks of new texts.

        With `redact`, values that are certainly sensitive are removed from the texts of memories. With `redact` and
        `likely`, values that are likely to be sensitive are removed too. Paths are never changed: a person must rename
        a memory whose path contains a sensitive value.

        With `history`, older versions and their paths are scanned too, and `redact` redacts each version that contains
        a sensitive value. Without `history`, older versions keep the values. Raises `InvalidInput` if memories cannot
        be rewritten.
        """
        return scan(self._core, redact=redact, history=history, likely=likely, **by).findings


def core_of(store: MemoryTree) -> StoreCore:
    """Return the `StoreCore` of a memory store, or of the one at `/memories`. Only modules of this package use it."""
    return store._core  # noqa: SLF001 - the one way to the core


def with_options(store: MemoryStore, **options: Any) -> MemoryStore:
    """Return an object for the same memory store whose core has other values of some attributes, such as `scope`."""
    other = copy(store)  # keeps the class if the application subclassed MemoryStore
    other._core = store._core.with_options(**options)  # noqa: SLF001 - as above
    return other
