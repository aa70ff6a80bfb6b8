"""The engine: one memory store, and the one way by which every command runs and every change is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from retentive.engine import idempotency, views
from retentive.engine.access_times import Accesses
from retentive.engine.handlers import name_given, name_of, paths_of, with_notes
from retentive.engine.idempotency import Call
from retentive.engine.queries import Readable
from retentive.engine.writer import GuardedWriter
from retentive.errors import ReadOnly, Refused, RetentiveError
from retentive.redaction.guard import Examination
from retentive.review.session import Review
from retentive.storage import capabilities
from retentive.storage.contract import (
    Actor,
    Backend,
    Clock,
    Entry,
    Recorded,
    Snapshot,
    StoreInfo,
    Transaction,
    as_actor,
)
from retentive.values.commands import Command, View, check_file_path, check_text, parse
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.replies import EN, Replies, Reply
from retentive.values.settings import DEFAULTS, Settings, check_names, from_text
from retentive.values.text import LineCounts

if TYPE_CHECKING:  # imported when they are first wanted: most processes run commands and nothing else
    from retentive.audit.log import Audit
    from retentive.history import History
    from retentive.history.sweep import Swept
    from retentive.scan import Finding

T = TypeVar("T")

STORAGE_REPLIES = {
    "permission_denied": "permission_denied",
    "store_full": "store_full",
    "unavailable": "unavailable",
    "outcome_unknown": "outcome_unknown",
    "damaged": "damaged",
    "locked": "locked",
    "conflict": "unavailable",
    "not_found": "unavailable",  # the whole memory store is gone
    "unknown_schema": "unknown_schema",
}
"""Which reply a failure of storage becomes. Codes that are not here are errors of the application, and rise."""
OF_BACKENDS = {"path_taken", "path_folds"}
"""Refusals of a backend, which knows canonical paths only."""


class MemoryStore(Readable):
    """One memory store: runs commands, and gives memories and versions to programs.

    Threads may share it. `execute` never raises for what a model or user sent or storage did; the other methods
    raise `RetentiveError`.
    """

    def __init__(
        self,
        backend: Backend,
        info: StoreInfo,
        *,
        pins: Mapping[str, object] | None = None,
        examination: Examination | None = None,
        replies: Replies = EN,
        actor: Actor | None = None,
        clock: Clock = time.time,
        accesses: Accesses | None = None,
    ) -> None:
        self.backend = backend
        self.info = info
        self._pins = dict(pins or {})
        self._examination = examination or Examination()
        self._examination.check(DEFAULTS.changed(self._pins))  # what is wrong is refused here
        self.replies = replies.without_values(self._harmless)
        self.actor = actor
        self.clock = clock
        self.accesses = accesses or Accesses(backend, clock=clock)
        self._lines = LineCounts()
        self._known: tuple[str | None, Settings | None] = (None, None)
        self.review = Review(backend, info.id, self._effective, self._examination, self.replies, clock=clock)

    def read_only(self) -> MemoryStore:
        """The same memory store for one who may not change it: `read_only` is pinned in what is returned."""
        pins = self._pins | {"read_only": True}
        return MemoryStore(
            self.backend,
            self.info,
            pins=pins,
            examination=self._examination,
            replies=self.replies,
            actor=self.actor,
            clock=self.clock,
            accesses=self.accesses,
        )

    def directory(self) -> str | None:
        """The directory in which the memories lie as plain files, if they do."""
        return capabilities.directory_of(self.backend, self.info)

    # -- commands --------------------------------------------------------------------------------------------

    def execute(self, command: object, *, actor: Actor | str | None = None, tool_use_id: str | None = None) -> Reply:
        """The reply to a command, given parsed or as the raw input of a tool call.

        When it returns without an error, the change is durable. `actor` is recorded with the change; without one,
        the actor the store was opened with. A change that comes again with the same `tool_use_id`, from the same
        actor and within 24 hours, gets its first reply again and changes nothing. Raises `InvalidInput` for an actor or
        a `tool_use_id` that can be none, such as one that is no text.
        """
        call = Call(None, as_actor(actor), tool_use_id)
        try:
            parsed = command if isinstance(command, Command) else parse(command)
        except Refused as refusal:
            call.name, failed = name_given(command), refusal
            return self.answered(call, lambda: self._refuse(call, failed), MemoryPath.known(ROOT))
        call.name = name_of(parsed)
        return self.answered(call, lambda: self._run(parsed, call), *paths_of(parsed))

    def answered(self, call: Call, run: Callable[[], Reply], *paths: MemoryPath) -> Reply:
        """What `run` replies, once the audit log has its entry."""
        reply = answer(self.replies, run, *paths)
        if call.settings is not None and not call.settings.audit:
            return reply
        from retentive.audit import log  # noqa: PLC0415 - see above

        return answer(self.replies, lambda: log.kept(self, call, reply), *paths)

    def clear(self, *, actor: Actor | str | None = None, tool_use_id: str | None = None) -> Reply:
        """Delete all memories, at once or not at all."""
        call = Call("clear", as_actor(actor), tool_use_id)
        return self.answered(call, lambda: idempotency.run(self, None, call), MemoryPath.known(ROOT))

    def save(self, path: str, text: str, *, if_version: str | None, actor: Actor | str | None = None) -> Reply:
        """Replace the whole text of the memory at `path`, if `if_version` is still its newest version.

        `if_version` None makes a memory where there is none. For editors: read, let a person change it, save.
        """
        call = Call("save", as_actor(actor))
        target = self._parsed(path)

        def work(tx: Transaction, write: GuardedWriter) -> Reply:
            call.settings = write.settings
            if if_version is None:
                write.check_name(target)
            write.check(target)
            look = Entry(below=True) if target.is_root else tx.get(target.text)
            if look.below:
                raise Refused("exists")
            if (look.memory.version_id if look.memory else None) != if_version:
                raise Refused("changed_meanwhile")
            if look.above is not None:
                raise Refused("not_a_directory", ancestor=look.above)
            said, written = self.replies.phrase("inserted", {"path": path}), write.put(look, target, text)
            call.changes = write.recorded
            return with_notes(self.replies, said, written.notes)

        def run() -> Reply:
            check_text("text", text)
            check_file_path(target)
            return self.write(work, call.who)

        return self.answered(call, run, target)

    # -- settings --------------------------------------------------------------------------------------------

    def settings(self) -> Settings:
        """The settings that hold: those kept with the store, and over them those this process has pinned."""
        return self.read(self._effective)

    def change_settings(self, changes: Mapping[str, object]) -> Settings:
        """Change settings, for every process that has the store open or opens it; what is kept now.

        A value of None sets one back to its default. Raises `InvalidInput`, and changes nothing, if one is unknown or
        senseless; `ReadOnly` where this process has pinned `read_only`.
        """
        if self._pins.get("read_only"):
            raise ReadOnly("the memory store was opened read-only, and so are its settings")
        check_names(changes)

        def work(tx: Transaction) -> Settings:
            given = {name: getattr(DEFAULTS, name, None) if value is None else value for name, value in changes.items()}
            settings = from_text(tx.settings).changed(given)
            self._examination.check(settings)
            tx.set_metadata(settings=settings.to_text())
            return settings

        from retentive.audit import log  # noqa: PLC0415 - see above

        return log.switching(self, lambda: self.backend.write(self.id, work))

    @property
    def history(self) -> History:
        """What was, who did it, and how to have it back."""
        from retentive.history import History  # noqa: PLC0415 - see above

        return History(self)

    @property
    def audit(self) -> Audit:
        """Who asked for what, when, and what came of it, if the setting `audit` is on."""
        from retentive.audit.log import Audit  # noqa: PLC0415 - see above

        return Audit(self)

    def sweep(self, *, dry_run: bool = False) -> Swept:
        """Let idle memories expire and old versions go, as the settings say; what did, or with `dry_run` would."""
        from retentive.history.sweep import sweep  # noqa: PLC0415 - see above

        return sweep(self, dry_run=dry_run)

    def scan(self, *, redact: bool = False, history: bool = False, actor: Actor | str | None = None) -> list[Finding]:
        """Where texts and paths of memories hold sensitive values, whatever the setting, and the kinds of these.

        `redact` writes those memories anew without the values in their texts; one whose path holds a value is to be
        renamed by a person. Their older versions keep them, unless `history` is given: then versions are looked
        through too, told by their paths, and redacted whole. Raises `InvalidInput` for what cannot be written.
        """
        from retentive.scan import scan  # noqa: PLC0415 - see above

        return scan(self, self._examination, as_actor(actor) or self.actor, redact=redact, history=history)

    # -- one command, one way --------------------------------------------------------------------------------

    def _refuse(self, call: Call, refusal: Refused) -> Reply:
        """The reply to what is no command, as the settings of now have it put into words."""
        call.settings = self.settings()
        return self.replies.error(refusal.key, refusal.values)

    def _harmless(self, text: str) -> str:
        """What a reply echoes of the input, without sensitive values. A command was run before: its settings hold."""
        settings = self._known[1] or DEFAULTS.changed(self._pins)
        try:
            return self._examination(settings, text)[0]
        except Refused:  # a detector failed at it, which is logged
            return "…"

    def _run(self, command: Command, call: Call) -> Reply:
        return self._view(command, call) if isinstance(command, View) else idempotency.run(self, command, call)

    def _view(self, command: View, call: Call) -> Reply:
        def look(seen: Snapshot) -> tuple[Settings, Entry | views.Sizes]:
            call.settings = self._effective(seen)
            return call.settings, views.found(seen, command.path)

        settings, found = self.read_as(look, call.who)
        if not isinstance(found, Entry):
            call.listed = True
            return views.directory(command.path, found, settings, self.replies)
        reply = views.memory(command, found, settings, self.replies, self._lines)
        if found.memory is not None:
            self.accesses.note(self.id, found.memory)
            call.read = Recorded(found.memory.id, found.memory.version_id)
        return reply

    def read_as(self, work: Callable[[Snapshot], T], who: Actor | None) -> T:
        """Run `work` on one state as `who` sees it, or the actor the store was opened with; docs/review.md."""
        return self.review.read(work, who or self.actor)

    def write(
        self, work: Callable[[Transaction, GuardedWriter], T], who: Actor | None, *, may_use_reserve: bool = False
    ) -> T:
        """Run `work` with the one way to change the store, for `who` or the actor the store was opened with."""
        actor = who or self.actor

        def guarded(tx: Transaction, settings: Settings) -> T:
            return work(tx, GuardedWriter(tx, settings, actor, self._examination))

        return self.review.write(guarded, actor, may_use_reserve=may_use_reserve)

    def _effective(self, snapshot: Snapshot) -> Settings:
        """The settings that hold now, with those that this process has pinned."""
        kept, known, settings = snapshot.settings, *self._known
        if settings is None or kept != known:
            settings = from_text(kept).changed(self._pins)
            self._known = (kept, settings)
        return settings


def answer(replies: Replies, run: Callable[[], Reply], *paths: MemoryPath) -> Reply:
    """What `run` replies; what a model or user got wrong and what storage could not do become replies too."""
    shown: dict[str, object] = {"path": paths[-1].written}
    if len(paths) > 1:
        shown |= {"old_path": paths[0].written, "new_path": paths[1].written}
    try:
        return run()
    except Refused as refusal:
        values = shown | refusal.values
        if refusal.key in OF_BACKENDS:
            written = {path.text: path.written for path in paths}
            canonical = str(values["path"])
            values["path"] = written.get(canonical, paths[0].outward(canonical))
        return replies.error(refusal.key, values)
    except RetentiveError as error:
        if error.code not in STORAGE_REPLIES:
            raise
        return replies.error(STORAGE_REPLIES[error.code], shown)
