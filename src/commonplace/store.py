"""The engine: one memory store, and the one way by which every command runs and every change is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from commonplace import views
from commonplace.accesses import Accesses
from commonplace.backends.base import (
    Actor,
    Backend,
    Change,
    Clock,
    Look,
    Snapshot,
    StoreInfo,
    Transaction,
    as_actor,
)
from commonplace.commands import (
    Command,
    Create,
    Delete,
    Insert,
    Rename,
    StrReplace,
    View,
    check_file_path,
    check_text,
    parse,
)
from commonplace.errors import CommonplaceError, Refused
from commonplace.guards.examining import Examination
from commonplace.guards.review import Review
from commonplace.guards.writing import WritePath, Written
from commonplace.history import History
from commonplace.paths import ROOT, MemoryPath
from commonplace.readable import Readable, decoded
from commonplace.replies import EN, Replies, Reply
from commonplace.scanning import scan
from commonplace.settings import DEFAULTS, Settings, from_text
from commonplace.sweeping import Swept, sweep
from commonplace.text import LineCounts, insert, replace, snippet

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
    "unknown_schema": "unavailable",
}
"""Which reply a failure of storage becomes. Codes that are not here are errors of the application, and rise."""
OF_BACKENDS = {"path_taken", "path_folds"}
"""Refusals of a backend, which knows canonical paths only."""


class MemoryStore(Readable):
    """One memory store: runs commands, and gives memories and versions to programs.

    Threads may share it. `execute` never raises for what a model or user sent or storage did; the other methods
    raise `CommonplaceError`.
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
        self.replies = replies
        self.actor = actor
        self.clock = clock
        self.accesses = accesses or Accesses(backend, clock=clock)
        self._lines = LineCounts()
        self._known: tuple[str | None, Settings | None] = (None, None)
        self.review = Review(backend, info.id, self._effective, self._examination, replies, clock=clock)

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
        return self.backend.directory_of(self.info)

    # -- commands --------------------------------------------------------------------------------------------

    def execute(self, command: object, *, actor: Actor | str | None = None) -> Reply:
        """The reply to a command, given parsed or as the raw input of a tool call.

        When it returns without an error, the change is durable. `actor` is recorded with the change; without one,
        the actor the store was opened with.
        """
        who = as_actor(actor)
        try:
            parsed = command if isinstance(command, Command) else parse(command)
        except Refused as refusal:
            return self.replies.error(refusal.key, refusal.values)
        return answer(self.replies, lambda: self._run(parsed, who), *paths_of(parsed))

    def clear(self, *, actor: Actor | str | None = None) -> Reply:
        """Delete all memories, at once or not at all."""
        root = MemoryPath.known(ROOT)

        def work(tx: Transaction, path: WritePath) -> Reply:
            path.delete(path.check_all(root, Look(below=True)))
            return Reply(self.replies.cleared)

        return answer(self.replies, lambda: self.write(work, as_actor(actor), frees=True), root)

    def save(self, path: str, text: str, *, if_version: str | None, actor: Actor | str | None = None) -> Reply:
        """Replace the whole text of the memory at `path`, if `if_version` is still its newest version.

        `if_version` None makes a memory where there is none. For editors: read, let a person change it, save.
        """
        who = as_actor(actor)
        target = self._parsed(path)

        def work(tx: Transaction, write: WritePath) -> Reply:
            if if_version is None:
                write.check_name(target)
            write.check(target)
            look = Look(below=True) if target.is_root else tx.look(target.text)
            if look.below:
                raise Refused("exists")
            if (look.memory.version_id if look.memory else None) != if_version:
                raise Refused("changed_meanwhile")
            if look.above is not None:
                raise Refused("not_a_directory", ancestor=look.above)
            return self._said(self.replies.phrase("inserted", {"path": path}), write.put(look, target, text))

        def run() -> Reply:
            check_text("text", text)
            check_file_path(target)
            return self.write(work, who)

        return answer(self.replies, run, target)

    # -- settings --------------------------------------------------------------------------------------------

    def settings(self) -> Settings:
        """The settings that hold: those kept with the store, and over them those this process has pinned."""
        return self.read(self._effective)

    def change_settings(self, changes: Mapping[str, object]) -> Settings:
        """Change settings, for every process that has the store open or opens it; what is kept now.

        A value of None sets one back to its default. Raises `InvalidInput`, and changes nothing, if one is unknown or
        senseless.
        """

        def work(tx: Transaction) -> Settings:
            given = {name: getattr(DEFAULTS, name, None) if value is None else value for name, value in changes.items()}
            settings = from_text(tx.settings).changed(given)
            self._examination.check(settings)
            tx.set_settings(settings.to_text())
            return settings

        return self.backend.write(self.id, work)

    @property
    def history(self) -> History:
        """What was, who did it, and how to have it back."""
        return History(self)

    def sweep(self, *, dry_run: bool = False) -> Swept:
        """Let idle memories expire and old versions go, as the settings say; what did, or with `dry_run` would."""
        return sweep(self, dry_run=dry_run)

    def scan(self, *, redact: bool = False, actor: Actor | str | None = None) -> list[tuple[str, list[str]]]:
        """Paths of the memories that hold sensitive values, whatever the setting, and the kinds of these.

        `redact` writes those memories anew without the values; their older versions keep them.
        """
        return scan(self, self._examination, as_actor(actor) or self.actor, redact=redact)

    # -- one command, one way --------------------------------------------------------------------------------

    def _run(self, command: Command, who: Actor | None) -> Reply:
        match command:
            case View():
                return self._view(command, who)
            case Create():
                return self._create(command, who)
            case StrReplace():
                return self._str_replace(command, who)
            case Insert():
                return self._insert(command, who)
            case Delete():
                return self._delete(command, who)
            case Rename():
                return self._rename(command, who)

    def _view(self, command: View, who: Actor | None) -> Reply:
        settings, found = self.read_as(lambda seen: (self._effective(seen), views.found(seen, command.path)), who)
        if isinstance(found, Look):
            if found.memory is not None:
                self.accesses.note(self.id, found.memory)
            return views.memory(command, found, settings, self.replies, self._lines)
        return views.directory(command.path, found, settings, self.replies)

    def _create(self, command: Create, who: Actor | None) -> Reply:
        path = command.path

        def work(tx: Transaction, write: WritePath) -> Reply:
            write.check_name(path)
            write.check(path)
            look = Look(below=True) if path.is_root else tx.look(path.text)
            if look.below or (look.memory is not None and not self._effective(tx).create_overwrites):
                raise Refused("exists")
            if look.above is not None:
                raise Refused("not_a_directory", ancestor=path.outward(look.above))
            written = write.put(look, path, command.file_text)
            return self._said(self.replies.phrase("created", {"path": path.written}), written)

        return self.write(work, who)

    def _str_replace(self, command: StrReplace, who: Actor | None) -> Reply:
        def edit(text: str) -> tuple[str, int]:
            return replace(text, command.old_str, command.new_str)

        def said(settings: Settings, written: Written, at: int) -> str:
            shown = snippet(written.text, at, len(command.new_str), max_chars=settings.view_chars)
            if shown is None or written.altered:
                return self.replies.edited
            return f"{self.replies.edited_snippet}\n{shown}"

        return self._edit(command.path, edit, said, who, missing="edit_missing")

    def _insert(self, command: Insert, who: Actor | None) -> Reply:
        def edit(text: str) -> tuple[str, int]:
            return insert(text, command.insert_line, command.insert_text), 0

        def said(_settings: Settings, _written: Written, _at: int) -> str:
            return self.replies.phrase("inserted", {"path": command.path.written})

        return self._edit(command.path, edit, said, who, missing="missing")

    def _edit(
        self,
        path: MemoryPath,
        edit: Callable[[str], tuple[str, int]],
        said: Callable[[Settings, Written, int], str],
        who: Actor | None,
        *,
        missing: str,
    ) -> Reply:
        def work(tx: Transaction, write: WritePath) -> Reply:
            write.check(path)
            look = Look() if path.is_root else tx.look(path.text)
            if look.memory is None:
                raise Refused(missing)
            text, at = self._edited(edit, decoded(look.data), self._effective(tx))
            written = write.put(look, path, text)
            return self._said(said(self._effective(tx), written, at), written)

        return self.write(work, who)

    def _edited(self, edit: Callable[[str], tuple[str, int]], text: str, settings: Settings) -> tuple[str, int]:
        """The edited text; a refusal that echoes what was looked for does so without sensitive values."""
        try:
            return edit(text)
        except Refused as refusal:
            echoed = refusal.values.get("old_str")
            if not isinstance(echoed, str):
                raise
            shown, _ = self._examination(settings, echoed)
            raise Refused(refusal.key, **(refusal.values | {"old_str": shown})) from None

    def _delete(self, command: Delete, who: Actor | None) -> Reply:
        path = command.path

        def work(tx: Transaction, write: WritePath) -> Reply:
            look = Look(below=True) if path.is_root else tx.look(path.text)
            gone = write.check_all(path, look)
            if path.is_root:
                raise Refused("root_deleted")
            if not look.exists:
                raise Refused("missing")
            write.delete(gone)
            return Reply(self.replies.phrase("deleted", {"path": path.written}))

        return self.write(work, who, frees=True)

    def _rename(self, command: Rename, who: Actor | None) -> Reply:
        old, new = command.old_path, command.new_path

        def work(tx: Transaction, write: WritePath) -> Reply:
            write.check_name(new)
            source = Look(below=True) if old.is_root else tx.look(old.text)
            moved = write.check_all(old, source)
            write.check(new)
            if old.is_root:
                raise Refused("root_renamed")
            if not source.exists:
                raise Refused("missing", path=old.written)
            self._check_destination(tx, command, source)
            changes = [Change(memory, old.moved(memory.path, new)) for memory in moved]
            if not all(write.may_change(str(change.path)) for change in changes):
                raise Refused("read_only", path=new.written)
            write.move(changes)
            return Reply(self.replies.phrase("renamed", {"old_path": old.written, "new_path": new.written}))

        return self.write(work, who)

    def _check_destination(self, tx: Transaction, command: Rename, source: Look) -> None:
        old, new = command.old_path, command.new_path
        if source.memory is not None:
            check_file_path(new)
        if new.is_root or new == old:
            raise Refused("destination_exists")
        target = tx.look(new.text)
        if target.exists:
            raise Refused("destination_exists")
        if source.memory is None and old.contains(new):
            raise Refused("into_itself")
        if target.above is not None:
            raise Refused("not_a_directory", ancestor=new.outward(target.above))

    def read_as(self, work: Callable[[Snapshot], T], who: Actor | None) -> T:
        """Run `work` on one state as `who` sees it, or the actor the store was opened with; docs/review.md."""
        return self.review.read(work, who or self.actor)

    def write(self, work: Callable[[Transaction, WritePath], T], who: Actor | None, *, frees: bool = False) -> T:
        """Run `work` with the one way to change the store, for `who` or the actor the store was opened with."""
        actor = who or self.actor

        def guarded(tx: Transaction, settings: Settings) -> T:
            return work(tx, WritePath(tx, settings, actor, self._examination))

        return self.review.write(guarded, actor, frees=frees)

    def _effective(self, snapshot: Snapshot) -> Settings:
        """The settings that hold now, with those that this process has pinned."""
        kept, known, settings = snapshot.settings, *self._known
        if settings is None or kept != known:
            settings = from_text(kept).changed(self._pins)
            self._known = (kept, settings)
        return settings

    def _said(self, text: str, written: Written) -> Reply:
        """A reply, with what guards have to say on lines of their own."""
        return Reply("\n".join([text, *(self.replies.phrase(note.key, note.values) for note in written.notes)]))


def paths_of(command: Command) -> tuple[MemoryPath, ...]:
    """The paths a command names; the last is the one to look at when its outcome is unknown."""
    return (command.old_path, command.new_path) if isinstance(command, Rename) else (command.path,)


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
    except CommonplaceError as error:
        if error.code not in STORAGE_REPLIES:
            raise
        return replies.error(STORAGE_REPLIES[error.code], shown)
