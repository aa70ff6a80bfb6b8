"""The engine: one memory store, and the one way by which every command runs and every change is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from commonplace.backends.base import (
    Actor,
    Backend,
    Change,
    Look,
    Memory,
    Snapshot,
    StoreInfo,
    Transaction,
    Usage,
    Version,
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
from commonplace.errors import CommonplaceError, Damaged, InvalidPath, NotFound, Phrase, Refused
from commonplace.limits import Limits
from commonplace.listing import listing
from commonplace.paths import ROOT, MemoryPath, limit_broken
from commonplace.replies import EN, Replies, Reply
from commonplace.text import LineCounts, insert, replace, snippet, view

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


class MemoryStore:
    """One memory store: runs commands, and gives memories and versions to programs.

    Threads may share it. `execute` never raises for what a model or user sent or storage did; the other methods
    raise `CommonplaceError`.
    """

    def __init__(
        self,
        backend: Backend,
        info: StoreInfo,
        *,
        limits: Limits | None = None,
        replies: Replies = EN,
        actor: Actor | None = None,
    ) -> None:
        self.backend = backend
        self.info = info
        self.limits = limits or Limits()
        self.replies = replies
        self.actor = actor
        self._lines = LineCounts()

    @property
    def id(self) -> str:
        """`memstore_...`"""
        return self.info.id

    @property
    def key(self) -> str | None:
        """The application's own name for the store, unique in the backend."""
        return self.info.key

    @property
    def name(self) -> str:
        """The name to show to people."""
        return self.info.name

    # -- commands --------------------------------------------------------------------------------------------

    def execute(self, command: object, *, actor: Actor | str | None = None) -> Reply:
        """The reply to a command, given parsed or as the raw input of a tool call.

        When it returns without an error, the change is durable. `actor` is recorded with the change; without one,
        the actor the store was opened with.
        """
        who = as_actor(actor) or self.actor
        try:
            parsed = command if isinstance(command, Command) else parse(command)
        except Refused as refusal:
            return self.replies.error(refusal.key, refusal.values)
        return self._answer(lambda: self._run(parsed, who), *_paths(parsed))

    def _answer(self, run: Callable[[], Reply], *paths: MemoryPath) -> Reply:
        """What `run` replies; what a model or user got wrong and what storage could not do become replies too."""
        shown: dict[str, object] = {"path": paths[-1].written}
        if len(paths) > 1:
            shown |= {"old_path": paths[0].written, "new_path": paths[1].written}
        try:
            return run()
        except Refused as refusal:
            values = shown | refusal.values
            written = {path.text: path.written for path in paths}  # a backend knows canonical paths only
            values["path"] = written.get(str(values["path"]), values["path"])
            return self.replies.error(refusal.key, values)
        except CommonplaceError as error:
            if error.code not in STORAGE_REPLIES:
                raise
            return self.replies.error(STORAGE_REPLIES[error.code], shown)

    def clear(self, *, actor: Actor | str | None = None) -> Reply:
        """Delete all memories, at once or not at all."""
        who = as_actor(actor) or self.actor

        def work(tx: Transaction) -> None:
            tx.record([Change(memory, None) for memory in tx.walk(ROOT)], who)

        return self._answer(lambda: self._write(work, self.replies.cleared, frees=True), MemoryPath.known(ROOT))

    def save(self, path: str, text: str, *, if_version: str | None, actor: Actor | str | None = None) -> Reply:
        """Replace the whole text of the memory at `path`, if `if_version` is still its newest version.

        `if_version` None makes a memory where there is none. For editors: read, let a person change it, save.
        """
        who = as_actor(actor) or self.actor
        target = self._parsed(path)

        def work(tx: Transaction) -> None:
            look = Look(below=True) if target.is_root else tx.look(target.text)
            if look.below:
                raise Refused("exists")
            if (look.memory.version_id if look.memory else None) != if_version:
                raise Refused("changed_meanwhile")
            if look.above is not None:
                raise Refused("not_a_directory", ancestor=look.above)
            self._put(tx, look, target.text, text.encode(), who)

        def run() -> Reply:
            check_text("text", text)
            check_file_path(target)
            return self._write(work, self.replies.phrase("inserted", {"path": path}))

        return self._answer(run, target)

    # -- for programs ----------------------------------------------------------------------------------------

    def load(self, path: str) -> tuple[Memory, str]:
        """The memory at `path` and its text. Raises `NotFound`."""
        target = self._parsed(path)
        look = self.read(lambda snapshot: snapshot.look(target.text))
        if look.memory is None:
            raise NotFound(f"there is no memory at {path}")
        return look.memory, _decoded(look.data)

    def text(self, path: str) -> str:
        """The text of the memory at `path`. Raises `NotFound`."""
        return self.load(path)[1]

    def memories(self, under: str = ROOT) -> Iterator[Memory]:
        """All memories below a directory, in the byte order of their paths."""
        target = self._parsed(under)
        return iter(self.read(lambda snapshot: list(snapshot.walk(target.text))))

    def versions(
        self, path: str | None = None, *, memory_id: str | None = None, limit: int | None = None
    ) -> Iterator[Version]:
        """Versions, newest first: of the store, of what changed at `path`, or of one memory across renames."""
        at = None if path is None else self._parsed(path).text
        return iter(self.read(lambda found: list(found.versions(memory_id=memory_id, path=at, limit=limit))))

    def version_text(self, version_id: str) -> str:
        """The text a version left behind, empty for a deletion. Raises `NotFound`."""
        return _decoded(self.read(lambda snapshot: snapshot.text(version_id)) or b"")

    def usage(self) -> Usage:
        """How much the store holds."""
        return self.read(lambda snapshot: snapshot.usage())

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on one consistent state."""
        return self.backend.read(self.id, work)

    # -- one command, one way --------------------------------------------------------------------------------

    def _run(self, command: Command, who: Actor | None) -> Reply:
        match command:
            case View():
                return self._view(command)
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

    def _view(self, command: View) -> Reply:
        path = command.path

        def work(snapshot: Snapshot) -> Look | list[tuple[str, int]]:
            if path.is_root:
                return list(snapshot.sizes(ROOT))
            look = snapshot.look(path.text)
            if look.memory is not None:
                return look
            if look.below:
                return list(snapshot.sizes(path.text))
            raise Refused("view_missing")

        found = self.read(work)
        return self._view_text(command, found) if isinstance(found, Look) else self._view_list(path, found)

    def _view_text(self, command: View, look: Look) -> Reply:
        data, version = look.data or b"", look.memory.version_id if look.memory else ""
        try:
            count = self._lines.count(version, data)
            page = view(data, command.view_range, max_chars=self.limits.view_chars, lines=count)
        except UnicodeDecodeError:
            raise Damaged("a stored text is not UTF-8") from None
        lines = [self.replies.phrase("file_header", {"path": command.path.written})]
        if page.numbered:
            lines.append(page.numbered)
        if page.notice is not None:
            lines.append(self.replies.phrase(page.notice.key, page.notice.values))
        return Reply("\n".join(lines))

    def _view_list(self, path: MemoryPath, sizes: list[tuple[str, int]]) -> Reply:
        shown = listing(path.text, sizes, max_rows=self.limits.list_rows)
        lines = [self.replies.phrase("directory_header", {"path": path.text}), *shown.rows]
        if len(shown.rows) - 1 < shown.total:
            values = {"shown": len(shown.rows) - 1, "total": shown.total}
            lines.append(self.replies.phrase("rows_cut", values))
        return Reply("\n".join(lines))

    def _create(self, command: Create, who: Actor | None) -> Reply:
        path, data = command.path.text, command.file_text.encode()
        if command.path.is_root:
            raise Refused("exists")

        def work(tx: Transaction) -> None:
            look = tx.look(path)
            if look.below or (look.memory is not None and not self.limits.create_overwrites):
                raise Refused("exists")
            if look.above is not None:
                raise Refused("not_a_directory", ancestor=look.above)
            self._put(tx, look, path, data, who)

        return self._write(work, self.replies.phrase("created", {"path": command.path.written}))

    def _str_replace(self, command: StrReplace, who: Actor | None) -> Reply:
        def edit(text: str) -> tuple[str, int]:
            return replace(text, command.old_str, command.new_str)

        text, at = self._edit(command.path, edit, who, missing="edit_missing")
        shown = snippet(text, at, len(command.new_str), max_chars=self.limits.view_chars)
        if shown is None:
            return Reply(self.replies.edited)
        return Reply(f"{self.replies.edited_snippet}\n{shown}")

    def _insert(self, command: Insert, who: Actor | None) -> Reply:
        def edit(text: str) -> tuple[str, int]:
            return insert(text, command.insert_line, command.insert_text), 0

        self._edit(command.path, edit, who, missing="missing")
        return Reply(self.replies.phrase("inserted", {"path": command.path.written}))

    def _edit(
        self, path: MemoryPath, edit: Callable[[str], tuple[str, int]], who: Actor | None, *, missing: str
    ) -> tuple[str, int]:
        if path.is_root:
            raise Refused(missing)

        def work(tx: Transaction) -> tuple[str, int]:
            look = tx.look(path.text)
            if look.memory is None:
                raise Refused(missing)
            text, at = edit(_decoded(look.data))
            self._put(tx, look, path.text, text.encode(), who)
            return text, at

        return self.backend.write(self.id, work)

    def _delete(self, command: Delete, who: Actor | None) -> Reply:
        path = command.path
        if path.is_root:
            raise Refused("root_deleted")

        def work(tx: Transaction) -> None:
            look = tx.look(path.text)
            if not look.exists:
                raise Refused("missing")
            gone = [look.memory] if look.memory is not None else tx.walk(path.text)
            tx.record([Change(memory, None) for memory in gone], who)

        said = self.replies.phrase("deleted", {"path": path.written})
        return self._write(work, said, frees=True)

    def _rename(self, command: Rename, who: Actor | None) -> Reply:
        old, new = command.old_path, command.new_path
        if old.is_root:
            raise Refused("root_renamed")

        def work(tx: Transaction) -> None:
            source = tx.look(old.text)
            if not source.exists:
                raise Refused("missing", path=old.written)
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
                raise Refused("not_a_directory", ancestor=target.above)
            moved = [source.memory] if source.memory is not None else list(tx.walk(old.text))
            tx.record([_moved(memory, old, new) for memory in moved], who)

        values = {"old_path": old.written, "new_path": new.written}
        return self._write(work, self.replies.phrase("renamed", values))

    # -- the one write path ----------------------------------------------------------------------------------

    def _put(
        self,
        tx: Transaction,
        look: Look,
        path: str,
        data: bytes,
        who: Actor | None,
    ) -> None:
        """Record the bytes `data` at `path`, if they pass the guards; what changes nothing is no version."""
        if data == look.data:
            return
        limit, held = self.limits.max_memory_bytes, len(look.data or b"")
        if limit and len(data) > limit and (look.memory is None or len(data) >= held):
            raise Refused("too_large", size=len(data), limit=limit, present=held)
        tx.record([Change(look.memory, path, data)], who)

    def _write(self, work: Callable[[Transaction], None], said: str, *, frees: bool = False) -> Reply:
        self.backend.write(self.id, work, frees=frees)
        return Reply(said)

    def _parsed(self, path: str) -> MemoryPath:
        try:
            return MemoryPath.parse(path)
        except Refused as refusal:
            raise InvalidPath(self.replies.phrase(refusal.key, refusal.values)) from None


def _paths(command: Command) -> tuple[MemoryPath, ...]:
    """The paths a command names; the last is the one to look at when its outcome is unknown."""
    return (command.old_path, command.new_path) if isinstance(command, Rename) else (command.path,)


def _moved(memory: Memory, old: MemoryPath, new: MemoryPath) -> Change:
    path = new.text + memory.path[len(old.text) :]
    broken = limit_broken(path)
    if broken is not None:
        reason = Phrase("reason_moved", {"moved": memory.path, "limit_broken": broken})
        raise Refused("invalid_path", path=new.written, reason=reason)
    return Change(memory, path)


def _decoded(data: bytes | None) -> str:
    try:
        return (data or b"").decode()
    except UnicodeDecodeError:
        raise Damaged("a stored text is not UTF-8") from None
