"""`ls`, `view`, `cat`, `create`, `replace`, `insert`, `rm`, `mv`: read and change memories."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NoReturn

import click

from retentive.cli import layouts, output
from retentive.cli.exits import status_of
from retentive.cli.location import Location
from retentive.cli.parameters import line_range, revision_option, text_of_file, text_or_stdin
from retentive.engine.command_handlers import RunView
from retentive.engine.queries import list_memories
from retentive.engine.rendering import rendered
from retentive.errors import NotFound, Refused
from retentive.history.reads import AsOf
from retentive.history.revisions import Revision
from retentive.storage.contract import Memory
from retentive.store import MemoryStore, core_of
from retentive.values.commands import View, parse
from retentive.values.listing import human_size
from retentive.values.paths import ROOT
from retentive.values.replies import Reply
from retentive.values.text import LineCounts

_as_of_option = revision_option("--as-of", text="Show the state right after a change: HEAD~2, r1234, @{yesterday}, 2h.")


@output.command(json="Print a JSON list with ids, hashes and times.")
@click.argument("path", default=ROOT)
@click.option("--all", "show_all", is_flag=True, help="On a terminal, show hidden memories too (.name, node_modules).")
@_as_of_option
def ls(location: Location, path: str, *, show_all: bool, as_of: Revision | None) -> None:
    """List the memories below PATH, at any depth.

    Prints a table on a terminal. In a pipe each line has the size in bytes and the path of a memory, separated by a
    tab; hidden memories are included.
    """
    with location.existing() as store:
        found = _memories(store, path, as_of)
    output.emit(
        map(_memory_object, found),
        plain=((str(memory.size_bytes), memory.path) for memory in found),
        shown=_shown(path, found, show_all=show_all),
    )


@output.command(json=output.REPLY)
@click.argument("path", default=ROOT)
@click.option(
    "--range",
    "view_range",
    metavar="A:B",
    callback=line_range,
    help="Show only these lines of a memory: 10:20, 10: or 10.",
)
@_as_of_option
def view(location: Location, path: str, *, view_range: tuple[int, int] | None, as_of: Revision | None) -> None:
    """Show a memory with line numbers, or list a directory.

    Prints exactly the reply a model gets. A directory is listed two levels deep.
    """
    given: dict[str, object] = {"command": "view", "path": path, "view_range": view_range}
    with location.existing() as store:
        reply = store.execute(given) if as_of is None else _past_view(store, given, as_of)
        output.end(reply)


@output.command(json=output.REPLY)
@click.argument("path")
@_as_of_option
def cat(location: Location, path: str, *, as_of: Revision | None) -> None:
    """Print the exact bytes of a memory."""
    with location.existing() as store:
        text = store.read(path) if as_of is None else store.history.text_at(path, as_of)[1]
    if output.as_json():
        output.end(Reply(text))
    output.write(text.encode())


@output.command(json=output.REPLY)
@click.argument("path")
@click.argument("text", required=False)
def create(location: Location, path: str, text: str | None) -> None:
    """Create a memory at PATH from TEXT or from standard input.

    Creates the location and the memory store if they do not exist.
    """
    _execute(location.created(sweep=True), command="create", path=path, file_text=text_or_stdin(text))


@output.command(json=output.REPLY)
@click.argument("path")
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.option("--old-file", metavar="FILE", help="Read OLD from this file; - is standard input.")
@click.option("--new-file", metavar="FILE", help="Read NEW from this file; - is standard input.")
def replace(
    location: Location, path: str, old: str | None, new: str | None, *, old_file: str | None, new_file: str | None
) -> None:
    """Replace OLD, which must occur exactly once in the memory, by NEW.

    Without NEW, OLD is removed. With --old-file, the argument after PATH is NEW.
    """
    old_text, new_text = _old_and_new([old, new], old_file, new_file)
    _execute(location.existing(sweep=True), command="str_replace", path=path, old_str=old_text, new_str=new_text)


@output.command(json=output.REPLY)
@click.argument("path")
@click.argument("line", type=int)
@click.argument("text", required=False)
def insert(location: Location, path: str, line: int, text: str | None) -> None:
    """Insert TEXT, or standard input, after line LINE of a memory.

    The text becomes whole lines. LINE 0 inserts at the top.
    """
    inserted = text_or_stdin(text)
    _execute(location.existing(sweep=True), command="insert", path=path, insert_line=line, insert_text=inserted)


@output.command(json=output.REPLY)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
def rm(location: Location, paths: Sequence[str]) -> None:
    """Delete memories, or directories with everything below them.

    A directory is deleted as a whole or not at all. After an error, rm goes on with the next PATH; the exit status is
    that of the first error.
    """
    first_error = 0
    with location.existing(sweep=True) as store:
        for path in paths:
            reply = store.execute({"command": "delete", "path": path})
            output.emit_reply(reply)
            if reply.is_error:
                first_error = first_error or status_of(reply.code)
    raise click.exceptions.Exit(first_error)


@output.command(json=output.REPLY)
@click.argument("old_path", metavar="OLD")
@click.argument("new_path", metavar="NEW")
def mv(location: Location, old_path: str, new_path: str) -> None:
    """Rename a memory, or a directory with everything below it.

    NEW is the complete new path and must not exist.
    """
    _execute(location.existing(sweep=True), command="rename", old_path=old_path, new_path=new_path)


def _execute(opened: AbstractContextManager[MemoryStore], **given: object) -> NoReturn:
    """Run a command of the tool and print its reply."""
    with opened as store:
        output.end(store.execute(given))


def _memories(store: MemoryStore, path: str, at: Revision | None) -> list[Memory]:
    """The memories below a directory, or the memory at a path, at a moment. Raises `NotFound`, `InvalidInput`."""
    core = core_of(store)
    with core.checking("list" if at is None else "list.as_of"):
        target = core.parsed(path)
    present = list_memories(target, or_at=True)
    found = core.result_of(present if at is None else AsOf(present, at))
    if not found and not target.is_root:
        raise NotFound(f"{path} does not exist" if at is None else f"{path} did not exist at that time")
    return found


def _shown(path: str, found: Sequence[Memory], *, show_all: bool) -> list[output.Piece]:
    """Return a table for a terminal, without hidden memories, and a line with the number of hidden memories."""
    shown = [memory for memory in found if show_all or not _is_hidden(memory.path, path)]
    rows = ((human_size(each.size_bytes), output.local_time(each.updated_at), each.path) for each in shown)
    hidden = len(found) - len(shown)
    return [
        layouts.Table(("size", "changed", "path"), rows, empty="" if hidden else "No memories."),
        f"{hidden} hidden; --all shows them." if hidden else "",
    ]


def _is_hidden(path: str, below: str) -> bool:
    """True if a view of the directory `below` leaves out the memory, at any level."""
    names = path[len(below.rstrip("/")) :].split("/")
    return any(name.startswith(".") or name == "node_modules" for name in names)


def _memory_object(memory: Memory) -> dict[str, object]:
    names = ("id", "path", "size_bytes", "sha256", "version_id", "created_at", "updated_at")
    return output.attributes(memory, *names)


def _past_view(store: MemoryStore, given: dict[str, object], at: Revision) -> Reply:
    """Reply to a view of a past state. Raises `NotFound` and `InvalidInput`."""
    try:
        command = parse(given)
    except Refused as refusal:
        return core_of(store).refused("view.as_of", refusal)
    assert isinstance(command, View)
    operation = RunView(command, LineCounts())
    core = core_of(store)
    outcome = core.run(AsOf(operation, at), core.invocation())
    if outcome.error is not None and not isinstance(outcome.error, Refused):
        raise outcome.error
    return rendered(core, operation, outcome)


def _old_and_new(arguments: Sequence[str | None], old_file: str | None, new_file: str | None) -> tuple[str, str]:
    """The two texts. Each comes from its file, or from the next argument."""
    waiting = [argument for argument in arguments if argument is not None]
    if old_file == new_file == "-":
        raise click.UsageError("Only one of --old-file and --new-file can be -.")
    if old_file is None and not waiting:
        raise click.UsageError("Missing argument 'OLD'. Pass it, or --old-file.")
    old = text_of_file(old_file) if old_file is not None else waiting.pop(0)
    new = text_of_file(new_file) if new_file is not None else waiting.pop(0) if waiting else ""
    if waiting:
        raise click.UsageError("A text was passed twice, as an argument and as a file.")
    return old, new
