"""Handlers: one pure function for each command that changes memories, and the operations for commands and views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from retentive.engine.citations import Citation, citations_of
from retentive.engine.guard import Guard
from retentive.engine.lists import read_fact
from retentive.engine.operation import CommandResult, Facts, Outcome, Plan, Read, Write
from retentive.engine.pending import Pending
from retentive.engine.visibility import Assessment
from retentive.errors import Conflicting, Damaged, NotFound, Phrase, Refused
from retentive.storage.contract import Entry, Memory, Moved, Snapshot, Transaction
from retentive.storage.lookup import locate
from retentive.storage.overlay import Overlay
from retentive.values.commands import (
    Append,
    Clear,
    Create,
    Delete,
    Insert,
    Rename,
    StrReplace,
    View,
    WriteCommand,
    check_file_path,
    check_text,
    paths_of,
)
from retentive.values.commands import Write as WriteText
from retentive.values.listing import Listing, listing
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import PROPOSED_TEXT, Recorded
from retentive.values.settings import Settings
from retentive.values.text import TextPage, count_lines, decoded, insert, snippet, view
from retentive.values.text import replace as replaced

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore

_MAX_LISTINGS, _MAX_LISTED_ROWS = 16, 2_000  # in the cache: at most about 3 MB
MAX_BATCH = 100
"""Maximum number of commands in a batch. While a batch runs, all other writers of the memory store wait."""
ABSENT: Final = ""
"""Value of `if_version` if there must be no memory at the path."""


def run_command(command: WriteCommand, if_version: str | None = None) -> Write[CommandResult]:
    """Run a command that changes memories.

    If `if_version` is set, the command runs only if the newest version of the memory has this id. `ABSENT` means that
    there must be no memory at the path.
    """

    def work(view: Snapshot, guard: Guard) -> Plan[CommandResult]:
        if if_version is not None:
            _check_version(view, guard, command, if_version)
        return HANDLERS[type(command)](view, guard, command)

    def facts_kept(outcome: Outcome[CommandResult], _: Snapshot) -> Mapping[str, object]:
        """Return the version, and those parts of the reply that cannot be taken from the repeated command."""
        result = outcome.value()
        notes = [[note.key, {k: v for k, v in note.values.items() if k != "path"}] for note in result.notes]
        facts: dict[str, object] = {"version": outcome.version_id or result.version_id, "notes": notes}
        if result.is_new:
            facts["new"] = True
        if result.snippet is not None:
            facts["at"] = result.at
        return facts

    removes = isinstance(command, Delete | Clear)
    return Write(
        command.name,
        work,
        paths_of(command),
        command=command,
        facts_kept=facts_kept,
        rebuilt=partial(_rebuilt, command),
        under_review="propose",
        only_removes=removes,
        allowed_when_archived=removes,
        for_paths=True,
    )


def _rebuilt(command: WriteCommand, facts: Facts, view: Snapshot) -> CommandResult:
    path, version_id = paths_of(command)[-1].written, str(facts["version"])
    notes = tuple(Phrase(key, {**values, "path": path}) for key, values in facts["notes"])
    result = CommandResult(notes, version_id, is_new=bool(facts.get("new")))
    if "at" in facts:  # the snippet comes from the text that the first run wrote, unless it was removed later
        text, inner = None, version_id.rpartition(".")[2]
        with suppress(NotFound):
            if version_id.startswith("prop_") and not inner.startswith("memver_"):
                text = view.get_record(PROPOSED_TEXT, version_id)
            elif (data := view.version(inner)[1]) is not None:
                text = decoded(data)
        if text is not None:
            result.snippet = snippet(text, facts["at"], len(getattr(command, "new_str", "")), max_chars=0)
    return result


BatchStep: TypeAlias = tuple[CommandResult, Sequence[Recorded]]
"""Result of one command of a batch, and the ids of the versions that the command recorded."""


def run_batch(commands: Sequence[Write[CommandResult]]) -> Write[list[BatchStep]]:
    """Run commands in order, as one change. Each command sees the changes of the commands before it.

    If a command is refused, nothing changes. The `position` of the `Refused` error is the index of that command.
    """

    def work(view: Snapshot, guard: Guard) -> Plan[list[BatchStep]]:
        after, results = Pending(view), list[CommandResult]()
        ends = [0]  # of the changes of each command
        for position, command in enumerate(commands):
            try:
                plan = command.work(after, guard)
            except Refused as refusal:
                refusal.position = position
                raise
            after.add(plan.changes)
            results.append(plan.result)
            ends.append(len(after.changes))

        def steps(_: Snapshot, recorded: Sequence[Recorded]) -> Plan[list[BatchStep]]:
            return Plan([(result, recorded[at:end]) for result, at, end in zip(results, ends, ends[1:], strict=False)])

        return Plan([], after.changes, afterwards=steps)

    def rebuilt(facts: Facts, _: Snapshot) -> list[BatchStep]:
        left = iter(facts["recorded"])  # the results have no notes and snippets, which only replies need
        return [(CommandResult(version_id=before), list(islice(left, count))) for before, count in facts["steps"]]

    removes = all(each.only_removes for each in commands)
    return Write(
        "batch",
        work,
        tuple(dict.fromkeys(path for each in commands for path in each.paths)),
        facts_kept=lambda outcome, _: {"steps": [[result.version_id, len(ids)] for result, ids in outcome.value()]},
        rebuilt=rebuilt,
        under_review="propose",
        only_removes=removes,
        allowed_when_archived=removes,
        for_paths=True,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Viewed:
    """Result of a view: a page of a memory with the citations that concern it, or the listing of a directory."""

    memory: Memory | None = None
    page: TextPage | None = None
    listing: Listing | None = None
    is_unconfirmed: bool = False
    citations: Sequence[Citation] = ()


def run_view(command: View, core: StoreCore) -> Read[Viewed]:
    """Run the command `view`: read the lines of a memory or list a directory.

    The operation raises `Refused` for a missing path or an invalid range.
    """
    path = command.path

    def work(snapshot: Snapshot) -> Viewed:
        settings, entry = core.settings_of(snapshot), entry_at(snapshot, path)
        if entry.memory is None:
            if not entry.below:
                raise Refused("view_missing")
            return Viewed(listing=_listing(snapshot, path, settings, core.listings))
        try:
            page = view(entry.data or b"", command.view_range, max_chars=settings.view_chars)
        except UnicodeDecodeError:
            raise Damaged("the stored text is not valid UTF-8") from None
        doubted = settings.trust and Assessment(snapshot, settings, None).open_contributors(entry.memory)
        cited = citations_of(snapshot, entry.memory, entry.data)
        if cited:  # of the lines that are shown; in a tree of stores, a cited memory may be in another store
            first = (command.view_range or (1, -1))[0]
            last, is_own = first + page[0].count("\n"), path.mount == ROOT
            cited = [e for e in cited if (is_own or not e.is_of_memory) and (not e.line or first <= e.line <= last)]
        return Viewed(entry.memory, page, is_unconfirmed=bool(doubted), citations=cited)

    return Read("view", work, path, lambda viewed: read_fact(viewed.memory) or {"listed": True}, command)


def _listing(snapshot: Snapshot, path: MemoryPath, settings: Settings, cache: dict[object, Listing]) -> Listing:
    """List a directory. `cache` has listings of stored states, none of overlays."""
    memories = snapshot.list(path.text)  # compares plain files with their versions at once, and reads the rest later
    state, shown = snapshot.state, path.outward(path.text)
    # With the usage: a database that was restored from a backup may repeat a revision.
    key = (state.revision, state.usage, path.text, settings.list_rows, shown)
    is_stored = not isinstance(snapshot, Overlay | Transaction)
    if is_stored and (known := cache.get(key)) is not None:
        return known
    sizes = ((memory.path, memory.size_bytes) for memory, _ in memories)
    found = listing(path.text, sizes, max_rows=settings.list_rows, shown=shown)
    if is_stored and len(found.rows) <= _MAX_LISTED_ROWS:
        if len(cache) >= _MAX_LISTINGS:
            cache.clear()
        cache[key] = found
    return found


def check_free(entry: Entry) -> None:
    """Raise `Refused` if the path of `entry` is a directory, or if it leads through a memory."""
    if entry.below:
        raise Refused("exists")
    if entry.above is not None:
        raise Refused("not_a_directory", ancestor=entry.above)


def require_free(view: Snapshot, path: MemoryPath, entry: Entry, taken: str = "exists", **values: object) -> None:
    """Raise `Refused` if nothing can be created at a path. `taken` is the key of the reply for an existing path.

    The attribute `conflicting` of the error is the memory at the path, or else one above or below the path.
    """
    memory = entry.memory
    if entry.exists:
        refusal = Refused(taken, **values)
        if entry.below:
            memory = next((each for each, _ in view.list(path.text, limit=1)), None)
    elif entry.above is not None:
        refusal = Refused("not_a_directory", ancestor=path.outward(entry.above))
        memory = view.get(entry.above).memory
    else:
        return
    refusal.conflicting = None if memory is None else Conflicting(memory.id, memory.path)
    raise refusal


def entry_at(view: Snapshot, path: MemoryPath) -> Entry:
    """Return the entry at a path. The root is a directory."""
    return Entry(below=True) if path.is_root else view.get(path.text)


def _check_version(view: Snapshot, guard: Guard, command: WriteCommand, if_version: str) -> None:
    """Raise `Refused` unless `if_version` is the id of the newest version of the memory that the command changes."""
    path = paths_of(command)[0]
    guard.check(path)
    entry = entry_at(view, path)
    takes_directories = isinstance(command, Delete | Rename)
    if entry.above is not None or (entry.below and not takes_directories):
        return  # the handler raises a more exact error
    if (ABSENT if entry.memory is None else entry.memory.version_id) != if_version:
        raise Refused("changed_meanwhile")


def _create(view: Snapshot, guard: Guard, command: Create) -> Plan[CommandResult]:
    path = command.path
    guard.check_name(path)
    guard.check(path)
    entry = entry_at(view, path)
    if entry.memory is None or not guard.settings.create_overwrites:
        require_free(view, path, entry)
    return guard.put(view, entry, path, command.file_text)


def _write(view: Snapshot, guard: Guard, command: WriteText | Append) -> Plan[CommandResult]:
    check_text("text", command.text)
    path, text = command.path, command.text
    check_file_path(path)
    guard.check(path)
    entry = entry_at(view, path)
    if entry.memory is None:
        guard.check_name(path)
        require_free(view, path, entry)
    if isinstance(command, Append):
        before = decoded(entry.data) if entry.data else ""
        text = insert(before, count_lines(before), text)
    plan = guard.put(view, entry, path, text)
    plan.result.is_new = entry.memory is None
    return plan


def _str_replace(view: Snapshot, guard: Guard, command: StrReplace) -> Plan[CommandResult]:
    entry = _edited(view, guard, command.path, missing="edit_missing")
    try:
        text, at = replaced(decoded(entry.data), command.old_str, command.new_str)
    except Refused as refusal:
        if "old_str" in refusal.values:  # the reply repeats it, without its sensitive values
            refusal.values = {**refusal.values, "old_str": guard.shown(command.old_str)}
        raise
    plan = guard.put(view, entry, command.path, text)
    if not plan.result.is_masked:
        plan.result.at = at
        plan.result.snippet = snippet(text, at, len(command.new_str), max_chars=guard.settings.view_chars)
    return plan


def _insert(view: Snapshot, guard: Guard, command: Insert) -> Plan[CommandResult]:
    entry = _edited(view, guard, command.path, missing="missing")
    text = insert(decoded(entry.data), command.insert_line, command.insert_text)
    return guard.put(view, entry, command.path, text)


def _edited(view: Snapshot, guard: Guard, path: MemoryPath, *, missing: str) -> Entry:
    guard.check(path)
    entry = entry_at(view, path)
    if entry.memory is None:
        raise Refused(missing)
    return entry


def _delete(view: Snapshot, guard: Guard, command: Delete) -> Plan[CommandResult]:
    path = command.path
    entry = Entry(below=True) if path.is_root else locate(view, path.text)
    gone = guard.check_all(path, entry, view)
    if path.is_root:
        raise Refused("root_deleted")
    if not entry.exists:
        raise Refused("missing")
    return Plan(CommandResult(), guard.delete(view, gone))


def _rename(view: Snapshot, guard: Guard, command: Rename) -> Plan[CommandResult]:
    old, new = command.old_path, command.new_path
    guard.check_name(new)
    source = entry_at(view, old)
    moved = guard.check_all(old, source, view)
    guard.check(new)
    if old.is_root:
        raise Refused("root_renamed")
    if not source.exists:
        raise Refused("missing", path=old.written)
    if source.memory is not None:
        check_file_path(new)
    if new.is_root or new == old:
        raise Refused("destination_exists")
    target = view.get(new.text)
    if not target.exists and source.memory is None and old.contains(new):
        raise Refused("into_itself")
    require_free(view, new, target, "destination_exists")
    moves = [Moved(memory, old.moved(memory.path, new)) for memory in moved]
    if not all(guard.may_change(move.path) for move in moves):
        raise Refused("read_only", path=new.written)
    if source.memory is None:  # a new directory name can form a sensitive value together with the names below it
        for move in moves:
            guard.check_name(MemoryPath(move.path, new.outward(move.path), new.mount))
    return Plan(CommandResult(), guard.move(view, moves))


def _clear(view: Snapshot, guard: Guard, _: Clear) -> Plan[CommandResult]:
    return Plan(CommandResult(), guard.delete(view, guard.check_all(MemoryPath.known(ROOT), Entry(below=True), view)))


HANDLERS: Mapping[type[WriteCommand], Callable[[Snapshot, Guard, Any], Plan[CommandResult]]] = {
    Create: _create,
    StrReplace: _str_replace,
    Insert: _insert,
    Delete: _delete,
    Rename: _rename,
    WriteText: _write,
    Append: _write,
    Clear: _clear,
}
"""Handler of each command."""
