"""`ls`, `view`, `cat`, `create`, `replace`, `insert`, `rm`, `mv`: reading and changing memories."""

from __future__ import annotations

from collections.abc import Sequence

import click

from retentive.cli import layouts, output
from retentive.cli.exits import status_of
from retentive.cli.location import Location, pass_location
from retentive.cli.parameters import FORMS, Moment, line_range, moment_option, text_of_file, text_or_stdin
from retentive.engine.handlers import RunView
from retentive.engine.operation import Invocation
from retentive.engine.queries import ListMemories, parsed
from retentive.engine.rendering import rendered
from retentive.errors import NotFound, Refused
from retentive.history.operations import AsOf
from retentive.storage.contract import Memory
from retentive.store import MemoryStore
from retentive.values.commands import View, parse
from retentive.values.listing import human_size
from retentive.values.paths import ROOT
from retentive.values.replies import Reply
from retentive.values.text import LineCounts

_as_of_option = moment_option("--as-of", text=f"Show the state at a time ({FORMS}), or right after a version.")


@click.command(cls=output.Command)
@click.argument("path", default=ROOT)
@click.option("--all", "show_all", is_flag=True, help="On a terminal, show hidden memories too (.name, node_modules).")
@_as_of_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with ids, hashes and times.")
@pass_location
def ls(location: Location, path: str, *, show_all: bool, as_of: Moment | None, as_json: bool) -> None:
    """List the memories below PATH, at any depth.

    Prints a table on a terminal. In a pipe each line has the size in bytes and the path of a memory, separated by a
    tab; hidden memories are included.
    """
    with location.existing() as store:
        found = _memories(store, path) if as_of is None else _past_memories(store, path, as_of)
    output.emit(
        map(_memory_object, found),
        as_json=as_json,
        plain=((str(memory.size_bytes), memory.path) for memory in found),
        shown=_shown(path, found, show_all=show_all),
    )


@click.command(cls=output.Command)
@click.argument("path", default=ROOT)
@click.option(
    "--range",
    "view_range",
    metavar="A:B",
    callback=line_range,
    help="Show only these lines of a memory: 10:20, 10: or 10.",
)
@_as_of_option
@output.json_option
@pass_location
def view(
    location: Location, path: str, *, view_range: tuple[int, int] | None, as_of: Moment | None, as_json: bool
) -> None:
    """Show a memory with line numbers, or list a directory.

    Prints exactly the reply a model gets. A directory is listed two levels deep.
    """
    given: dict[str, object] = {"command": "view", "path": path, "view_range": view_range}
    with location.existing() as store:
        reply = store.execute(given) if as_of is None else _past_view(store, given, as_of)
        output.end(reply, as_json=as_json)


@click.command(cls=output.Command)
@click.argument("path")
@_as_of_option
@output.json_option
@pass_location
def cat(location: Location, path: str, *, as_of: Moment | None, as_json: bool) -> None:
    """Print the exact bytes of a memory."""
    with location.existing() as store:
        text = store.text(path) if as_of is None else store.history.text_at(path, as_of)[1]
    if as_json:
        output.end(Reply(text), as_json=True)
    output.write(text.encode())


@click.command(cls=output.Command)
@click.argument("path")
@click.argument("text", required=False)
@output.json_option
@pass_location
def create(location: Location, path: str, text: str | None, *, as_json: bool) -> None:
    """Create a memory at PATH from TEXT or from standard input.

    Creates the location and the memory store if they do not exist.
    """
    given = {"command": "create", "path": path, "file_text": text_or_stdin(text)}
    with location.created(sweep=True) as store:
        output.end(store.execute(given), as_json=as_json)


@click.command(cls=output.Command)
@click.argument("path")
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.option("--old-file", metavar="FILE", help="Read OLD from this file; - is standard input.")
@click.option("--new-file", metavar="FILE", help="Read NEW from this file; - is standard input.")
@output.json_option
@pass_location
def replace(
    location: Location,
    path: str,
    old: str | None,
    new: str | None,
    *,
    old_file: str | None,
    new_file: str | None,
    as_json: bool,
) -> None:
    """Replace OLD, which must occur exactly once in the memory, by NEW.

    Without NEW, OLD is removed. With --old-file, the argument after PATH is NEW.
    """
    old_text, new_text = _old_and_new([old, new], old_file, new_file)
    given = {"command": "str_replace", "path": path, "old_str": old_text, "new_str": new_text}
    with location.existing(sweep=True) as store:
        output.end(store.execute(given), as_json=as_json)


@click.command(cls=output.Command)
@click.argument("path")
@click.argument("line", type=int)
@click.argument("text", required=False)
@output.json_option
@pass_location
def insert(location: Location, path: str, line: int, text: str | None, *, as_json: bool) -> None:
    """Insert TEXT, or standard input, after line LINE of a memory.

    The text becomes whole lines. LINE 0 inserts at the top.
    """
    given = {"command": "insert", "path": path, "insert_line": line, "insert_text": text_or_stdin(text)}
    with location.existing(sweep=True) as store:
        output.end(store.execute(given), as_json=as_json)


@click.command(cls=output.Command)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@output.json_option
@pass_location
def rm(location: Location, paths: Sequence[str], *, as_json: bool) -> None:
    """Delete memories, or directories with everything below them.

    A directory is deleted as a whole or not at all. After an error, rm goes on with the next PATH; the exit status is
    that of the first error.
    """
    first_error = 0
    with location.existing(sweep=True) as store:
        for path in paths:
            reply = store.execute({"command": "delete", "path": path})
            output.emit_reply(reply, as_json=as_json)
            if reply.is_error:
                first_error = first_error or status_of(reply.code)
    raise click.exceptions.Exit(first_error)


@click.command(cls=output.Command)
@click.argument("old_path", metavar="OLD")
@click.argument("new_path", metavar="NEW")
@output.json_option
@pass_location
def mv(location: Location, old_path: str, new_path: str, *, as_json: bool) -> None:
    """Rename a memory, or a directory with everything below it.

    NEW is the complete new path and must not exist.
    """
    given = {"command": "rename", "old_path": old_path, "new_path": new_path}
    with location.existing(sweep=True) as store:
        output.end(store.execute(given), as_json=as_json)


def _memories(store: MemoryStore, path: str) -> list[Memory]:
    target = parsed(path, store.replies)
    found = store.run(ListMemories(target, or_at=True), Invocation(None, None, store.integration)).value()
    if not found and not target.is_root:
        raise NotFound(f"{path} does not exist")
    return found


def _shown(path: str, found: Sequence[Memory], *, show_all: bool) -> list[output.Piece]:
    """The table for a terminal, without hidden memories, and a line that counts them."""
    shown = [memory for memory in found if show_all or not _is_hidden(memory.path, path)]
    rows = ((human_size(each.size_bytes), output.local_time(each.updated_at), each.path) for each in shown)
    hidden = len(found) - len(shown)
    return [
        layouts.Table(("size", "changed", "path"), rows, empty="" if hidden else "No memories."),
        f"{hidden} hidden; --all shows them." if hidden else "",
    ]


def _is_hidden(path: str, below: str) -> bool:
    """True if a view of the directory `below` omits the memory, at any level."""
    names = path[len(below.rstrip("/")) :].split("/")
    return any(name.startswith(".") or name == "node_modules" for name in names)


def _memory_object(memory: Memory) -> dict[str, object]:
    return {
        "id": memory.id,
        "path": memory.path,
        "size_bytes": memory.size_bytes,
        "sha256": memory.sha256,
        "version_id": memory.version_id,
        "created_at": output.timestamp(memory.created_at),
        "updated_at": output.timestamp(memory.updated_at),
    }


def _past_view(store: MemoryStore, given: dict[str, object], at: Moment) -> Reply:
    """Reply to a view of a past state. Raises `NotFound` and `InvalidInput` as `History.at`."""
    try:
        command = parse(given)
    except Refused as refusal:
        return store.replies.error(refusal.key, refusal.values)
    assert isinstance(command, View)
    operation = RunView(command, LineCounts())
    outcome = store.run(AsOf(operation, at), Invocation(None, None, store.integration))
    if outcome.error is not None and not isinstance(outcome.error, Refused):
        raise outcome.error
    return rendered(store, operation, outcome)


def _past_memories(store: MemoryStore, path: str, at: Moment) -> list[Memory]:
    """Past memories below a directory, or the one at a path. Raises `NotFound`, `InvalidInput`."""
    target = parsed(path, store.replies)
    found = store.run(AsOf(ListMemories(target, or_at=True), at), Invocation(None, None, store.integration)).value()
    if not found and not target.is_root:
        raise NotFound(f"{path} did not exist at that time")
    return found


def _old_and_new(arguments: Sequence[str | None], old_file: str | None, new_file: str | None) -> tuple[str, str]:
    """The two texts, each from its file or from the next argument."""
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
