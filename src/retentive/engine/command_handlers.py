"""Command handlers: one function for each command that changes memories, and the operation for views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.operation import ReadOperation, WriteOperation
from retentive.errors import Conflicting, Damaged, Phrase, Refused
from retentive.storage.contract import Change, Entry, Memory, Snapshot, Transaction
from retentive.storage.lookup import locate
from retentive.values.commands import (
    Append,
    Clear,
    Create,
    Delete,
    Insert,
    Rename,
    StrReplace,
    View,
    Write,
    WriteCommand,
    check_file_path,
    check_text,
    paths_of,
)
from retentive.values.listing import KnownListings, Listing, listing
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.settings import Settings
from retentive.values.text import LineCounts, TextPage, count_lines, decoded, insert, replace, snippet, view

ABSENT: Final = ""
"""Value of `if_version` if there must be no memory at the path."""


@dataclass(frozen=True, slots=True, eq=False)
class CommandResult:
    """Result of a write command: the data that its reply needs in addition to the command.

    `version_id` is the newest version of the memory. If the command changed a directory, it is one of the new versions.
    `snippet` contains numbered lines of the text around character `at`.
    """

    notes: tuple[Phrase, ...] = ()
    snippet: str | None = field(default=None, repr=False)
    at: int = 0
    version_id: str = ""
    is_new: bool = False
    """True if `write` or `append` created the memory."""
    memory: Memory | None = None
    """Only for changes by id: the memory after an update, or its last state before a deletion."""


@dataclass(frozen=True, slots=True, eq=False)
class RunCommand(WriteOperation[CommandResult]):
    """Run a command that changes memories.

    If `if_version` is set, the command runs only if the newest version of the memory has this id. `ABSENT` means that
    there must be no memory at the path.
    """

    is_replayable = True
    for_paths = True
    command: WriteCommand
    may_use_reserve: bool = False
    if_version: str | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the command in the tool protocol."""
        return self.command.name

    @property
    def allowed_when_archived(self) -> bool:  # type: ignore[override]  # depends on the command
        """True if the command only deletes."""
        return isinstance(self.command, Delete | Clear)

    @property
    def first_path(self) -> str | None:  # type: ignore[override]  # depends on the command
        """Path that the command reads first. This is the old path of a rename. None for the root."""
        command = self.command
        if isinstance(command, Clear):
            return None
        path = command.old_path.text if isinstance(command, Rename) else command.path.text
        return None if path == ROOT else path

    def paths(self) -> tuple[str, ...]:
        """Return the canonical paths in the command."""
        return tuple(path.text for path in paths_of(self.command))

    def apply(self, tx: Transaction, writer: GuardedWriter) -> CommandResult:
        """Run the handler of the command."""
        if self.if_version is not None:
            _check_version(tx, writer, self.command, self.if_version)
        return HANDLERS[type(self.command)](tx, writer, self.command)


@dataclass(frozen=True, slots=True, eq=False)
class Viewed:
    """Result of a view: a page of a memory, or the listing of a directory."""

    memory: Memory | None = None
    page: TextPage | None = None
    listing: Listing | None = None
    is_unconfirmed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RunView(ReadOperation[Viewed]):
    """Run the command `view`. `counts` is a cache of the line counts of texts. `listings` caches directory listings."""

    name = "view"
    for_paths = True
    command: View
    counts: LineCounts
    listings: KnownListings | None = None

    @property
    def first_path(self) -> str | None:  # type: ignore[override]  # depends on the command
        """The viewed path."""
        path = self.command.path.text
        return None if path == ROOT else path

    def paths(self) -> tuple[str, ...]:
        """Return the viewed path."""
        return (self.command.path.text,)

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the ids of the viewed memory and version for the audit entry, or `listed` for a directory."""
        if result.memory is None:
            return {"listed": True}
        return {"read": [result.memory.id, result.memory.version_id]}

    def apply(self, snapshot: Snapshot, settings: Settings) -> Viewed:
        """Read the lines of a memory or list a directory. Raises `Refused` for a missing path or an invalid range."""
        path = self.command.path
        if not path.is_root:
            entry = snapshot.get(path.text)
            if entry.memory is not None:
                page = page_of(self.command, entry, settings, self.counts)
                doubted = bool(settings.trust) and _is_unconfirmed(snapshot, settings, entry.memory)
                return Viewed(entry.memory, page, is_unconfirmed=doubted)
            if not entry.below:
                raise Refused("view_missing")
        return Viewed(listing=self._listing(snapshot, path.text, settings.list_rows, path.outward(path.text)))

    def _listing(self, snapshot: Snapshot, path: str, max_rows: int, shown: str) -> Listing:
        """Return the listing of a directory. It comes from the cache if the `state` of the snapshot is unchanged."""
        state = None if self.listings is None else snapshot.listing_key
        if state is None or self.listings is None:
            return listing(path, snapshot.sizes(path), max_rows=max_rows, shown=shown)
        found = self.listings.get(state, path, max_rows, shown)
        if found is None:
            found = listing(path, snapshot.sizes(path), max_rows=max_rows, shown=shown)
            self.listings.add(found, state, path, max_rows, shown)
        return found


def _is_unconfirmed(snapshot: Snapshot, settings: Settings, memory: Memory) -> bool:
    from retentive.engine.trust.overlay import is_doubted  # noqa: PLC0415 - rarely needed

    return is_doubted(snapshot, settings, memory)


def page_of(command: View, entry: Entry, settings: Settings, counts: LineCounts) -> TextPage:
    """Return the lines of the memory in `entry` that `command` requests.

    Raises `Refused` for an invalid range, and `Damaged` for a text that is not UTF-8.
    """
    data, version = entry.data or b"", entry.memory.version_id if entry.memory else ""
    try:
        lines = counts.count(version, data)
        return view(data, command.view_range, max_chars=settings.view_chars, lines=lines)
    except UnicodeDecodeError:
        raise Damaged("the stored text is not valid UTF-8") from None


def check_free(entry: Entry) -> None:
    """Raise `Refused` if the path of `entry` is a directory, or if it leads through a memory."""
    if entry.below:
        raise Refused("exists")
    if entry.above is not None:
        raise Refused("not_a_directory", ancestor=entry.above)


def taken(key: str, snapshot: Snapshot, path: MemoryPath, entry: Entry, **values: object) -> Refused:
    """Return the refusal with the reply `key` for a path that is not free.

    Its attribute `conflicting` identifies the memory at the path, or else a memory above or below the path.
    """
    refusal, memory = Refused(key, **values), entry.memory
    if entry.above is not None:
        memory = snapshot.get(entry.above).memory
    elif entry.below:
        memory = next((found for found, _ in snapshot.walk(path.text, limit=1)), None)
    refusal.conflicting = None if memory is None else Conflicting(memory.id, memory.path)
    return refusal


def brought_by(operation: object) -> str:
    """Return the text that an operation would store, such as `file_text`; empty for operations without a text."""
    if not isinstance(operation, RunCommand):
        return ""
    text = _TEXT_OF.get(type(operation.command))
    return "" if text is None else text(operation.command)


_TEXT_OF: Mapping[type[WriteCommand], Callable[[Any], str]] = {
    Create: attrgetter("file_text"),
    Insert: attrgetter("insert_text"),
    StrReplace: attrgetter("new_str"),
    Write: attrgetter("text"),
    Append: attrgetter("text"),
}


def _check_version(tx: Transaction, writer: GuardedWriter, command: WriteCommand, if_version: str) -> None:
    """Raise `Refused` unless `if_version` is the id of the newest version of the memory that the command changes."""
    path = paths_of(command)[0]
    writer.check(path)
    entry = Entry(below=True) if path.is_root else tx.get(path.text)
    takes_directories = isinstance(command, Delete | Rename)
    if entry.above is not None or (entry.below and not takes_directories):
        return  # the handler raises a more exact error
    if (ABSENT if entry.memory is None else entry.memory.version_id) != if_version:
        raise Refused("changed_meanwhile")


def _create(tx: Transaction, writer: GuardedWriter, command: Create) -> CommandResult:
    path = command.path
    writer.check_name(path)
    writer.check(path)
    entry = Entry(below=True) if path.is_root else tx.get(path.text)
    if entry.below or (entry.memory is not None and not writer.settings.create_overwrites):
        raise taken("exists", tx, path, entry)
    if entry.above is not None:
        raise taken("not_a_directory", tx, path, entry, ancestor=path.outward(entry.above))
    stored = writer.put(entry, path, command.file_text)
    return CommandResult(stored.notes, version_id=stored.version_id)


def _write(tx: Transaction, writer: GuardedWriter, command: Write) -> CommandResult:
    check_text("text", command.text)
    entry = _writable(tx, writer, command.path)
    stored = writer.put(entry, command.path, command.text)
    return CommandResult(stored.notes, version_id=stored.version_id, is_new=entry.memory is None)


def _append(tx: Transaction, writer: GuardedWriter, command: Append) -> CommandResult:
    check_text("text", command.text)
    entry = _writable(tx, writer, command.path)
    text = decoded(entry.data) if entry.data else ""
    stored = writer.put(entry, command.path, insert(text, count_lines(text), command.text))
    return CommandResult(stored.notes, version_id=stored.version_id, is_new=entry.memory is None)


def _writable(tx: Transaction, writer: GuardedWriter, path: MemoryPath) -> Entry:
    """Return the entry at the path.

    The entry has no memory if the path is free. Raises `Refused` if nothing may be written there.
    """
    check_file_path(path)
    writer.check(path)
    entry = Entry(below=True) if path.is_root else tx.get(path.text)
    if entry.memory is None:
        writer.check_name(path)
    if entry.below:
        raise taken("exists", tx, path, entry)
    if entry.above is not None:
        raise taken("not_a_directory", tx, path, entry, ancestor=path.outward(entry.above))
    return entry


def _str_replace(tx: Transaction, writer: GuardedWriter, command: StrReplace) -> CommandResult:
    entry = _edited(tx, writer, command.path, missing="edit_missing")
    try:
        text, at = replace(decoded(entry.data), command.old_str, command.new_str)
    except Refused as refusal:
        raise _harmless(refusal, writer) from None
    stored = writer.put(entry, command.path, text, same=(at, len(text) - at - len(command.new_str)))
    if stored.altered:
        return CommandResult(stored.notes, version_id=stored.version_id)
    shown = snippet(stored.text, at, len(command.new_str), max_chars=writer.settings.view_chars)
    return CommandResult(stored.notes, shown, at, stored.version_id)


def _harmless(refusal: Refused, writer: GuardedWriter) -> Refused:
    """Mask the sensitive values in the `old_str` that a refusal contains."""
    echoed = refusal.values.get("old_str")
    if not isinstance(echoed, str):
        return refusal
    return Refused(refusal.key, **(refusal.values | {"old_str": writer.shown(echoed)}))


def _insert(tx: Transaction, writer: GuardedWriter, command: Insert) -> CommandResult:
    entry = _edited(tx, writer, command.path, missing="missing")
    text = insert(decoded(entry.data), command.insert_line, command.insert_text)
    stored = writer.put(entry, command.path, text)
    return CommandResult(stored.notes, version_id=stored.version_id)


def _edited(tx: Transaction, writer: GuardedWriter, path: MemoryPath, *, missing: str) -> Entry:
    writer.check(path)
    entry = Entry() if path.is_root else tx.get(path.text)
    if entry.memory is None:
        raise Refused(missing)
    return entry


def _delete(tx: Transaction, writer: GuardedWriter, command: Delete) -> CommandResult:
    path = command.path
    entry = Entry(below=True) if path.is_root else locate(tx, path.text)
    gone = writer.check_all(path, entry, tx)
    if path.is_root:
        raise Refused("root_deleted")
    if not entry.exists:
        raise Refused("missing")
    writer.delete(gone)
    return CommandResult(version_id=writer.version_id)


def _rename(tx: Transaction, writer: GuardedWriter, command: Rename) -> CommandResult:
    old, new = command.old_path, command.new_path
    writer.check_name(new)
    source = Entry(below=True) if old.is_root else tx.get(old.text)
    moved = writer.check_all(old, source, tx)
    writer.check(new)
    if old.is_root:
        raise Refused("root_renamed")
    if not source.exists:
        raise Refused("missing", path=old.written)
    _check_destination(tx, command, source)
    changes = [Change(memory, old.moved(memory.path, new)) for memory in moved]
    if not all(writer.may_change(str(change.path)) for change in changes):
        raise Refused("read_only", path=new.written)
    if source.memory is None:  # a new directory name can form a sensitive value together with the names below it
        for change in changes:
            writer.check_name(new.leading_to(str(change.path)))
    writer.move(changes)
    return CommandResult(version_id=writer.version_id)


def _check_destination(tx: Transaction, command: Rename, source: Entry) -> None:
    old, new = command.old_path, command.new_path
    if source.memory is not None:
        check_file_path(new)
    if new.is_root or new == old:
        raise Refused("destination_exists")
    target = tx.get(new.text)
    if target.exists:
        raise taken("destination_exists", tx, new, target)
    if source.memory is None and old.contains(new):
        raise Refused("into_itself")
    if target.above is not None:
        raise taken("not_a_directory", tx, new, target, ancestor=new.outward(target.above))


def _clear(tx: Transaction, writer: GuardedWriter, _: Clear) -> CommandResult:
    writer.delete(writer.check_all(MemoryPath.known(ROOT), Entry(below=True), tx))
    return CommandResult()


HANDLERS: Mapping[type[WriteCommand], Callable[[Transaction, GuardedWriter, Any], CommandResult]] = {
    Create: _create,
    StrReplace: _str_replace,
    Insert: _insert,
    Delete: _delete,
    Rename: _rename,
    Write: _write,
    Append: _append,
    Clear: _clear,
}
"""Handler of each command. A handler raises `Refused` before it records any change."""
