"""What the commands that change something do: each as work for one transaction, and what is to be replied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from retentive.engine.writer import GuardedWriter
from retentive.errors import Phrase, Refused
from retentive.storage.contract import Change, Entry, Transaction
from retentive.values.commands import Command, Create, Delete, Insert, Rename, StrReplace, View, check_file_path
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.replies import Replies, Reply
from retentive.values.text import decoded, insert, replace, snippet


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a change: all that its reply is made of, besides the command.

    `snippet` shows lines of the text of the version `text_of`, around the character `at`.
    """

    notes: tuple[Phrase, ...] = ()
    snippet: str | None = None
    at: int = 0
    text_of: str = ""


Asked: TypeAlias = "Create | StrReplace | Insert | Delete | Rename | None"
"""A command that changes something; None asks to clear the store."""
Work: TypeAlias = Callable[[Transaction, GuardedWriter], Done]


def work_of(command: Asked) -> Work:
    """What a command does in its transaction. It raises `Refused` before anything is recorded."""
    match command:
        case Create():
            return lambda tx, write: _create(tx, write, command)
        case StrReplace():
            return lambda tx, write: _str_replace(tx, write, command)
        case Insert():
            return lambda tx, write: _insert(tx, write, command)
        case Delete():
            return lambda tx, write: _delete(tx, write, command)
        case Rename():
            return lambda tx, write: _rename(tx, write, command)
        case None:
            return _clear


def may_use_reserve(command: Asked) -> bool:
    """Whether a command deletes, and may use the space kept in reserve for that."""
    return command is None or isinstance(command, Delete)


def reply_to(replies: Replies, command: Asked, done: Done) -> Reply:
    """The reply to a change, with what guards have to say on lines of their own."""
    return with_notes(replies, _said(replies, command, done), done.notes)


def with_notes(replies: Replies, text: str, notes: tuple[Phrase, ...]) -> Reply:
    """A reply, and what guards have to say."""
    return Reply("\n".join([text, *(replies.phrase(note.key, note.values) for note in notes)]))


def paths_of(command: Command) -> tuple[MemoryPath, ...]:
    """The paths a command names; the last is the one to look at when its outcome is unknown."""
    return (command.old_path, command.new_path) if isinstance(command, Rename) else (command.path,)


def name_of(command: Command) -> str:
    """The name of a command, as models call it."""
    return _NAMES[type(command)]


def name_given(given: object) -> str | None:
    """The name of the command that the input of a tool call asks for; None if it is not one of ours."""
    name = given.get("command") if isinstance(given, Mapping) else None
    return name if isinstance(name, str) and name in _NAMES.values() else None


_NAMES = {
    View: "view",
    Create: "create",
    StrReplace: "str_replace",
    Insert: "insert",
    Delete: "delete",
    Rename: "rename",
}


def _said(replies: Replies, command: Asked, done: Done) -> str:
    match command:
        case Create(path=path):
            return replies.phrase("created", {"path": path.written})
        case StrReplace():
            return replies.edited if done.snippet is None else f"{replies.edited_snippet}\n{done.snippet}"
        case Insert(path=path):
            return replies.phrase("inserted", {"path": path.written})
        case Delete(path=path):
            return replies.phrase("deleted", {"path": path.written})
        case Rename(old_path=old, new_path=new):
            return replies.phrase("renamed", {"old_path": old.written, "new_path": new.written})
        case None:
            return replies.cleared


def _create(tx: Transaction, write: GuardedWriter, command: Create) -> Done:
    path = command.path
    write.check_name(path)
    write.check(path)
    look = Entry(below=True) if path.is_root else tx.get(path.text)
    if look.below or (look.memory is not None and not write.settings.create_overwrites):
        raise Refused("exists")
    if look.above is not None:
        raise Refused("not_a_directory", ancestor=path.outward(look.above))
    return Done(write.put(look, path, command.file_text).notes)


def _str_replace(tx: Transaction, write: GuardedWriter, command: StrReplace) -> Done:
    look = _edited(tx, write, command.path, missing="edit_missing")
    try:
        text, at = replace(decoded(look.data), command.old_str, command.new_str)
    except Refused as refusal:
        raise _harmless(refusal, write) from None
    written = write.put(look, command.path, text)
    if written.altered:
        return Done(written.notes)
    shown = snippet(written.text, at, len(command.new_str), max_chars=write.settings.view_chars)
    before = look.memory.version_id if look.memory is not None else ""
    return Done(written.notes, shown, at, write.recorded[-1].version_id if write.recorded else before)


def _harmless(refusal: Refused, write: GuardedWriter) -> Refused:
    """The refusal, with what it echoes of the input without sensitive values."""
    echoed = refusal.values.get("old_str")
    if not isinstance(echoed, str):
        return refusal
    return Refused(refusal.key, **(refusal.values | {"old_str": write.shown(echoed)}))


def _insert(tx: Transaction, write: GuardedWriter, command: Insert) -> Done:
    look = _edited(tx, write, command.path, missing="missing")
    text = insert(decoded(look.data), command.insert_line, command.insert_text)
    return Done(write.put(look, command.path, text).notes)


def _edited(tx: Transaction, write: GuardedWriter, path: MemoryPath, *, missing: str) -> Entry:
    """The memory to be edited."""
    write.check(path)
    look = Entry() if path.is_root else tx.get(path.text)
    if look.memory is None:
        raise Refused(missing)
    return look


def _delete(tx: Transaction, write: GuardedWriter, command: Delete) -> Done:
    path = command.path
    look = Entry(below=True) if path.is_root else tx.get(path.text)
    gone = write.check_all(path, look)
    if path.is_root:
        raise Refused("root_deleted")
    if not look.exists:
        raise Refused("missing")
    write.delete(gone)
    return Done()


def _rename(tx: Transaction, write: GuardedWriter, command: Rename) -> Done:
    old, new = command.old_path, command.new_path
    write.check_name(new)
    source = Entry(below=True) if old.is_root else tx.get(old.text)
    moved = write.check_all(old, source)
    write.check(new)
    if old.is_root:
        raise Refused("root_renamed")
    if not source.exists:
        raise Refused("missing", path=old.written)
    _check_destination(tx, command, source)
    changes = [Change(memory, old.moved(memory.path, new)) for memory in moved]
    if not all(write.may_change(str(change.path)) for change in changes):
        raise Refused("read_only", path=new.written)
    if source.memory is None:  # a value may come together from the new name of the directory and what lies below
        for change in changes:
            write.check_name(new.leading_to(str(change.path)))
    write.move(changes)
    return Done()


def _check_destination(tx: Transaction, command: Rename, source: Entry) -> None:
    old, new = command.old_path, command.new_path
    if source.memory is not None:
        check_file_path(new)
    if new.is_root or new == old:
        raise Refused("destination_exists")
    target = tx.get(new.text)
    if target.exists:
        raise Refused("destination_exists")
    if source.memory is None and old.contains(new):
        raise Refused("into_itself")
    if target.above is not None:
        raise Refused("not_a_directory", ancestor=new.outward(target.above))


def _clear(_: Transaction, write: GuardedWriter) -> Done:
    write.delete(write.check_all(MemoryPath.known(ROOT), Entry(below=True)))
    return Done()
